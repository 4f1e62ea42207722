"""What the judge and a student's process send each other: data, and calls.

Nothing that arrives is run: a message is JSON, a value is decoded to a plain number,
text, list, array or one of `KINDS`. What is no data, such as a function, stays where it
is and travels as a number; the other side calls it by that number.
"""

import base64
import builtins
import dataclasses
import fractions
import importlib
import itertools
import json
import math
import socket
import struct
import sys
import time
import types

import numpy as np

LARGEST = 32 * 2**20  # bytes of a message
MANY = 100_000  # most entries that are taken from an iterator
KINDS = {  # classes of the course that are data
    "Trace": "helpers.tools.tool",
    "Call": "helpers.tools.calls",
    "Verdict": "helpers.tools.calls",
    "Event": "helpers.app.assistant",
    "KV": "helpers.model.attention",
}
ERRORS = {"BackendError": "helpers.app.assistant"}  # that answers raise and catch
ITERATORS = (types.GeneratorType, range, map, filter, zip, reversed)
ITERATORS += (type({}.keys()), type({}.values()), type({}.items()), type(iter([])))
NO_VALUE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
NO_VALUE += (RecursionError, MemoryError)
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class Broken(BaseException):
    """The other side is gone, or writes no message; a check must not catch this."""


class TooLate(BaseException):
    """The other side has not answered in time; a check must not catch this."""


class Raised(Exception):
    """Stands for an exception of the other side whose class is not known here."""


