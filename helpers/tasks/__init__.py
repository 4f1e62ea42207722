"""The course's tasks: each room gives rows, a prompt and an answer to check against."""
