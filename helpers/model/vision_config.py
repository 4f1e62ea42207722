"""The shape of a tower that sees, read from and written to `config.json`."""

import dataclasses
import functools
import math
import pathlib
from dataclasses import dataclass

import numpy as np

from helpers.model.families import FIELDS
from helpers.model.folder import read_json

GELU = "gelu_pytorch_tanh"
# The image processors' settings; `preprocessor` adds the sizes.
_PROCESSORS = FIELDS["preprocessors"]
# What makes no difference to the numbers of a picture.
UNCHECKED = set(
    "image_processor_type processor_class do_convert_rgb image_seq_length".split()
)
# What the tower of Gemma 3 has to be.
SIGLIP = FIELDS["siglip"]


class UnsupportedModel(ValueError):
    """The folder's config.json asks for something this decoder does not do."""


def require_values(fields, accepted):
    """Refuses fields that ask for something else than the values that are known.

    Args:
      fields: {name: value}; None or missing is whatever is usual.
      accepted: {name: its values that are known here}.
    """
    for name, known in accepted.items():
        if (value := fields.get(name)) not in (None, *known):
            raise UnsupportedModel(f"{name}={value!r}: this knows {known[0]!r}.")


def named(name, usual=dataclasses.MISSING, place=""):
    """A field by its name in config.json.

    Args:
      usual: what transformers assumes; without it, the field has to be there.
      place: the part of the file that it is in; "": the file itself.
    """
    return dataclasses.field(default=usual, metadata={"name": name, "place": place})


in_tower = functools.partial(named, place="vision_config")


def read_named(cls, hf):
    """{field: value} of the named fields of a dataclass that a config.json has."""
    named = {x.name: x.metadata for x in dataclasses.fields(cls) if x.metadata}
    parts = {"": hf, "vision_config": hf.get("vision_config")}
    values = {field: parts[x["place"]].get(x["name"]) for field, x in named.items()}
    return {field: value for field, value in values.items() if value is not None}


def written(config, place=""):
    """{name in config.json: value}; undoes `read_named`."""
    return {
        x.metadata["name"]: getattr(config, x.name)
        for x in dataclasses.fields(config)
        if x.metadata.get("place") == place
    }


def image_tokens(tower) -> dict:
    """The ids of an image's tokens, by what transformers calls their entries.

    Gemma 4's processor (5.23) takes no picture where nothing is named that stands
    around sounds. Our models still read no sounds: there is no "audio_token" here.
    """
    if tower is None:
        return {}
    begin, end = tower.begin_token, tower.end_token
    tokens = {"boi_token": begin, "eoi_token": end, "image_token": tower.image_token}
    sounds = {"boa_token": begin, "eoa_token": end}
    return tokens | sounds if isinstance(tower, Gemma4VisionConfig) else tokens


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
    ours = tower.preprocessor()
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = pathlib.Path(folder) / name
        settings = read_json(path) if path.is_file() else {}
        settings = settings.get("image_processor") or settings
        for key in sorted(ours.keys() - UNCHECKED):
            given, value = settings.get(key), ours[key] or False
            if given is not None and given != value:
                raise UnsupportedModel(
                    f"{name}: {key}={given!r}, and pictures are prepared with {value!r}"
                    " here. Load the model with vision=False and give it no pictures."
                )


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of a SigLIP tower (2303.15343) and of Gemma 3's way from it to the decoder.

    A picture of `size` × `size` pixels is cut into patches of `patch` × `patch`; their
    embeddings are averaged to `tokens` image tokens. `image_token` is the id that holds
    the place of each of them, `begin_token` and `end_token` stand around an image.
    """

    width: int = in_tower("hidden_size", 768)
    layers: int = in_tower("num_hidden_layers", 12)
    heads: int = in_tower("num_attention_heads", 12)
    ff: int = in_tower("intermediate_size", 3072)
    patch: int = in_tower("patch_size", 16)
    size: int = in_tower("image_size", 224)
    tokens: int = named("mm_tokens_per_image", 256)
    image_token: int = named("image_token_index", 262_144)
    begin_token: int = named("boi_token_index", 255_999)
    end_token: int = named("eoi_token_index", 256_000)
    norm_eps: float = in_tower("layer_norm_eps", 1e-6)
    around = "\n\n"  # what a prompt has on both sides of an image

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a picture's array, uint8."""
        return self.size, self.size, 3

    @property
    def marker(self) -> int:
        """The token that chat templates write for an image."""
        return self.begin_token

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
          UnsupportedModel: it is of another kind.
        """
        require_values(hf["vision_config"], {name: (x,) for name, x in SIGLIP.items()})
        # transformers 4 calls the tokens token_index, 5 token_id.
        hf = {name.replace("token_id", "token_index"): x for name, x in hf.items()}
        return cls(**read_named(cls, hf))

    def to_hf(self, text: dict) -> dict:
        """The `config.json` of the whole model, from that of its text half."""
        return {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "text_config": text,
            "vision_config": SIGLIP | written(self, "vision_config"),
            **written(self),
            "tie_word_embeddings": text["tie_word_embeddings"],
        }

    def preprocessor(self) -> dict:
        """The `preprocessor_config.json` that makes transformers' pixels ours."""
        return _PROCESSORS["gemma3"] | {
            "size": {"height": self.size, "width": self.size},
            "image_seq_length": self.tokens,
        }