def encode(value, keep):
    """A value as JSON; `keep(object)` gives the number of one that is no data."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return ["int", hex(value)]
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if kind is fractions.Fraction:
        return ["fraction", hex(value.numerator), hex(value.denominator)]
    if kind.__name__ in SEQUENCES and kind in SEQUENCES.values():
        return [kind.__name__, *(encode(entry, keep) for entry in value)]
    if kind is dict:
        pairs = itertools.chain.from_iterable(value.items())
        return ["dict", *(encode(entry, keep) for entry in pairs)]
    if isinstance(value, ITERATORS):
        taken = itertools.islice(value, MANY)
        return ["iterator", *(encode(entry, keep) for entry in taken)]
    if isinstance(value, np.ndarray | np.generic):
        return ["array", *_array(value)]
    if _is_jax(value):
        return ["jax", *_array(np.asarray(value))]
    if KINDS.get(kind.__name__) == kind.__module__:
        names = getattr(kind, "_fields", None)
        names = names or [field.name for field in dataclasses.fields(kind)]
        own = (encode(getattr(value, name), keep) for name in names)
        return ["kind", kind.__name__, *own]
    return ["object", keep(value)]


def decode(data, found):
    """The value of some JSON; `found(number)` gives what stands for an object.

    Raises:
      Broken: it is none that `encode` makes.
    """
    if data is None or isinstance(data, bool | str | float):
        return data
    try:
        name, *rest = data
        if name == "int":
            return int(rest[0], 16)
        if name == "float":
            return float(rest[0])
        if name == "fraction":
            return fractions.Fraction(*(int(part, 16) for part in rest))
        if name in ("array", "jax"):
            return _made(name, *rest)
        if name == "object":
            return found(int(rest[0]))
        if name == "kind":
            home = importlib.import_module(KINDS[rest[0]])
            return getattr(home, rest[0])(*(decode(entry, found) for entry in rest[1:]))
        entries = [decode(entry, found) for entry in rest]
        if name == "dict":
            return dict(zip(entries[::2], entries[1::2], strict=True))
        return iter(entries) if name == "iterator" else SEQUENCES[name](entries)
    except NO_VALUE as error:
        raise Broken(f"no value: {error}") from error


def _is_jax(value):
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _array(value):
    if value.dtype.kind not in "biufc":
        raise TypeError(f"an array of {value.dtype} cannot be graded")
    shape = None if isinstance(value, np.generic) else list(value.shape)
    text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return value.dtype.str, shape, text


def _made(name, dtype, shape, text):
    kind = np.dtype(dtype)
    if kind.kind not in "biufc":
        raise Broken(f"no array of {dtype}")
    flat = np.frombuffer(base64.b64decode(text), kind).copy()
    if shape is None:
        return flat[0]
    value = flat.reshape([int(size) for size in shape])
    if name == "jax":
        return importlib.import_module("jax.numpy").asarray(value)
    return value


class Peer:
    """One end of the line: asks, answers while it waits, keeps objects by number.

    Args:
      line: a socket.
      serve: function (peer, request dict) -> dict, for what the other side asks.
      stand_in: function (peer, number) -> what stands here for an object over there.
    """

    def __init__(self, line: socket.socket, serve, stand_in):
        self.line, self.serve, self._stand_in = line, serve, stand_in
        self.own: list = []
        self.deadline: float | None = None

    def keep(self, value):
        """The number of an object of this side, or of one of the other side's."""
        number = getattr(value, "_number_there", None)
        if type(number) is int and type(value).__name__ == "Remote":
            return -1 - number
        self.own.append(value)
        return len(self.own) - 1

    def found(self, number):
        """What a number from the other side means here."""
        return self.own[-1 - number] if number < 0 else self._stand_in(self, number)

    def encode(self, value):
        return encode(value, self.keep)

    def decode(self, data):
        return decode(data, self.found)

    def ask(self, **request):
        """Sends a request and gives the reply, answering what is asked meanwhile.

        Raises:
          Broken, TooLate: there is no reply. Others: what the other side raised.
        """
        self._send({"request": request})
        while True:
            heard = self._receive()
            if "request" not in heard:
                break
            self._send({"reply": self.answered(heard["request"])})
        reply = heard.get("reply")
        if not isinstance(reply, dict):
            raise Broken("neither a request nor a reply")
        if "raised" in reply:
            raise _exception(reply["raised"])
        return reply

    def answered(self, request) -> dict:
        """The reply to a request: what `serve` gives, or what it raised."""
        try:
            return self.serve(self, request)
        except (Broken, TooLate):
            raise
        except BaseException as error:  # the learner's code may raise anything
            try:
                said = str(error)[:500]
            except BaseException:
                said = ""
            return {"raised": [type(error).__name__[:80], said]}

    def listen(self):
        """Answers requests until the other side closes the line."""
        while True:
            heard = self._receive()
            if "request" in heard:
                self._send({"reply": self.answered(heard["request"])})

    def _send(self, message):
        try:
            data = json.dumps(message).encode()
        except (ValueError, RecursionError) as error:
            raise Broken(f"no message: {error}") from error
        if len(data) > LARGEST:
            data = b'{"reply": {"raised": ["ValueError", "the value is too large"]}}'
        self._within_time(self.line.sendall, struct.pack(">I", len(data)) + data)

    def _receive(self) -> dict:
        (size,) = struct.unpack(">I", self._read(4))
        if size > LARGEST:
            raise Broken(f"a message of {size:,} bytes")
        try:
            message = json.loads(self._read(size))
        except (ValueError, RecursionError) as error:
            raise Broken("what was written is no message") from error
        if not isinstance(message, dict):
            raise Broken("what was written is no message")
        return message

    def _read(self, size):
        parts = []
        while size:
            part = self._within_time(self.line.recv, min(size, 2**20))
            if not part:
                raise Broken("the process has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _within_time(self, act, value):
        try:
            if self.deadline is not None:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    raise TooLate()
                self.line.settimeout(left)
            return act(value)
        except TimeoutError as error:
            raise TooLate() from error
        except OSError as error:
            raise Broken("the process has ended") from error


def _exception(raised):
    """An exception of the other side: one of Python's or the course's, or its name."""
    try:
        name, said = (str(part) for part in raised)
    except (TypeError, ValueError) as error:
        raise Broken("no exception") from error
    if name in ERRORS:
        return getattr(importlib.import_module(ERRORS[name]), name)(said)
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        if name not in ("StopIteration", "StopAsyncIteration"):
            try:
                return kind(said)
            except TypeError:  # such as UnicodeDecodeError, which wants more
                pass
    return type(name, (Raised,), {})(said)
