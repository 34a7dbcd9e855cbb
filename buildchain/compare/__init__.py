"""Two media or two builds, compared."""
