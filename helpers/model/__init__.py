"""One decoder in Flax NNX for every model of the course, and Hugging Face weights."""
