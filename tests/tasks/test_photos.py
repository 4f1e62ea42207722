"""Photos of every mode decode to what is meant; the broken and the huge are refused."""

import io
import struct
import sys
import types
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, features

from helpers.tasks.food.photos import PhotoError, decode, is_picture

unhurried = settings(
    deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)
RED, GREEN, BLUE, WHITE = (230, 20, 20), (20, 200, 20), (20, 20, 230), (255,) * 3


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def quarters(width=40, height=24, colours=(RED, GREEN, WHITE, BLUE)):
    """A quarter of each colour, clockwise from top left."""
    pixels = np.empty((height, width, 3), np.uint8)
    top, left = height // 2, width // 2
    pixels[:top, :left], pixels[:top, left:] = colours[:2]
    pixels[top:, left:], pixels[top:, :left] = colours[2:]
    return Image.fromarray(pixels)


def corners(pixels):
    """The colours a little inside the four corners, clockwise from top left."""
    h, w = pixels.shape[0] // 4, pixels.shape[1] // 4
    return [
        tuple(map(int, pixels[y, x])) for y, x in ((h, w), (h, -w), (-h, -w), (-h, w))
    ]


def close(colours, wanted, within):
    return np.abs(np.array(colours, int) - np.array(wanted, int)).max() <= within


KINDS = ["PNG", "JPEG", "GIF", "WEBP", "BMP"]
KINDS += ["AVIF"] if features.check("avif") else []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [None, 48])
def test_every_format_keeps_its_colours_in_place(kind, size):
    pixels = decode(encoded(quarters(), kind), size)
    assert pixels.dtype == np.uint8
    assert pixels.shape == ((24, 40, 3) if size is None else (size, size, 3))
    assert close(corners(pixels), [RED, GREEN, WHITE, BLUE], within=30)
    assert is_picture(encoded(quarters(), kind)) and not is_picture(b"notes")


# How a scene's corners (clockwise from top left: 0 1 2 3) lie in a file of each EXIF
# orientation, from the standard's words, e.g. 6: "the 0th row is the right-hand side
# of the image, the 0th column the top": the file's first row is the right side, read
# from the top.
STORED = {
    1: (0, 1, 2, 3),
    2: (1, 0, 3, 2),
    3: (2, 3, 0, 1),
    4: (3, 2, 1, 0),
    5: (0, 3, 2, 1),
    6: (1, 2, 3, 0),
    7: (2, 1, 0, 3),
    8: (3, 0, 1, 2),
}


@pytest.mark.parametrize("orientation", STORED)
def test_a_photo_comes_upright_however_the_camera_was_turned(orientation):
    scene = (RED, GREEN, WHITE, BLUE)
    colours = [scene[i] for i in STORED[orientation]]
    height, width = (48, 32) if orientation >= 5 else (32, 48)
    image = quarters(width, height, colours)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(image, "JPEG", exif=exif)
    for size in (None, 20):
        pixels = decode(data, size)
        assert pixels.shape == ((32, 48, 3) if size is None else (20, 20, 3))
        assert close(corners(pixels), scene, within=40)


def png(width, height, depth, kind, rows):
    """A PNG written chunk by chunk, for what Pillow does not write."""

    def chunk(name, body):
        sum_ = zlib.crc32(name + body)
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", sum_)

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


@unhurried
@given(st.tuples(*[st.integers(0, 255)] * 4))
def test_what_is_transparent_becomes_white(rgba):
    share = rgba[3] / 255
    wanted = [round(c * share + 255 * (1 - share)) for c in rgba[:3]]
    data = encoded(Image.new("RGBA", (3, 3), rgba))
    assert close(decode(data)[1, 1], wanted, within=1)


