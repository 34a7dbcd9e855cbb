"""Machines to install on: Vagrant's, and virtual ones by hand."""
