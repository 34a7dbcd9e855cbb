"""The machine that builds: its tools, its Docker engine."""
