"""Content-addressed storage of everything that is fetched, and pulls from registries."""
