"""Photos from outside, as uint8 (H, W, 3): whatever the file's mode, or a clear error.

Only what web pages and phones write is opened: JPEG, PNG, GIF, WebP and BMP, and where
their readers are installed, HEIC and AVIF. The first bytes tell which, whatever the
file is called. Size is judged from the header, before any pixel is decoded, so that a
small file which unpacks into gigabytes costs nothing.
"""

import contextlib
import io
import pathlib
import struct

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")
STARTS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM")  # WebP and phones: elsewhere
# What else phones write, and what brings Pillow its reader.
READERS = {"HEIF": "pillow-heif", "AVIF": "pillow>=11.3"}
BRANDS = {b"avi": "AVIF", b"hei": "HEIF", b"hev": "HEIF", b"mif1": "HEIF"}
MAX_PIXELS = 50_000_000  # decoded; 150 MB as RGB


class PhotoError(ValueError):
    """A file that is no usable photo; the message says which, why, and what to do."""


def uploaded(path) -> bytes:
    """The bytes of a file that a person has uploaded.

    Raises:
      PhotoError: it is no longer there.
    """
    try:
        return pathlib.Path(path).read_bytes()
    except FileNotFoundError as error:
        raise PhotoError("This photo is no longer there: upload it again.") from error


def is_picture(data) -> bool:
    """Whether a file begins as a picture does."""
    return data.startswith(STARTS) or data[8:12] == b"WEBP" or bool(_phone_format(data))


def _phone_format(data):
    """ "HEIF" or "AVIF" where a file names that in its first box, else ""."""
    brands = data[8:40] if data[4:8] == b"ftyp" else b""
    return next((kind for brand, kind in BRANDS.items() if brand in brands), "")


def decode(data, size=None, *, where="the photo"):
    """The pixels of an encoded picture, upright, in RGB.

    An animation gives its first frame; what is transparent becomes white; 16 bits a
    channel become 8. The whole picture is squeezed into the square, as the processor
    of Gemma 3 does; nothing is cut off.

    Args:
      data: bytes of a JPEG, PNG, GIF, WebP, BMP, HEIC or AVIF file.
      size: H = W of the result in pixels, by bilinear resampling with antialiasing;
        None keeps the size it has.
      where: what to call it in errors, "train.parquet, row 3".
    Returns:
      uint8 array (H, W, 3).
    Raises:
      PhotoError: not a picture of these formats or without its reader, broken or cut
        off, or larger than MAX_PIXELS.
    """
    if size is not None and size < 1:
        raise ValueError(f"size is at least 1 pixel, not {size}.")
    formats, phone = FORMATS, _phone_format(data)
    if phone:
        with contextlib.suppress(ImportError):
            import pillow_heif  # not ours: users install it for their phone's photos

            pillow_heif.register_heif_opener()
        Image.init()
        formats += (phone,) if phone in Image.OPEN else ()
    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            _check_size(image, where)  # first: a draft makes its size smaller
            if size is not None:
                image.draft(None, (2 * size, 2 * size))  # a JPEG can decode smaller
            image.load()
            upright = _rgb(_turned(image))
    except PhotoError:
        raise
    except UnidentifiedImageError as error:
        why = "not a picture that can be read here."
        if phone:
            name = phone.replace("HEIF", "HEIC")
            why = f"{name} needs a reader: pip install '{READERS[phone]}'. Or:"
        raise PhotoError(
            f"{where}: {why} Save it as JPEG or PNG, or download it again."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PhotoError(f"{where}: too large ({error}). Reduce it first.") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error) as error:
        raise PhotoError(
            f"{where}: broken or cut off ({error}). Download it again, or leave it out."
        ) from error
    if size is not None:
        upright = upright.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(upright)


def _check_size(image, where):
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise PhotoError(
            f"{where}: {width} x {height} pixels are more than {MAX_PIXELS:,}. Reduce "
            "it to a few thousand pixels a side first."
        )


def _turned(image):
    """The image turned upright by its EXIF block; as it is if that is broken."""
    try:
        return ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, TypeError, struct.error):
        return image


def _rgb(image):
    """The first frame in RGB, transparency over white, 16 bits a channel as 8."""
    if image.mode.startswith("I"):  # "I;16", or "I" where older Pillow widens it
        wide = np.asarray(image).astype(np.uint32)
        return Image.fromarray((wide >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image)
        return white
    return image.convert("RGB")
