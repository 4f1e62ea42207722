"""The GGUF container: one file of metadata and tensors, read with care.

Version 3 is described in github.com/ggml-org/ggml/blob/master/docs/gguf.md: a head of
counts, key-value pairs, and a table of tensors, then their numbers in blocks of small
integers with scales. Such files come from anywhere, so nothing in one is believed: each
length is held against the bytes that are left before anything is read or made room for.
What blocks mean is left to the package `gguf`, llama.cpp's own.
"""

import mmap
import pathlib
import struct
from typing import Any, NamedTuple

import gguf
import numpy as np

from helpers.model.folder import WeightsError

MAGIC, VERSIONS = b"GGUF", (2, 3)
# Metadata values by their number in the file: 0 is a uint8, 8 a string, 9 an array.
SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
STRING, ARRAY = 8, 9
LEAST_FIELD = 8 + 4 + 1  # bytes of a pair: a length, a type, a value
LEAST_TENSOR = 8 + 4 + 8 + 4 + 8  # of a row: a length, how many sizes, one, type, place
MOST_SIZES = 4
# What Python makes of these costs up to 36 times their bytes, so that only so many are
# read; what a tokenizer is made with, up to 100 times, of fewer (`gguf_tokenizer`).
# Gemma 3 has 1.3 million values in lists, and models have a few thousand tensors.
MOST_VALUES, MOST_PAIRS, MOST_TENSORS = 2**22, 2**16, 2**16
AT_ONCE = 2**24  # numbers made of blocks at once: some tensors are half a model
READ = tuple(
    gguf.GGMLQuantizationType[name]
    for name in (
        "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
    )
)


class GGUFError(WeightsError):
    """A GGUF file is damaged, cut off, or of a kind that is not read here."""


class Entry(NamedTuple):
    """A tensor's row of the table.

    shape: as NumPy has it, rows first. kind: how its numbers are stored.
    begin, size: bytes, from the start of the file.
    """

    shape: tuple[int, ...]
    kind: gguf.GGMLQuantizationType
    begin: int
    size: int