BUDGETS = (70, 140, 280, 560, 1120)  # most image tokens of a picture
DIGITS = 256  # sizes are two bytes, the higher one first


def grids(strips):
    """How many squares wide and high the pictures are, int32 (..., 2); 0 of none.

    Args:
      strips: uint8 (..., H, W, 3), an array of NumPy or of JAX.
    """
    digits = strips[..., 0, :2, :2].astype(np.int32)
    return digits[..., 0] * DIGITS + digits[..., 1]


@dataclass(frozen=True)
class Gemma4VisionConfig:
    """Sizes of Gemma 4's tower, and of the way from it to the decoder.

    A picture of any aspect ratio is cut into patches of `patch` × `patch` pixels, whose
    columns and rows have an embedding for each of `positions` numbers; squares of
    `pool` × `pool` patches are averaged to one image token each.

    clipped: what goes into a product and comes out of it is clipped to bounds.
    standardized: a fixed vector is taken off image tokens, and another one scales them.
    both_ways: in the decoder's local layers, tokens of one image see each other in both
      directions; else, and in full layers always, they see as text does.
    image_token: holds the place of an image token; begin_token and end_token stand
      around an image. pad_token: whose per-layer vectors image tokens have.
    budget: most image tokens of a picture; any of `BUDGETS`. It is of
      the pictures, not of the weights: `dataclasses.replace(vision, budget=560)`.
    """

    width: int = in_tower("hidden_size", 768)
    layers: int = in_tower("num_hidden_layers", 16)
    heads: int = in_tower("num_attention_heads", 12)
    kv_heads: int = in_tower("num_key_value_heads", 12)
    head_dim: int = in_tower("head_dim", 64)
    ff: int = in_tower("intermediate_size", 3072)
    patch: int = in_tower("patch_size", 16)
    pool: int = in_tower("pooling_kernel_size", 3)
    positions: int = in_tower("position_embedding_size", 10_240)
    image_token: int = named("image_token_id", 258_880)
    begin_token: int = named("boi_token_id", 255_999)
    end_token: int = named("eoi_token_id", 258_882)
    pad_token: int = 0
    budget: int = named("vision_soft_tokens_per_image", 280)
    both_ways: bool = False
    clipped: bool = in_tower("use_clipped_linears", False)
    standardized: bool = in_tower("standardize", False)
    rope_theta: float = 100.0
    norm_eps: float = in_tower("rms_norm_eps", 1e-6)
    around = ""  # what a prompt has on both sides of an image

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

    def takes(self, part: dict) -> int:
        """How many image tokens an image in a message takes, by its "shape".

        Raises:
          ValueError: it says no shape.
        """
        if "shape" not in part:
            raise ValueError(
                "An image of the conversation does not say its shape, which Gemma 4 "
                "needs: pass the messages through images.shaped(messages, pictures)."
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

        The largest multiples of `side` that keep about its aspect ratio and are no more
        than `budget` squares; as transformers' image processor of Gemma 4 rounds them.

        Raises:
          UnsupportedModel: the budget is none of those that the model was made for.
        """
        if self.budget not in BUDGETS:
            raise UnsupportedModel(
                f"budget={self.budget}: Gemma 4 was made for {BUDGETS}."
            )
        scale = math.sqrt(self.budget * self.side**2 / (height * width))
        rows, columns = (math.floor(scale * x / self.side) for x in (height, width))
        if not rows:
            rows, columns = 1, min(width // height, self.budget)
        elif not columns:
            rows, columns = min(height // width, self.budget), 1
        return rows * self.side, columns * self.side

    def strip(self, pixels) -> np.ndarray:
        """Cuts a picture into squares, one below the other, behind one with their grid.

        Args:
          pixels: uint8 (H, W, 3), as large as `target` says.
        Returns:
          uint8 ((budget + 1) · side, side, 3).
        """
        side = self.side
        rows, columns = (size // side for size in pixels.shape[:2])
        squares = np.zeros((self.budget + 1, side, side, 3), np.uint8)
        squares[0, 0, 0, :2] = divmod(columns, DIGITS)
        squares[0, 0, 1, :2] = divmod(rows, DIGITS)
        cut = pixels.reshape(rows, side, columns, side, 3).swapaxes(1, 2)
        squares[1 : 1 + rows * columns] = cut.reshape(-1, side, side, 3)
        return squares.reshape(-1, side, 3)

    def count(self, picture) -> int:
        """How many image tokens a picture, a strip, takes; 0 of a black one."""
        return int(grids(picture).prod())

    @classmethod
    def from_hf(cls, hf: dict) -> "Gemma4VisionConfig":
        """Reads the tower from a parsed `config.json` of Gemma 4.

        Raises:
          UnsupportedModel: it is of another kind.
        """
        seeing, text = hf["vision_config"], hf.get("text_config") or {}
        rope = seeing.get("rope_parameters") or {}
        known = {
            "model_type": ("gemma4_vision",),
            "attention_bias": (False,),
            "hidden_activation": (GELU,),
            "rope_type": ("axial", "default"),  # so the first folders call it
        }
        require_values(seeing | rope, known)
        return cls(
            **read_named(cls, hf),
            pad_token=text.get("pad_token_id") or 0,
            both_ways=text.get("use_bidirectional_attention") == "vision",
            rope_theta=float(rope.get("rope_theta", 100.0)),
        )

    def to_hf(self, text: dict) -> dict:
        """The `config.json` of the whole model, from that of its text half."""
        rope = {"rope_type": "axial", "rope_theta": self.rope_theta}
        of_pictures = {
            "pad_token_id": self.pad_token,
            "use_bidirectional_attention": "vision" if self.both_ways else None,
        }
        return {
            "architectures": ["Gemma4ForConditionalGeneration"],
            "model_type": "gemma4",
            "text_config": text | of_pictures,
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_activation": GELU,
                "rope_parameters": rope,
                **written(self, "vision_config"),
            },
            "audio_config": None,
            **written(self),
            "tie_word_embeddings": text["tie_word_embeddings"],
        }

    def preprocessor(self) -> dict:
        """The `preprocessor_config.json` that makes transformers' pixels ours."""
        return _PROCESSORS["gemma4"] | {
            "patch_size": self.patch,
            "pooling_kernel_size": self.pool,
            "max_soft_tokens": self.budget,
            "image_seq_length": self.budget,
        }
