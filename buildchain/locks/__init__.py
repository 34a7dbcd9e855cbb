"""What is locked: refreshed, compared with the pins, recorded for each build."""
