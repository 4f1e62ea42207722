"""The shape of a tower that sees, read from and written to `config.json`."""

import math
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.model.folder import read_json

# What makes no difference to the numbers of a picture.
UNCHECKED = {"image_processor_type", "processor_class", "do_convert_rgb"}
# Our name of each size of the tower, theirs, and what transformers assumes.
GEMMA3_TOWER = {
    "width": ("hidden_size", 768),
    "layers": ("num_hidden_layers", 12),
    "heads": ("num_attention_heads", 12),
    "ff": ("intermediate_size", 3072),
    "patch": ("patch_size", 16),
    "size": ("image_size", 224),
    "norm_eps": ("layer_norm_eps", 1e-6),
}
# The same beside the tower; transformers 4 and 5 have two spellings of the tokens.
GEMMA3_BESIDE = {
    "tokens": ("mm_tokens_per_image", 256),
    "image_token": ("image_token_index", 262_144),
    "begin_token": ("boi_token_index", 255_999),
    "end_token": ("eoi_token_index", 256_000),
}


class UnsupportedModel(ValueError):
    """The folder's config.json asks for something this decoder does not do."""


def check_sizes(tower, *names):
    """Raises UnsupportedModel where a tower has a size that no tower has."""
    for name in ("width", "layers", "heads", "ff", "patch", *names):
        size = getattr(tower, name)
        if type(size) is not int or not 0 < size <= 2**20:
            raise UnsupportedModel(f"vision {name}={size!r} is not a size above 0.")
    eps = tower.norm_eps
    if type(eps) not in (int, float) or not 0 <= eps < 1:
        raise UnsupportedModel(f"vision norm eps={eps!r} is not a number from 0 to 1.")


def check_preprocessor(folder, tower):
    """Refuses a folder whose pictures would be other numbers in transformers.

    Args:
      folder: with a `preprocessor_config.json`, a `processor_config.json` that has the
        same in it, as transformers 5 writes it, both, or neither.
      tower: a VisionConfig or Gemma4VisionConfig.
    Raises:
      UnsupportedModel: naming the file and the setting.
      WeightsError: a file is not JSON.
    """
    ours = {
        name: x for name, x in tower.preprocessor().items() if name not in UNCHECKED
    }
    if "max_soft_tokens" in ours:  # then the number of tokens follows from the picture
        del ours["image_seq_length"]
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = pathlib.Path(folder) / name
        settings = read_json(path) if path.is_file() else {}
        if name == "processor_config.json":
            settings = settings.get("image_processor") or {}
        for key, value in ours.items():
            given = settings.get(key)
            if given is not None and not _same(given, value):
                raise UnsupportedModel(
                    f"{name}: {key}={given!r}, and pictures are prepared with {value!r}"
                    " here. Load the model with vision=False and give it no pictures, "
                    "or correct the file if it is another model's."
                )


