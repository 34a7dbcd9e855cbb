"""The modules that Salt loads from the tree, without Salt."""
