"""Pictures as the model takes them: square, uint8, one slot per image of a prompt.

A prompt holds an image's place with so many image tokens, `VisionConfig.tokens` of them
in an unbroken run for each picture. Batches carry the pictures beside the prompts in
`images (P, N, H, W, 3)` uint8: those of row p come first, in the order of their tokens,
and slots that it does not need are black. Normalising is the model's first step.
"""

import numpy as np
from PIL import Image, ImageOps


class ImageMismatch(ValueError):
    """The image tokens of a prompt and the pictures given for it do not agree."""


def fit(picture, size):
    """A picture as the model sees it: upright RGB, stretched to size × size, bilinear.

    The same as the Gemma 3 processor of transformers does with Pillow.

    Args:
      picture: a PIL image of 8 bits a channel, or an array (H, W, 3) or (H, W) uint8.
      size: `VisionConfig.size`.
    Returns:
      uint8 (size, size, 3).
    Raises:
      ValueError: an array of another shape or dtype, a PIL image of more bits, or a
        picture without pixels.
    """
    resized = _upright(picture).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def fit_whole(picture, vision):
    """A picture as Gemma 4 sees it: upright RGB, its shape kept, bicubic, in a strip.

    The same as the Gemma 4 processor of transformers does with Pillow.

    Args:
      picture: as for `fit`.
      vision: the model's Gemma4VisionConfig; its budget says how large.
    Returns:
      uint8 (H, W, 3), as `helpers.model.gemma4_pictures` lays it out: the same shape
      for every picture.
    Raises:
      ValueError: see `fit`; or a picture too narrow for the budget.
    """
    rgb = _upright(picture)
    height, width = vision.target(rgb.height, rgb.width)
    if rgb.size != (width, height):
        rgb = rgb.resize((width, height), Image.Resampling.BICUBIC)
    return vision.strip(np.asarray(rgb))


def _upright(picture):
    """An RGB image of PIL, from whatever `fit` takes."""
    if not isinstance(picture, Image.Image):
        picture = np.asarray(picture)
        if picture.dtype != np.uint8 or not (
            picture.ndim == 2 or picture.ndim == 3 and picture.shape[2] == 3
        ):
            raise ValueError(
                f"A picture is {picture.dtype}{picture.shape}: pass a PIL image, or "
                "uint8 (H, W, 3) with values from 0 to 255."
            )
        picture = Image.fromarray(picture) if picture.size else Image.new("RGB", (0, 0))
    if 0 in picture.size:
        raise ValueError(f"A picture of {picture.size} has no pixels: leave it out.")
    if picture.mode[0] in "IF":  # Pillow would cut all above 255 off, to white
        raise ValueError(
            f"A picture of mode {picture.mode} has more than 8 bits a channel: read "
            "its file with tasks.photos.decode, or scale its values to 0 to 255."
        )
    return ImageOps.exif_transpose(picture).convert("RGB")


