"""What happens in a build, as plain typed functions; doit is not known here."""
