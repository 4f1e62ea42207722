"""Self-checks of the exercises, a file per notebook."""
