"""Pictures as the model takes them: uint8, one slot per image of a prompt.

A prompt holds an image's place with an unbroken run of image tokens: of Gemma 3 as many
for every picture, of Gemma 4 as many as the picture has squares. Batches carry the
pictures beside the prompts in `images (P, N, H, W, 3)` uint8: those of row p come
first, in the order of their tokens, and slots that it does not need are black.
Normalising is the model's first step.
"""

import numpy as np
from PIL import Image, ImageOps

from helpers.batches.sources import ImageMismatch
from helpers.runtime.run_identity import describe_pictures


def fit_for(picture, vision):
    """A picture as a model with this `config.vision` sees it, upright and in RGB.

    Gemma 3's is stretched to a square, bilinearly: the same as its processor of
    transformers does with Pillow. Gemma 4's keeps its shape, is resized bicubically and
    laid out in a strip: as transformers does with Pillow, within 1 step of 255 in the
    tests. Its usual processor, with torchvision, differs by up to 2 for noise.

    Args:
      picture: a PIL image of 8 bits a channel, or an array (H, W, 3) or (H, W) uint8.
    Returns:
      uint8 `vision.shape`, the same for every picture.
    Raises:
      ValueError: an array of another shape or dtype, a PIL image of more bits, a
        picture without pixels, or one too narrow for Gemma 4's budget.
    """
    rgb = _upright(picture)
    if not hasattr(vision, "strip"):
        size = vision.size, vision.size
        return np.asarray(rgb.resize(size, Image.Resampling.BILINEAR))
    height, width = vision.target(rgb.height, rgb.width)
    resized = rgb.resize((width, height), Image.Resampling.BICUBIC)
    return vision.strip(np.asarray(resized))


def _upright(picture):
    """An RGB image of PIL, from whatever `fit_for` takes."""
    if not isinstance(picture, Image.Image):
        picture = np.asarray(picture)
        is_rgb = picture.ndim == 2 or picture.shape[2:] == (3,)
        if picture.dtype != np.uint8 or not is_rgb or 0 in picture.shape:
            raise ValueError(
                f"A picture is {picture.dtype}{picture.shape}: pass a PIL image, or "
                "uint8 (H, W, 3) with values from 0 to 255."
            )
        picture = Image.fromarray(picture)
    if picture.mode[0] in "IF":  # Pillow would cut all above 255 off, to white
        raise ValueError(
            f"A picture of mode {picture.mode} has more than 8 bits a channel: read "
            "its file with tasks.photos.decode, or scale its values to 0 to 255."
        )
    return ImageOps.exif_transpose(picture).convert("RGB")


def shaped(messages, pictures):
    """The messages, whose images now say the shapes of their pictures.

    Args:
      messages: for a chat template, with {"type": "image"} for each picture.
      pictures: list of what `fit_for` takes, in the order of the images.
    Returns:
      new messages, with {"type": "image", "shape": [height, width]}: in pixels, as the
      upright picture has them.
    Raises:
      ImageMismatch: there are more or fewer pictures than images.
    """
    shapes = [[x.height, x.width] for x in map(_upright, pictures)]
    messages, places = [dict(message) for message in messages], []
    for message in messages:
        if isinstance(message.get("content"), list):
            message["content"] = [dict(part) for part in message["content"]]
            places += [x for x in message["content"] if x["type"] == "image"]
    if len(places) != len(shapes):
        raise ImageMismatch(
            f"The messages have {len(places)} images, and {len(shapes)} pictures were "
            "given. Give one picture for every image in the question."
        )
    for place, shape in zip(places, shapes, strict=True):
        place["shape"] = shape
    return messages


def counts(token_lists, vision):
    """How many tokens each image of each prompt has, P lists of int.

    Args:
      token_lists: P lists of token ids, without padding.
      vision: the model's `config.vision`.
    Raises:
      ImageMismatch: image tokens that are no whole number of images.
    """
    result: list[list[int]] = []
    for index, tokens in enumerate(token_lists):
        is_image = np.pad(np.asarray(tokens) == vision.image_token, 1).astype(np.int8)
        starts, ends = (np.flatnonzero(np.diff(is_image) == step) for step in (1, -1))
        runs = (ends - starts).tolist()  # lengths of unbroken runs of image tokens
        try:
            result.append(sum(map(vision.images_in, runs), []))
        except ValueError as error:
            raise ImageMismatch(
                f"Prompt {index} has runs of {runs} image tokens, and {error}: it was "
                "cut, or written for another model."
            ) from error
    return result


