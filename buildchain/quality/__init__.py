"""Checks of the project itself: linters, tests, benches."""
