"""The bill of materials of the ISO."""
