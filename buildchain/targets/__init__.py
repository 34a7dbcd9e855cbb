"""Generic shapes of doit tasks; they know nothing of the product."""
