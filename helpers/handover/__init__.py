"""To other engines: rewards, rows, conversations; environments, there and back."""