def counts(token_lists, vision):
    """How many images the tokens of each prompt stand for, a list of int.

    Args:
      token_lists: P lists of token ids, without padding.
      vision: the model's VisionConfig.
    Raises:
      ImageMismatch: image tokens that are no whole number of images.
    """
    found = []
    for index, tokens in enumerate(token_lists):
        runs = _runs(tokens, vision)
        if (runs % vision.tokens).any():
            raise ImageMismatch(
                f"Prompt {index} has runs of {runs.tolist()} image tokens, and an image"
                f" takes {vision.tokens}: it was cut, or written for another model."
            )
        found.append(int(runs.sum()) // vision.tokens)
    return found


def _runs(tokens, vision):
    """The lengths of the unbroken runs of image tokens in a prompt."""
    is_image = np.pad(np.asarray(tokens) == vision.image_token, 1).astype(np.int8)
    starts, ends = (np.flatnonzero(np.diff(is_image) == step) for step in (1, -1))
    return ends - starts


def stack(pictures, numbers, slots, vision):
    """The `images` of a batch from each prompt's own pictures.

    Args:
      pictures: P lists of uint8 (H, W, 3), made by `fit`.
      numbers: from `counts`: how many each prompt has tokens for.
      slots: N, at least the largest of them; the same in all batches, so that one
        program serves them.
      vision: the model's VisionConfig.
    Returns:
      uint8 (P, N, H, W, 3).
    Raises:
      ImageMismatch: a prompt has more or fewer pictures than places for them.
    """
    size = vision.size
    images = np.zeros((len(pictures), slots, size, size, 3), np.uint8)
    for index, (own, number) in enumerate(zip(pictures, numbers, strict=True)):
        if len(own) != number:
            raise ImageMismatch(
                f"Prompt {index} has tokens for {number} images, and {len(own)} were "
                "given for it. Give one picture for every image in the question."
            )
        for slot, picture in enumerate(own):
            picture = np.asarray(picture)
            if picture.shape != images.shape[2:] or picture.dtype != np.uint8:
                raise ImageMismatch(
                    f"Picture {slot} of prompt {index} is {picture.dtype}"
                    f"{picture.shape}, the model sees uint8{images.shape[2:]}: pass it "
                    f"through images.fit(picture, {size})."
                )
            images[index, slot] = picture
    return images


def check_prompts(prompt_PT, mask_PT, images, vision):
    """Refuses a batch whose image tokens are not those of its images.

    Args:
      prompt_PT, mask_PT: right-padded prompts, int32.
      images: uint8 (P, H, W, 3) or (P, N, H, W, 3), or None.
      vision: the model's VisionConfig, None if it has no vision.
    Raises:
      ImageMismatch: tokens without picture, a picture (other than black) without
        tokens, an image cut in two, pictures for a model that cannot see, or numbers
        that are not uint8.
    """
    if vision is None:
        raise ImageMismatch(
            "Pictures were given to a model without vision. Load one that has it, with "
            "weights.load(folder, vision=True), or leave the pictures out."
        )
    prompt_PT, real_PT = np.asarray(prompt_PT), np.asarray(mask_PT) > 0
    rows = [row[real] for row, real in zip(prompt_PT, real_PT, strict=True)]
    if images is None:
        images = np.zeros((len(rows), 0, 1, 2, 3), np.uint8)
    images = np.asarray(images)
    if len(images) != len(rows):
        raise ImageMismatch(f"{len(rows)} prompts, but {len(images)} rows of images.")
    if images.dtype != np.uint8:
        raise ImageMismatch(
            f"The images are {images.dtype}, and the model takes uint8, 0 to 255: it "
            "normalises them itself. Make them with images.fit and images.stack."
        )
    images = images[:, None] if images.ndim == 4 else images
    if hasattr(vision, "strip"):  # each image takes as many tokens as its shape says
        return _check_strips(rows, images, vision)
    for index, number in enumerate(counts(rows, vision)):
        if number > images.shape[1]:
            raise ImageMismatch(
                f"Prompt {index} has tokens for {number} images, and {images.shape[1]} "
                "were given. Pass them as images=, one for every image in the question."
            )
        if images[index, number:].any():
            raise ImageMismatch(
                f"Prompt {index} has tokens for {number} images, and more pictures were"
                " given: the rest would not be seen. Put each into the question."
            )


def _check_strips(rows, images, vision):
    """`check_prompts` where each image has as many tokens as its picture's squares."""
    for index, (tokens, strips) in enumerate(zip(rows, images, strict=True)):
        runs = _runs(tokens, vision).tolist()
        takes = [vision.count(strip) for strip in strips]
        used = [number for number in takes if number]
        if runs != used or takes != used + [0] * (len(takes) - len(used)):
            raise ImageMismatch(
                f"Prompt {index} has images of {runs} tokens, and its pictures take "
                f"{takes}: pass those of `vision.place(picture)` for each picture in "
                "the question, in their order, and black ones after them."
            )
