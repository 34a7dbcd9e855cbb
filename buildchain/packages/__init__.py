"""Our own software packages, stage by stage."""
