"""Releases: what a checkout must be to make one, and the folder that is handed on."""
