"""Mutants of official solutions that are right answers, too."""

SAME: dict[str, set[str]] = {}
