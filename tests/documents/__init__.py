"""What the pages tell to type: found, declared, and run as it is written (docs/adr/0018)."""
