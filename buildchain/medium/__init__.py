"""The medium: the tree of the ISO, its image, what is signed about it."""
