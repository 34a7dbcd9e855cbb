"""Images that come from registries."""
