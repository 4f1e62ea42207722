"""Faster ways to the same numbers; each is off by one argument."""
