"""Tests of the signatures that are made elsewhere."""
