"""The inputs of a build as one archive."""
