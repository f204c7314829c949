"""Experiments: reading, running, storing and reporting."""