def stack(pictures, counts, slots, vision):
    """The `images` of a batch from each prompt's own pictures.

    Args:
      pictures: P lists of uint8 (H, W, 3), made by `fit_for`.
      counts: from `counts`: the tokens of each image in each prompt.
      slots: N, at least the most images of a prompt; the same in all batches, so that
        one program serves them.
      vision: the model's `config.vision`.
    Returns:
      uint8 (P, N, H, W, 3).
    Raises:
      ImageMismatch: a prompt has more or fewer pictures than places for them, or one
        that takes more or fewer tokens than its place has.
    """
    images = np.zeros((len(pictures), slots, *vision.shape), np.uint8)
    for index, (shown, places) in enumerate(zip(pictures, counts, strict=True)):
        for picture in map(np.asarray, shown):
            if picture.shape != vision.shape or picture.dtype != np.uint8:
                raise ImageMismatch(
                    f"A picture of prompt {index} is {picture.dtype}{picture.shape}, "
                    f"not uint8{vision.shape}. Use images.fit_for(picture, vision)."
                )
        _check_places(index, places, shown, vision)
        if places:
            images[index, : len(places)] = shown
    return images


def _check_places(index, places, shown, vision):
    """Raises ImageMismatch unless each picture takes as many tokens as its place."""
    takes = [vision.count(picture) for picture in shown]
    if takes != places:
        raise ImageMismatch(
            f"Prompt {index} has images of {places} tokens, and its pictures take"
            f" {takes}: pass one picture for every image in the question, in their"
            " order, and write their shapes with images.shaped(messages, pictures)."
        )


class Pictures:
    """The pictures of a source's examples, made when their batch is.

    Args:
      make: input -> list of the pictures of an example, each from `fit_for`.
      inputs: a sequence with one input per example.
      token_lists: the tokens of each example.
      vision: the model's `config.vision`.
      slots: N, the most pictures in a row of a batch; None: those of any example.
    Raises:
      ImageMismatch: see `counts`; or an example has more images than there are slots.
      ValueError: no vision.
    """

    def __init__(self, make, inputs, token_lists, vision, slots=None):
        if vision is None:
            raise ValueError("pictures= needs vision=, the model's config.vision.")
        self.make, self.inputs, self.vision = make, inputs, vision
        self.counts = counts(token_lists, vision)
        most = max(map(len, self.counts), default=0)
        self.slots = slots or max(1, most)
        if most > self.slots:
            raise ImageMismatch(
                f"An example has {most} images, a row takes {slots}: pass slots={most} "
                "or more."
            )

    def of_rows(self, rows):
        """`stack` of the pictures in each row of a batch, a list of example indices."""
        made = [[x for i in row for x in self.make(self.inputs[i])] for row in rows]
        places = [[n for i in row for n in self.counts[i]] for row in rows]
        return stack(made, places, self.slots, self.vision)

    def describe(self) -> dict[str, str]:
        """What must be the same for a run to go on."""
        return describe_pictures(self.make, self.inputs)


def check_prompts(prompt_PT, mask_PT, images, vision):
    """Refuses a batch whose image tokens are not those of its images.

    Args:
      prompt_PT, mask_PT: right-padded prompts, int32.
      images: uint8 (P, H, W, 3) or (P, N, H, W, 3), or None.
      vision: the model's `config.vision`.
    Raises:
      ImageMismatch: tokens without picture, a picture (other than black) without
        tokens, an image cut in two, or numbers that are not uint8.
    """
    real_PT = np.asarray(mask_PT) > 0
    rows = [x[real] for x, real in zip(np.asarray(prompt_PT), real_PT, strict=True)]
    images = np.zeros((len(rows), 0, 1, 2, 3), np.uint8) if images is None else images
    images = np.asarray(images)
    images = images[:, None] if images.ndim == 4 else images
    if len(images) != len(rows) or images.dtype != np.uint8:
        raise ImageMismatch(
            f"{len(rows)} prompts, but {len(images)} rows of images in {images.dtype}:"
            " the model takes uint8. Make them with images.fit_for and images.stack."
        )
    for index, places in enumerate(counts(rows, vision)):
        unused = images[index, len(places) :]
        shown = images[index] if unused.any() else images[index, : len(places)]
        _check_places(index, places, shown, vision)