def _same(given, value):
    if isinstance(value, float | list):
        return np.shape(given) in ((), np.shape(value)) and np.allclose(given, value)
    return given == (value or False)


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
        check_sizes(self, "size", "tokens")
        if (
            self.width % self.heads
            or self.size % self.patch
            or self.side**2 != self.tokens
            or self.grid % self.side
        ):
            raise UnsupportedModel(
                f"A vision tower of width {self.width} with {self.heads} heads, whose "
                f"pictures of {self.size} pixels are cut into patches of {self.patch} "
                f"and averaged to {self.tokens} tokens: these do not divide."
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
        fields = GEMMA3_TOWER.items()
        sizes: dict = {our: tower.get(name, usual) for our, (name, usual) in fields}
        for our, (name, usual) in GEMMA3_BESIDE.items():
            new_name = name.replace("token_index", "token_id")
            sizes[our] = hf.get(name, hf.get(new_name, usual))
        return cls(**sizes)

    def to_hf(self, text: dict) -> dict:
        """The `config.json` of the whole model, from that of its text half."""
        tower = {name: getattr(self, our) for our, (name, _) in GEMMA3_TOWER.items()}
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
            **{name: getattr(self, our) for our, (name, _) in GEMMA3_BESIDE.items()},
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


BUDGETS = (70, 140, 280, 560, 1120)  # most image tokens of a picture
DIGITS = 256  # sizes are two bytes, the higher one first


class PictureTooLong(ValueError):
    """A picture is so narrow that no shape of the budget comes close to it."""


def scaled_size(height, width, side, budget):
    """(height, width) in pixels, multiples of `side`, that a picture is scaled to.

    The largest that keep about its aspect ratio and are no more than `budget` squares;
    as transformers' image processor of Gemma 4 rounds them.

    Raises:
      PictureTooLong: a strip one square wide would not hold it.
      ValueError: the picture is empty.
    """
    if height < 1 or width < 1:
        raise ValueError(f"A picture of {height} by {width} pixels shows nothing.")
    scale = math.sqrt(budget * side**2 / (height * width))
    rows, columns = (math.floor(scale * size / side) for size in (height, width))
    if not rows and not columns:
        raise PictureTooLong(f"A budget of {budget} squares holds no picture.")
    if not rows:
        rows, columns = 1, min(width // height, budget)
    elif not columns:
        rows, columns = min(height // width, budget), 1
    return rows * side, columns * side


def to_strip(pixels, side, budget):
    """Cuts a picture into its strip.

    Args:
      pixels: uint8 (H, W, 3), both multiples of `side`.
    Returns:
      uint8 ((budget + 1) · side, side, 3).
    Raises:
      ValueError: another shape or dtype, or more squares than the budget.
    """
    pixels = np.asarray(pixels)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(
            f"A picture is {pixels.dtype}{pixels.shape}: pass uint8 (H, W, 3)."
        )
    rows, columns = (size // side for size in pixels.shape[:2])
    fits = (rows * side, columns * side) == pixels.shape[:2]
    if not fits or not 0 < rows * columns <= budget:
        raise ValueError(
            f"A picture of {pixels.shape[0]} × {pixels.shape[1]} pixels is not 1 to "
            f"{budget} whole squares of {side}: pass it through images.fit_whole."
        )
    found = np.zeros((budget + 1, side, side, 3), np.uint8)
    found[0, 0, 0, :2] = divmod(columns, DIGITS)
    found[0, 0, 1, :2] = divmod(rows, DIGITS)
    cut = pixels.reshape(rows, side, columns, side, 3).swapaxes(1, 2)
    found[1 : 1 + rows * columns] = cut.reshape(-1, side, side, 3)
    return found.reshape(-1, side, 3)


def grids(strips):
    """How many squares wide and high the pictures are, int32 (..., 2); 0 of none.

    Args:
      strips: uint8 (..., H, W, 3), an array of NumPy or of JAX.
    """
    digits = strips[..., 0, :2, :2].astype(np.int32)
    return digits[..., 0] * DIGITS + digits[..., 1]


def counts(strips):
    """How many image tokens the pictures take, int32 (...); 0 where there is none."""
    return grids(strips).prod(axis=-1)


# Our name of each size of the tower, theirs, and what transformers assumes.
GEMMA4_TOWER = {
    "width": ("hidden_size", 768),
    "layers": ("num_hidden_layers", 16),
    "heads": ("num_attention_heads", 12),
    "kv_heads": ("num_key_value_heads", 12),
    "head_dim": ("head_dim", 64),
    "ff": ("intermediate_size", 3072),
    "patch": ("patch_size", 16),
    "pool": ("pooling_kernel_size", 3),
    "positions": ("position_embedding_size", 10_240),
    "clipped": ("use_clipped_linears", False),
    "standardized": ("standardize", False),
    "norm_eps": ("rms_norm_eps", 1e-6),
}
# The same beside the tower.
GEMMA4_BESIDE = {
    "image_token": ("image_token_id", 258_880),
    "begin_token": ("boi_token_id", 255_999),
    "end_token": ("eoi_token_id", 258_882),
    "budget": ("vision_soft_tokens_per_image", 280),
}
BOTH_WAYS = "use_bidirectional_attention"


@dataclass(frozen=True)
class Gemma4VisionConfig:
    """Sizes of Gemma 4's tower, and of the way from it to the decoder.

    A picture of any aspect ratio is cut into patches of `patch` × `patch` pixels, whose
    columns and rows have an embedding for each of `positions` numbers; squares of
    `pool` × `pool` patches are averaged to one image token each.

    clipped: what goes into a product and comes out of it is kept within bounds.
    standardized: a fixed vector is taken off image tokens, and another one scales them.
    both_ways: in the decoder's local layers, tokens of one image see each other in both
      directions; else, and in full layers always, they see as text does.
    image_token: holds the place of an image token; begin_token and end_token stand
      around an image. pad_token: whose per-layer vectors image tokens have.
    budget: most image tokens of a picture; any of `BUDGETS`. It is of
      the pictures, not of the weights: `dataclasses.replace(vision, budget=560)`.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    patch: int
    pool: int
    positions: int
    image_token: int
    begin_token: int
    end_token: int
    pad_token: int = 0
    budget: int = 280
    both_ways: bool = False
    clipped: bool = False
    standardized: bool = False
    rope_theta: float = 100.0
    norm_eps: float = 1e-6

    def __post_init__(self):
        check_sizes(self, "kv_heads", "head_dim", "pool", "positions", "budget")
        for name in ("clipped", "standardized"):
            if type(value := getattr(self, name)) is not bool:
                raise UnsupportedModel(f"vision {name}={value!r} is not true or false.")
        # Positions rotate pairs, half of them by the column and half by the row.
        if self.heads % self.kv_heads or self.head_dim % 4 or self.pool < 2:
            raise UnsupportedModel(
                f"A vision tower with {self.heads} heads, {self.kv_heads} key heads of "
                f"width {self.head_dim} and pooling of {self.pool} is not supported: "
                "heads must be a multiple of key heads, widths of 4, pooling 2 or more."
            )

    def check_tokens(self, vocab_size: int) -> None:
        """Raises UnsupportedModel where ids of pictures are not in the vocabulary."""
        ids = self.image_token, self.begin_token, self.end_token
        for token in (*ids, self.pad_token):
            if type(token) is not int or not 0 <= token < vocab_size:
                raise UnsupportedModel(
                    f"token id {token!r} of pictures is not one of the {vocab_size} "
                    "tokens of the vocabulary."
                )
        if len(set(ids)) < len(ids):
            raise UnsupportedModel(
                f"image_token_id, boi_token_id and eoi_token_id are {ids}: all three "
                "must differ."
            )

    @property
    def side(self) -> int:
        """Pixels along one side of the square that an image token stands for."""
        return self.patch * self.pool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a picture's array, uint8: a strip."""
        return (self.budget + 1) * self.side, self.side, 3

    @property
    def marker(self) -> int:
        """The token that chat templates write for an image."""
        return self.image_token

    @property
    def around(self) -> str:
        """What a prompt has on both sides of an image: nothing."""
        return ""

    def takes(self, part: dict) -> int:
        """How many image tokens an image in a message takes, by its "shape".

        Raises:
          ValueError: it says no shape, or see `target`.
        """
        if "shape" not in part:
            raise ValueError(
                "An image of the conversation does not say its shape, from which "
                "Gemma 4's number of image tokens follows. Write it as {'type': "
                "'image', 'shape': [height, width]}, or pass the messages through "
                "helpers.batches.images.shaped(messages, pictures)."
            )
        height, width = self.target(*part["shape"])
        return height * width // self.side**2

    def images_in(self, run: int) -> list[int]:
        """The tokens of each image in an unbroken run of image tokens: it is one.

        Raises:
          ValueError: it is longer than the budget.
        """
        if run > self.budget:
            raise ValueError(f"an image takes at most {self.budget} tokens")
        return [run]

    def target(self, height, width) -> tuple[int, int]:
        """(height, width) in pixels that a picture of this shape is scaled to.

        Raises:
          UnsupportedModel: the budget is none of those that the model was made for.
          PictureTooLong: it is too narrow for the budget.
        """
        if self.budget not in BUDGETS:
            raise UnsupportedModel(
                f"budget={self.budget}: Gemma 4 sees pictures in at most "
                f"{', '.join(map(str, BUDGETS))} tokens."
            )
        return scaled_size(height, width, self.side, self.budget)

    def strip(self, pixels) -> np.ndarray:
        """A picture that has a `target`'s shape, as `to_strip`."""
        return to_strip(pixels, self.side, self.budget)

    def count(self, picture) -> int:
        """How many image tokens a picture, a strip, takes; 0 of a black one."""
        return int(counts(picture))

    def place(self, picture) -> list[int]:
        """The ids that stand for a picture, a strip, in a prompt: begin to end."""
        soft = [self.image_token] * self.count(picture)
        return [self.begin_token, *soft, self.end_token]

    @classmethod
    def from_hf(cls, hf: dict) -> "Gemma4VisionConfig":
        """Reads the tower from a parsed `config.json` of Gemma 4.

        Raises:
          UnsupportedModel: there is none, or one of another kind.
        """
        tower, text = hf.get("vision_config"), hf.get("text_config") or {}
        if not tower:
            raise UnsupportedModel(
                "This Gemma 4 has no vision_config: load it with vision=False, and "
                "give it no pictures."
            )
        rope = tower.get("rope_parameters") or {}
        for field, value, known in (
            ("model_type", tower.get("model_type"), ("gemma4_vision",)),
            ("attention_bias", tower.get("attention_bias"), (False,)),
            ("hidden_activation", tower.get("hidden_activation"), (_GELU,)),
            # Of two axes; the first folders call it "default".
            ("rope_type", rope.get("rope_type"), ("axial", "default")),
        ):
            if value is not None and value not in known:
                raise UnsupportedModel(
                    f"vision_config {field}={value!r}: this knows {known[0]!r}."
                )
        sizes: dict[str, Any] = {
            our: tower.get(name, usual) for our, (name, usual) in GEMMA4_TOWER.items()
        }
        for our, (name, usual) in GEMMA4_BESIDE.items():
            sizes[our] = usual if hf.get(name) is None else hf[name]
        return cls(
            **sizes,
            pad_token=0 if text.get("pad_token_id") is None else text["pad_token_id"],
            both_ways=text.get(BOTH_WAYS) == "vision",
            rope_theta=float(rope.get("rope_theta", 100.0)),
        )

    def to_hf(self, text: dict) -> dict:
        """The `config.json` of the whole model, from that of its text half."""
        own: dict[str, Any] = {"pad_token_id": self.pad_token}
        own[BOTH_WAYS] = "vision" if self.both_ways else None
        return {
            "architectures": ["Gemma4ForConditionalGeneration"],
            "model_type": "gemma4",
            "text_config": text | own,
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_activation": _GELU,
                "rope_parameters": {
                    "rope_type": "axial",
                    "rope_theta": self.rope_theta,
                },
                **{name: getattr(self, our) for our, (name, _) in GEMMA4_TOWER.items()},
            },
            "audio_config": None,
            **{name: getattr(self, our) for our, (name, _) in GEMMA4_BESIDE.items()},
            "tie_word_embeddings": text["tie_word_embeddings"],
        }

    def preprocessor(self) -> dict:
        """The `preprocessor_config.json` that makes transformers' pixels ours."""
        return {
            "image_processor_type": "Gemma4ImageProcessor",
            "processor_class": "Gemma4Processor",
            "do_convert_rgb": True,
            "do_resize": True,
            "resample": 3,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": False,
            "patch_size": self.patch,
            "pooling_kernel_size": self.pool,
            "max_soft_tokens": self.budget,
            "image_seq_length": self.budget,
        }

    def processor(self) -> dict:
        """The `processor_config.json` by which AutoProcessor spreads an image."""
        return {"processor_class": "Gemma4Processor", "image_seq_length": self.budget}

    def image_tokens(self) -> dict:
        """The ids of an image's tokens, by what transformers calls their entries.

        Its processor (5.23) takes no picture where nothing is named that stands around
        sounds. No sound is heard all the same: there is no "audio_token" here.
        """
        return {
            "boi_token": self.begin_token,
            "eoi_token": self.end_token,
            "image_token": self.image_token,
            "boa_token": self.begin_token,
            "eoa_token": self.end_token,
        }


_GELU = "gelu_pytorch_tanh"
