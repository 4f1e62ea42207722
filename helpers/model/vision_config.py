"""The shape of a tower that sees, read from and written to `config.json`."""

import math
from dataclasses import dataclass

# Our name of each size of the tower, theirs, and what transformers assumes.
TOWER = {
    "width": ("hidden_size", 768),
    "layers": ("num_hidden_layers", 12),
    "heads": ("num_attention_heads", 12),
    "ff": ("intermediate_size", 3072),
    "patch": ("patch_size", 16),
    "size": ("image_size", 224),
    "norm_eps": ("layer_norm_eps", 1e-6),
}
# The same beside the tower; transformers 4 and 5 have two spellings of the tokens.
BESIDE = {
    "tokens": ("mm_tokens_per_image", 256),
    "image_token": ("image_token_index", 262_144),
    "begin_token": ("boi_token_index", 255_999),
    "end_token": ("eoi_token_index", 256_000),
}


# More than any model has; lists of more would be made before a file is looked into.
MOST_LAYERS = 1000


class UnsupportedModel(ValueError):
    """The folder's config.json asks for something this decoder does not do."""


def check_layers(count, name: str):
    """Raises on a number of layers that no model has.

    Args:
      name: the field's.
    """
    if type(count) is not int or not 0 < count <= MOST_LAYERS:
        raise UnsupportedModel(f"{name}={count!r} is not from 1 to {MOST_LAYERS:,}.")


def check_tower(tower, sizes=()):
    """Raises on numbers of a tower that no tower has.

    Args:
      tower: its VisionConfig, or Gemma 4's.
      sizes: names of those that only it has.
    """
    check_layers(tower.layers, "vision num_hidden_layers")
    for name in ("width", "heads", "ff", "patch", *sizes):
        size = getattr(tower, name)
        if type(size) is not int or size < 1:
            raise UnsupportedModel(f"vision {name}={size!r} is not a size above 0.")
    eps = tower.norm_eps
    if type(eps) not in (int, float) or not 0 <= eps < math.inf:
        raise UnsupportedModel(f"vision norm eps={eps!r} is not a number from 0 on.")


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of a SigLIP tower (2303.15343) and of Gemma 3's way from it to the decoder.

    A picture of `size` × `size` pixels is cut into patches of `patch` × `patch`; their
    embeddings are averaged to `tokens` image tokens. `image_token` is the id that holds
    the place of each of them, `begin_token` and `end_token` stand around an image.
    """

    width: int
    layers: int
    heads: int
    ff: int
    patch: int
    size: int
    tokens: int
    image_token: int
    begin_token: int
    end_token: int
    norm_eps: float = 1e-6

    def __post_init__(self):
        check_tower(self)
        if self.width % self.heads:
            raise UnsupportedModel(
                f"vision hidden_size {self.width} is no multiple of its "
                f"num_attention_heads {self.heads}."
            )
        if self.size % self.patch or self.side**2 != self.tokens:
            raise UnsupportedModel(
                f"image_size {self.size} must be a multiple of patch_size {self.patch},"
                f" and mm_tokens_per_image {self.tokens} a square."
            )
        if self.grid % self.side:
            raise UnsupportedModel(
                f"{self.grid} × {self.grid} patches cannot be averaged to "
                f"mm_tokens_per_image {self.tokens} = {self.side} × {self.side}."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a picture's array, uint8."""
        return self.size, self.size, 3

    @property
    def marker(self) -> int:
        """The token that chat templates write for an image."""
        return self.begin_token

    @property
    def around(self) -> str:
        """What a prompt has on both sides of an image, as Gemma 3 reads it."""
        return "\n\n"

    def takes(self, part: dict) -> int:
        """How many image tokens an image in a message takes: all the same."""
        return self.tokens

    def images_in(self, run: int) -> list[int]:
        """The tokens of each image in an unbroken run of image tokens.

        Raises:
          ValueError: it is no whole number of images.
        """
        if run % self.tokens:
            raise ValueError(f"an image takes {self.tokens} tokens")
        return [self.tokens] * (run // self.tokens)

    def count(self, picture) -> int:
        """How many image tokens a picture takes: all the same."""
        return self.tokens

    @property
    def grid(self) -> int:
        """Patches along one side of a picture."""
        return self.size // self.patch

    @property
    def side(self) -> int:
        """Image tokens along one side of a picture."""
        return math.isqrt(self.tokens)

    @classmethod
    def from_hf(cls, hf: dict) -> "VisionConfig":
        """Reads the tower from a parsed `config.json` of Gemma 3.

        Raises:
          UnsupportedModel: there is none, or one of another kind.
        """
        tower = hf.get("vision_config")
        if hf.get("model_type") != "gemma3" or not tower:
            raise UnsupportedModel(
                f"model_type {hf.get('model_type')!r} has no vision that this knows: "
                "load it with vision=False, or take Gemma 3 4B or larger, or Gemma 4."
            )
        for field, known in (
            ("model_type", "siglip_vision_model"),
            ("hidden_act", "gelu_pytorch_tanh"),
            ("num_channels", 3),
        ):
            if tower.get(field, known) != known:
                raise UnsupportedModel(
                    f"vision_config {field}={tower[field]!r}: this knows {known!r}."
                )
        sizes = {our: tower.get(name, usual) for our, (name, usual) in TOWER.items()}
        for our, (name, usual) in BESIDE.items():
            new_name = name.replace("token_index", "token_id")
            sizes[our] = hf.get(name, hf.get(new_name, usual))
        return cls(**sizes)

    def to_hf(self, text: dict) -> dict:
        """The `config.json` of the whole model, from that of its text half."""
        tower = {name: getattr(self, our) for our, (name, _) in TOWER.items()}
        return {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "text_config": text,
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_act": "gelu_pytorch_tanh",
                "num_channels": 3,
                "vision_use_head": False,
                **tower,
            },
            **{name: getattr(self, our) for our, (name, _) in BESIDE.items()},
            "tie_word_embeddings": text["tie_word_embeddings"],
        }

    def preprocessor(self) -> dict:
        """The `preprocessor_config.json` that makes transformers' pixels ours."""
        return {
            "image_processor_type": "Gemma3ImageProcessor",
            "processor_class": "Gemma3Processor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": {"height": self.size, "width": self.size},
            "resample": 2,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "do_pan_and_scan": None,
            "image_seq_length": self.tokens,
        }

    def processor(self) -> dict:
        """The `processor_config.json` by which AutoProcessor spreads an image."""
        return {
            "processor_class": "Gemma3Processor",
            "image_seq_length": self.tokens,
        }

    def image_tokens(self) -> dict:
        """The ids of an image's tokens, by what transformers calls their entries."""
        return {
            "boi_token": self.begin_token,
            "eoi_token": self.end_token,
            "image_token": self.image_token,
        }