class GGUFFile:
    """A GGUF file whose head has been checked; tensors are read one at a time.

    Attributes:
      fields: {key: value} of the metadata; arrays are lists.
      entries: {tensor name: Entry}.
    """

    def __init__(self, path):
        """Reads the head.

        Args:
          path: the file.
        Raises:
          GGUFError: it is a folder, or not whole, or something in it cannot be.
          FileNotFoundError: there is none.
        """
        self.path = pathlib.Path(path)
        if self.path.is_dir():
            raise GGUFError(f"{self.path} is a folder: pass the GGUF file in it.")
        size = self.path.stat().st_size
        if size < len(MAGIC) + 4 + 8 + 8:
            raise GGUFError(f"{self.path} has {size} bytes: it is no GGUF file.")
        with (
            open(self.path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            head = _Head(data, self.path)
            self.fields, self.entries = head.fields, head.entries

    def array(self, name: str) -> np.ndarray:
        """The numbers of a tensor, float32.

        Raises:
          GGUFError: there is no such tensor, or some are not finite.
        """
        if name not in self.entries:
            raise GGUFError(f"{self.path} has no tensor {name}.")
        shape, kind, begin, size = self.entries[name]
        with open(self.path, "rb") as file:
            file.seek(begin)
            stored = np.frombuffer(file.read(size), np.uint8)
        if stored.size != size:
            raise GGUFError(f"{self.path} was cut off while it was read: {name}.")
        block, of_bytes = gguf.GGML_QUANT_SIZES[kind]
        rows = stored.reshape(-1, shape[-1] // block * of_bytes)
        numbers = np.empty((len(rows), shape[-1]), np.float32)
        at_once = max(1, AT_ONCE // max(1, shape[-1]))
        for first in range(0, len(rows), at_once):
            part = slice(first, first + at_once)
            numbers[part] = gguf.dequantize(rows[part], kind)
            if not np.isfinite(numbers[part]).all():
                raise GGUFError(
                    f"{name} of {self.path} has numbers that are not finite. Fetch the "
                    "file again, or take another one."
                )
        return numbers.reshape(shape)


class _Head:
    """Reads what stands before the tensors, from first to last byte."""

    def __init__(self, data, path):
        self.data, self.path, self.at, self.values = data, path, len(MAGIC), 0
        if data[: len(MAGIC)] != MAGIC:
            raise GGUFError(f"{path} is no GGUF file: it begins otherwise.")
        version = self.scalar("I")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            order = " in the other byte order" if swapped in VERSIONS else ""
            known = " and ".join(map(str, VERSIONS))
            raise GGUFError(
                f"{path} is GGUF version {swapped if order else version}{order}; this "
                f"reads {known} of little-endian machines. Convert it again with a "
                "llama.cpp of today."
            )
        tensors, pairs = self.scalar("Q"), self.scalar("Q")
        self.room(pairs, LEAST_FIELD, "metadata values")
        self.few(pairs, MOST_PAIRS, "metadata values")
        self.fields: dict[str, Any] = {}
        for _ in range(pairs):
            key = self.string()
            if key in self.fields:
                self.refuse(f"has {key!r:.80} twice")
            self.fields[key] = self.value(self.scalar("I"))
        self.room(tensors, LEAST_TENSOR, "tensors")
        self.few(tensors, MOST_TENSORS, "tensors")
        rows = [self.row() for _ in range(tensors)]
        if len(names := dict(rows)) < len(rows):
            self.refuse("has two tensors of one name")
        self.entries = self.placed(names)

    def refuse(self, what):
        raise GGUFError(
            f"{self.path} is damaged or cut off: it {what}. Fetch it again."
        )

    def room(self, count, size, what):
        """Refuses a count of things that the rest of the file has no room for."""
        left = len(self.data) - self.at
        if count * size > left:
            self.refuse(f"says it has {count} {what}, in {left} bytes")

    def few(self, count, most, what):
        """Refuses a count of things that no model has so many of."""
        if count > most:
            raise GGUFError(
                f"{self.path} has {count:,} {what}, and at most {most:,} are read, "
                "which is more than any known model has. Fetch the file again, or take "
                "another one."
            )

    def add(self, count):
        """Counts values of a list before any is made."""
        self.values += count
        self.few(self.values, MOST_VALUES, "values in lists of its metadata")

    def take(self, size):
        self.room(size, 1, "more bytes of text or numbers")
        self.at += size
        return self.data[self.at - size : self.at]

    def scalar(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self):
        try:
            return self.take(self.scalar("Q")).decode()
        except UnicodeDecodeError as error:
            self.refuse(f"has text that is no UTF-8 ({error.reason})")

    def value(self, kind):
        if kind in SCALARS:
            return self.scalar(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            self.refuse(f"has a value of an unknown type, {kind}")
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind == STRING:
            self.room(count, 8, "strings")
            self.add(count)
            return [self.string() for _ in range(count)]
        if kind not in SCALARS:
            self.refuse(f"has an array of type {kind}")
        form = SCALARS[kind]
        self.room(count, struct.calcsize(form), "numbers in an array")
        self.add(count)
        stored = self.take(count * struct.calcsize("<" + form))
        return list(struct.unpack(f"<{count}{form}", stored))

    def row(self):
        """(name, (shape, kind, place among the tensors' bytes))."""
        name, count = self.string(), self.scalar("I")
        if not 1 <= count <= MOST_SIZES:
            self.refuse(f"has {name!r:.80} with {count} axes")
        sizes = [self.scalar("Q") for _ in range(count)]
        kind, place = self.scalar("I"), self.scalar("Q")
        if 0 in sizes:
            self.refuse(f"has {name!r:.80} without numbers")
        if kind not in READ:
            known = {int(k): k.name for k in gguf.GGMLQuantizationType}
            raise GGUFError(
                f"{self.path} has {name!r:.80} in {known.get(kind, f'type {kind}')}. "
                f"This reads {', '.join(k.name for k in READ)}: take a file in one of "
                "these, such as Q8_0."
            )
        return name, (tuple(sizes[::-1]), gguf.GGMLQuantizationType(kind), place)

    def placed(self, rows):
        """{name: Entry}, once each has its bytes, whole blocks, to itself."""
        unit = self.fields.get("general.alignment", gguf.GGUF_DEFAULT_ALIGNMENT)
        if type(unit) is not int or unit < 8 or unit % 8:
            self.refuse(f"aligns its tensors to {unit!r:.20}")
        start = self.at + -self.at % unit
        entries, end = {}, start
        for name, (shape, kind, place) in sorted(rows.items(), key=lambda r: r[1][2]):
            block, of_bytes = gguf.GGML_QUANT_SIZES[kind]
            if shape[-1] % block:
                self.refuse(f"has {name!r:.80} in broken blocks of {kind.name}")
            numbers = 1
            for size in shape:
                numbers *= size
            begin, size = start + place, numbers // block * of_bytes
            if place % unit or begin < end:
                self.refuse(f"has {name!r:.80} where another tensor is")
            end = begin + size
            if end > len(self.data):
                self.refuse(
                    f"ends {end - len(self.data)} bytes before {name!r:.80} does"
                )
            entries[name] = Entry(shape, kind, begin, size)
        return {name: entries[name] for name in rows}
