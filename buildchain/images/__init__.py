"""Container images that are built here, and the configuration of their registry."""
