"""One decoder in Flax NNX for every model of the course."""

from helpers.model import gguf, hub, lora, scoring, weights
from helpers.model.attention import KV
from helpers.model.config import KNOWN, ModelConfig
from helpers.model.transformer import Transformer, count_params

__all__ = [
    "KNOWN",  # configs of published models
    "KV",  # keys and values of a prefix
    "ModelConfig",  # the sizes of a model
    "Transformer",  # the decoder
    "count_params",  # how many numbers
    "gguf",  # files of llama.cpp, in and out
    "hub",  # fetch real models
    "lora",  # adapters
    "scoring",  # log-probabilities of given tokens
    "weights",  # Hugging Face folders, in and out
]
