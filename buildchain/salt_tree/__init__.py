"""The Salt tree as it is on the ISO."""
