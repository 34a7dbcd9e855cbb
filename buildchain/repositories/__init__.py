"""Package repositories, and the proof that every role installs from them alone."""
