"""One decoder in Flax NNX for every model of the course."""

from helpers.model import (
    gguf,  # files of llama.cpp, in and out
    hub,  # fetch real models
    lora,  # adapters
    scoring,  # log-probabilities of given tokens
    weights,  # Hugging Face folders, in and out
)
from helpers.model.attention import KV  # keys and values of a prefix
from helpers.model.config import (
    KNOWN,  # configs of published models
    ModelConfig,  # the sizes of a model
)
from helpers.model.transformer import (
    Transformer,  # the decoder
    count_params,  # how many numbers
)
