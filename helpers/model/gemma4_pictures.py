"""Pictures of any shape as arrays of one shape: strips of squares, for Gemma 4.

A picture keeps its aspect ratio and is scaled until it fills a budget of image tokens;
each token is a square of pixels. A strip holds the squares of one picture below each
other, row by row, and after them black ones up to the budget. A first square, before
them, says how many squares wide and high the picture is. So pictures of any shape are
one array of bytes, `images (P, N, H, W, 3)` as for every model here, and all black is
no picture.
"""

import math

import numpy as np

BUDGETS = (70, 140, 280, 560, 1120)  # most image tokens of a picture
DIGITS = 256  # sizes are two bytes, the higher one first


class PictureTooLong(ValueError):
    """A picture is so narrow that no shape of the budget comes close to it."""


def target(height, width, side, budget):
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


def strip(pixels, side, budget):
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
