"""What the course's makers run: the shipped checkpoints, the seeds, the benchmark."""
