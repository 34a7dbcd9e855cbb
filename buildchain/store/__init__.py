"""Content-addressed storage of everything that is fetched."""
