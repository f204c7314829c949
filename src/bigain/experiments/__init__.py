"""Experiments: read, run, stored, reported."""
