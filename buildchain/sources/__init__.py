"""The sources of what we compile, on a medium of their own."""
