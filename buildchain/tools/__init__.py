"""Argument lists for outside programs and parsers of what they print; nothing here runs them."""
