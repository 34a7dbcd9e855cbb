"""Unit tests: no network, no root, no Docker; the whole ring in seconds."""
