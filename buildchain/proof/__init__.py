"""The proof that the medium is complete, and that what is said of vulnerabilities is true."""
