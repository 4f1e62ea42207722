"""From here to other engines: rewards, rows, and conversations with tools."""