@unhurried
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(("L", "RGB", "RGBA", "P", "1", "LA", "CMYK", "I;16")),
    st.sampled_from(("PNG", "JPEG", "GIF", "WEBP", "BMP")),
)
def test_any_mode_and_shape_gives_the_size_asked_for(width, height, size, mode, kind):
    image = Image.new(mode, (width, height))
    if mode == "P":  # without colours, Pillow 11 writes a BMP that it cannot read
        image.putpalette(range(255))
    try:
        data = encoded(image, kind)
    except (OSError, KeyError, ValueError):  # the format has no such mode
        return
    pixels = decode(data, size)
    assert pixels.shape == (size, size, 3) and pixels.dtype == np.uint8
    lost = 6 if kind in ("JPEG", "WEBP") else 0  # flat stays flat, but for these two
    assert np.ptp(pixels, axis=(0, 1)).max() <= lost
    assert decode(data).shape == (height, width, 3)


# --- what is refused ---


@pytest.mark.parametrize("size", [None, 48])
def test_a_bomb_is_refused_before_it_is_unpacked(size):
    """Headers of 49,000 x 49,000 pixels, with hardly anything behind them."""
    bomb = png(49_000, 49_000, 8, 2, b"\0" * 1000)
    with pytest.raises(PhotoError, match="row 7: too large.*Reduce it"):
        decode(bomb, size, where="row 7")
    with pytest.raises(PhotoError, match="9000 x 8000 pixels are more than 50,000,000"):
        decode(png(9000, 8000, 8, 2, b"\0" * 1000), size)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_a_file_that_is_cut_off_is_refused(kind):
    noise = np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    for share in (0.1, 0.3, 0.5, 0.8, 0.95):
        for size in (None, 16):
            with pytest.raises(PhotoError, match="x.jpg: .*ownload it again"):
                decode(data[: int(len(data) * share)], size, where="x.jpg")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200,
        encoded(Image.new("RGB", (4, 4)), "TIFF"),
    ],
    ids=["empty", "svg", "heic", "tiff"],
)
def test_other_files_are_refused_with_what_to_do(data):
    with pytest.raises(PhotoError, match="row 3: .*Save it as JPEG or PNG"):
        decode(data, 48, where="row 3")


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200
AVIF = b"\0\0\0\x1cftypavif\0\0\0\0avifmif1" + b"\0" * 200


@pytest.mark.parametrize(
    ("data", "reader"), [(HEIC, "HEIC.*pillow-heif"), (AVIF, "AVIF.*pillow>=11.3")]
)
def test_photos_of_phones_name_the_reader_that_is_missing(data, reader, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(Image, "OPEN", {**Image.OPEN})
    monkeypatch.setattr(Image, "init", lambda: Image.OPEN.pop("AVIF", None))
    assert is_picture(data)
    with pytest.raises(PhotoError, match=f"row 3: {reader}.*Save it as JPEG"):
        decode(data, where="row 3")


def test_a_reader_that_is_installed_is_used(monkeypatch):
    """A stand-in for pillow-heif, which shows a red picture."""
    monkeypatch.setattr(Image, "OPEN", {**Image.OPEN})
    monkeypatch.setattr(Image, "ID", [*Image.ID])
    red = Image.new("RGB", (4, 2), RED)
    reader = types.ModuleType("pillow_heif")
    reader.register_heif_opener = lambda: Image.register_open("HEIF", lambda *_: red)
    monkeypatch.setitem(sys.modules, "pillow_heif", reader)
    assert decode(HEIC).tolist() == [[[*RED]] * 4] * 2


@unhurried
@given(
    st.sampled_from(("PNG", "JPEG", "GIF", "WEBP", "BMP")),
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=12),
    st.binary(max_size=30),
    st.sampled_from((None, 9)),
)
def test_hostile_bytes_give_a_picture_or_a_verdict(kind, changes, tail, size):
    data = bytearray(encoded(quarters(), kind))
    for place, value in changes:
        data[int(place * len(data))] = value
    try:
        pixels = decode(bytes(data) + tail, size)
    except PhotoError:
        return
    assert pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8
