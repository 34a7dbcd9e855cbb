"""Debian packages of other people: resolved, locked, and the base of images made of them."""
