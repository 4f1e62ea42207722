"""What makes two runs the same run: settings, code, data and starting weights as text.

A folder is only resumed by the run that made it. Otherwise a changed reward, teacher or
optimizer would silently return the old run's numbers. What a run is stands in its
checkpoints item by item, so that a refusal can say what changed.
"""

import re
import weakref
import zlib

import jax
import numpy as np

from helpers.runtime.descriptions import Description
from helpers.runtime.distributed import whole

MOST = 3  # differences that a refusal spells out
REMEDY = (
    "Pass fresh=True to the Trainer to start again there (what is there is moved aside,"
    " not deleted), or give this run another folder."
)
LOOKED_AT = 64  # pictures that are made to tell whether they are still the same
CHECKSUM = re.compile(r" ?#[0-9a-f]{8}$")
_known: dict[int, tuple] = {}  # checksums of JAX's arrays that are still alive


def describe(thing) -> dict[str, str]:
    """A function or an object item by item: what it is, holds, uses and computes.

    Of a function: its code, its defaults and closure, and the globals it uses, by
    value; of functions that it calls the same, unless an installed package has them.
    Of an object: its class and attributes, of an array a checksum. The text is the same
    in every process, wherever the function stands, whatever its comments say.

    Returns:
      {path: text}; the thing itself has the path "". A text that ends in "#1a2b3c4d", a
      checksum, stands for something longer.

    Warns:
      UserWarning: something cannot be described, such as an open file.
    """
    return Description(fingerprint).of(thing)


def describe_run(state, objective, optimizer, minibatches) -> dict:
    """What must be the same for a folder to be resumed, item by item.

    Args:
      state: a `TrainingState`, before the first step.
      objective: what is minimised.
      optimizer: an `Optimizer`.
      minibatches: updates per batch.
    """
    frozen = {f"frozen {i}": describe(x) for i, x in enumerate(state.frozen)}
    model = describe(state.model)
    weights = model.pop("its weights")
    return {
        "model": model,
        **{name: f"{x.dtype}{x.shape}" for name, x in state.named_arrays().items()},
        "starting weights": weights,
        **frozen,
        "objective": describe(objective),
        "optimizer": optimizer.settings or describe(optimizer.transform),
        "learning rate": describe(optimizer.learning_rate),
        "number of minibatches": minibatches,
    }


def describe_rows(rows: list[dict]) -> dict[str, str]:
    """The columns of a table, each as a checksum: what rewards and pictures read."""
    names = sorted({name for row in rows for name in row})
    absent = ("there is no such column in this row",)
    description = Description(fingerprint)
    return {
        f"column {name!r}": description.short([row.get(name, absent) for row in rows])
        for name in names
    }


def describe_lists(lists) -> str:
    """Lists of numbers as a checksum of their values, and of where each one ends."""
    arrays = [np.asarray(numbers) for numbers in lists]
    return f"{len(arrays)} lists {fingerprint(arrays)}"


def describe_pictures(make, inputs) -> dict[str, str]:
    """A function that makes pictures, and what it makes of a few inputs out of many.

    Making them all would take as long as an epoch. Of a long table one is looked at in
    64 places, so a few files that were replaced are not noticed: pass fresh=True then.

    Args:
      make: input -> anything with arrays in it, the same for the same input.
      inputs: a sequence, such as the rows.
    """
    chosen = sorted({i * len(inputs) // LOOKED_AT for i in range(LOOKED_AT)})
    made = [make(inputs[i]) for i in chosen]
    return {**describe(make), "what it makes": Description(fingerprint).short(made)}


def fingerprint(tree) -> str:
    """CRC-32 of all the numbers of a tree of arrays, wherever they lie."""
    crcs = [_array_checksum(leaf) for leaf in jax.tree.leaves(tree)]
    return f"#{zlib.crc32(repr(crcs).encode()):08x}"


def _array_checksum(array) -> int:
    """CRC-32 of an array's numbers, dtype and shape; of JAX's, computed once."""
    if id(array) in _known and _known[id(array)][0]() is array:
        return _known[id(array)][1]
    numbers = array
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        numbers = jax.random.key_data(array)
    numbers = np.ascontiguousarray(whole(numbers))
    crc = zlib.crc32(f"{numbers.dtype}{numbers.shape}".encode())
    crc = zlib.crc32(numbers.reshape(-1).view(np.uint8).data, crc)
    if isinstance(array, jax.Array):  # nobody can change it afterwards
        key = id(array)
        _known[key] = weakref.ref(array, lambda _: _known.pop(key, None)), crc
    return crc


def differences(found: dict, expected: dict) -> list[str]:
    """What differs between the descriptions of two runs, a few words for each item.

    Args:
      found: of the saved run; dicts may be nested.
      expected: of this run.
    """
    found, expected = _flat(found), _flat(expected)
    told = {}
    for path in [*found, *(path for path in expected if path not in found)]:
        parts = path.split(": ")
        if any(": ".join(parts[:i]) in told for i in range(1, len(parts))):
            continue  # the whole is another: what it is made of says nothing more
        if path not in expected:
            told[path] = f"was {_told(found[path])}, here there is none"
        elif path not in found:
            told[path] = f"is {_told(expected[path])} here, there was none"
        elif found[path] != expected[path]:
            was, here = _told(found[path]), _told(expected[path])
            told[path] = "changed" if was == here else f"was {was}, here it is {here}"
    return [f"{path} {text}" for path, text in told.items()]


def listed(texts: list[str]) -> str:
    """The first few differences as one text."""
    more = f"; and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return "; ".join(texts[:MOST]) + more


def _flat(items, path=""):
    flat: dict[str, str] = {}
    for name, value in items.items():
        inner = ": ".join(filter(None, (path, name)))
        flat |= _flat(value, inner) if isinstance(value, dict) else {inner: value}
    return flat


def _told(text):
    """A text of a description without its checksum."""
    return CHECKSUM.sub("", str(text))
