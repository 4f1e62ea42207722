"""What makes two runs the same run: settings, code, data and starting weights as text.

A folder is only resumed by the run that made it. Otherwise a changed reward, teacher or
optimizer would silently return the old run's numbers. Checkpoints hold this description
item by item, so that a refusal can name the setting that changed.

Functions count by their source, without comments and docstrings, and by the values of
their defaults, closures and globals. Objects count by what pickle would write of them.
Functions and classes of installed packages, and classes of the course, count by name.
"""

import ast
import dataclasses
import dis
import functools
import inspect
import json
import pathlib
import re
import sys
import textwrap
import types
import weakref
import zlib

import jax
import numpy as np
from flax import nnx

from helpers.runtime.distributed import whole

REMEDY = (
    "Pass fresh=True to the Trainer to start again there (what is there is moved aside,"
    " not deleted), or give this run another folder."
)
LONGEST, MOST_ITEMS = 60, 50  # beyond these a checksum stands for a text, or for items
SAMPLED = 64  # pictures that are made to see whether they are still the same
CHECKSUM = re.compile(r" ?#[0-9a-f]{8}$")
PLAIN = (bool, int, float, complex, str, types.NoneType, types.EllipsisType)
NO_FILES = ("<string>", "<stdin>")  # code of exec, `python -c` and a pipe
NODES = (nnx.Module, nnx.Rngs, nnx.RngStream)
# They change no number.
NO_NUMBER = types.ModuleType, jax.Device, jax.sharding.Mesh, jax.sharding.Sharding
_checksums: dict[int, tuple] = {}  # of JAX's arrays that are still alive


def describe(thing) -> dict[str, str]:
    """Describes a function or an object: what it is, contains and computes.

    The text is the same in every process, wherever a function stands in its file.

    Returns:
      {path: text}; the thing itself has the path "". A text that ends in "#1a2b3c4d", a
      checksum, stands for something longer.

    Raises:
      ValueError: a function has no source that can be read, and no `version`.
    """
    return _items(thing, {})


def describe_run(state, objective, optimizer, minibatches) -> dict:
    """Describes all that must be the same for a folder to be resumed.

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
    """A checksum of each column of a table, which rewards and pictures may read."""
    names = sorted({name for row in rows for name in row})
    return {
        f"column {name!r}": _one_line(_items([row.get(name, ...) for row in rows], {}))
        for name in names
    }


def describe_lists(lists) -> str:
    """A checksum of lists of numbers: their values, and where each one ends."""
    arrays = [np.asarray(numbers) for numbers in lists]
    return f"{len(arrays)} lists {fingerprint(arrays)}"


def describe_pictures(make, inputs) -> dict[str, str]:
    """Describes a function that makes pictures, and what it makes of 64 inputs.

    Making all of them would take as long as an epoch, so a few files that were replaced
    in a long table may go unnoticed: pass fresh=True then.

    Args:
      make: input -> anything with arrays in it, the same for the same input.
      inputs: a sequence, such as the rows.
    """
    chosen = sorted({i * len(inputs) // SAMPLED for i in range(SAMPLED)})
    made = [make(inputs[i]) for i in chosen]
    return {**describe(make), "what it makes": _one_line(_items(made, {}))}


def fingerprint(tree) -> str:
    """CRC-32 of all the numbers of a tree of arrays, on whatever devices they are."""
    crcs = [_array_checksum(leaf) for leaf in jax.tree.leaves(tree)]
    return f"#{zlib.crc32(repr(crcs).encode()):08x}"


def differences(before: dict, now: dict) -> list[str]:
    """What differs between the descriptions of two runs, a few words for each item.

    Args:
      before: of the saved run; dicts may be nested.
      now: of this run.
    """
    before, now = _flat(before), _flat(now)
    changed: dict[str, str] = {}
    for path in [*before, *(path for path in now if path not in before)]:
        parts = path.split(": ")
        if any(": ".join(parts[:i]) in changed for i in range(1, len(parts))):
            continue  # the whole is another: its parts say nothing more
        if path not in now:
            changed[path] = f"was {_readable(before[path])}, here there is none"
        elif path not in before:
            changed[path] = f"is {_readable(now[path])} here, there was none"
        elif before[path] != now[path]:
            was, here = _readable(before[path]), _readable(now[path])
            changed[path] = (
                "changed" if was == here else f"was {was}, here it is {here}"
            )
    return [f"{path} {text}".strip() for path, text in changed.items()]


def listed(texts: list[str]) -> str:
    """The first three differences as one text."""
    more = f"; and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


def _items(thing, seen) -> dict[str, str]:
    """{path: text} of a thing; `seen` has those that were described before, by id."""
    if isinstance(thing, float) and thing.is_integer():
        thing = int(thing)  # Optax turns counts into floats when it is first called
    if isinstance(thing, PLAIN):
        return {"": _shortened(repr(thing))}
    if id(thing) not in seen:
        # What a thing that contains itself finds there.
        seen[id(thing)] = thing, {"": f"the same {type(thing).__name__}"}
        items = _described(thing, seen)
        once = isinstance(thing, (type, types.FunctionType))
        seen[id(thing)] = thing, {"": items[""]} if once else items
        return items
    return seen[id(thing)][1]


def _described(thing, seen):
    version = getattr(thing, "version", None) if callable(thing) else None
    if isinstance(version, (str, int)):
        return {"": f"{_name(thing)} version {version}"}
    if isinstance(thing, NO_NUMBER):
        return {"": type(thing).__name__}
    if isinstance(thing, (np.ndarray, jax.Array)):
        return {"": f"{thing.dtype}{list(thing.shape)} {fingerprint(thing)}"}
    if isinstance(thing, bytes):
        return {"": f"{len(thing)} bytes #{zlib.crc32(thing):08x}"}
    if isinstance(thing, re.Pattern):  # its repr is cut off
        return {"": _shortened(f"/{thing.pattern}/ flags {thing.flags}")}
    if hasattr(type(thing), "backend_tokenizer"):
        return _tokenizer(thing)
    if type(thing) in (list, tuple) and all(isinstance(x, PLAIN) for x in thing):
        return {"": _shortened(repr(thing))}
    if isinstance(thing, (set, frozenset)):
        lines = sorted(_one_line(_items(x, seen)) for x in thing)
        return {"": _shortened(f"{{{', '.join(lines)}}}")}
    wrapped = getattr(thing, "__wrapped__", None)
    if callable(wrapped) and _is_installed(type(thing).__module__):
        if not isinstance(thing, types.FunctionType):  # jax.jit, functools.lru_cache
            return _items(wrapped, seen)
    items = {"": _name(thing if callable(thing) else type(thing))}
    if isinstance(thing, NODES):
        items["its weights"] = fingerprint(nnx.state(thing))
    if isinstance(thing, types.FunctionType) and _home(thing):
        items["code"] = _source_checksum(thing)
    for name, value in _parts(thing, seen).items():
        inner = _items(value, seen)
        is_deep = len(inner) > 1 and name.startswith("global ") and _is_course(thing)
        if len(inner) > MOST_ITEMS or is_deep:
            inner = {"": _one_line(inner)}
        items |= {": ".join(filter(None, (name, x))): inner[x] for x in inner}
    return items


def _parts(thing, seen) -> dict:
    """{name: value} of what a thing contains and, if it is a function, reads."""
    if isinstance(thing, functools.partial):
        arguments = {f"argument {i}": x for i, x in enumerate(thing.args)}
        return {"function": thing.func} | arguments | thing.keywords
    if isinstance(thing, types.MethodType):
        return {"object": thing.__self__, "function": thing.__func__}
    if isinstance(thing, types.FunctionType):
        return _function(thing)
    if isinstance(thing, type):
        return _class(thing)
    if isinstance(thing, dict):
        keys = sorted((_one_line(_items(key, seen)), i) for i, key in enumerate(thing))
        values = list(thing.values())
        return {name: values[i] for name, i in keys}
    if isinstance(thing, (list, tuple)):
        names = getattr(thing, "_fields", [f"[{i}]" for i in range(len(thing))])
        return dict(zip(names, thing, strict=True))
    if isinstance(thing, NODES):
        return _settings(thing)
    return _attributes(thing)


def _attributes(thing) -> dict:
    """Class and contents of an object, by what pickle would write of it."""
    try:
        reduced = thing.__reduce_ex__(4)
    except Exception:  # whatever a class raises that cannot be pickled, such as a file
        return {}
    if isinstance(reduced, str):
        return {"name": reduced}
    _, arguments, state = (*reduced, None)[:3]
    parts: dict = {"class": type(thing)} if _home(type(thing)) else {}
    if arguments := [x for x in arguments if x is not type(thing)]:
        parts["arguments"] = arguments
    states = state if isinstance(state, tuple) else (state,)  # attributes and slots
    if not all(isinstance(each, (dict, types.NoneType)) for each in states):
        return parts | {"state": state}
    for name, value in sorted(
        (item for each in states for item in (each or {}).items()),
        key=lambda item: item[0],
    ):
        # It appears only once somebody has read it.
        if not isinstance(vars(type(thing)).get(name), functools.cached_property):
            parts[name] = value
    return parts


def _settings(module) -> dict:
    """Attributes of an nnx module and of its parts, without the weights.

    `remat` and `unroll` are left out: they change memory and time, not the result.
    """
    parts: dict = {}
    for name, value in sorted(vars(module).items()):
        if isinstance(value, NODES):
            parts |= {f"{name}: {n}": x for n, x in _settings(value).items()}
        elif not name.startswith("_") and name not in ("remat", "unroll"):
            parts |= {} if isinstance(value, nnx.Variable) else {name: value}
    return parts


def _function(function) -> dict:
    """Defaults, closure and, unless it is installed, source, attributes and globals."""
    code, defaults = function.__code__, function.__defaults__ or ()
    last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    values = dict(zip(last, defaults, strict=True)) | (function.__kwdefaults__ or {})
    parts = {f"default {name}": values[name] for name in sorted(values)}
    parts |= inspect.getclosurevars(function).nonlocals
    if _home(function):
        attributes = {f"attribute {name}": x for name, x in vars(function).items()}
        attributes.pop("attribute __wrapped__", None)
        parts |= attributes | _globals(function)
    return parts


def _source_checksum(function) -> str:
    """A checksum of the source, whatever its comments, docstrings and line breaks."""
    code = function.__code__
    try:
        if code.co_filename in NO_FILES:  # linecache may hold another program's lines
            raise OSError
        text = textwrap.dedent(inspect.getsource(code)).strip()
        start = "lambda" if code.co_name == "<lambda>" else f"def {code.co_name}"
        if start not in text:  # the file was edited after it was imported
            raise OSError
    except (OSError, TypeError):
        raise ValueError(
            f"The source of {_name(function)} cannot be read, so nobody would notice"
            " when it changes. Define it in a file or in a notebook's cell, or say"
            f' which one it is: {function.__name__}.version = "1".'
        ) from None
    try:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                node.body = node.body[1:] or [ast.Pass()]
        text = ast.unparse(tree)
    except SyntaxError:  # a lambda, cut out of the middle of its statement
        pass
    return f"#{zlib.crc32(text.encode()):08x}"


def _globals(function) -> dict:
    """{name: value} of globals that a function reads, also from somebody's module."""
    space, attributes = function.__globals__, _names_read(function, "LOAD_ATTR")
    parts: dict = {}
    for name in sorted(_names_read(function, "LOAD_GLOBAL") & space.keys()):
        value = space[name]
        if isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
            inner = sorted(attributes & vars(value).keys())
            parts |= {f"{name}.{x}": vars(value)[x] for x in inner}
        # The course's own tables and folders are not settings of a run.
        elif not _is_course(function) or isinstance(value, PLAIN) or callable(value):
            parts[f"global {name}"] = value
    return parts


def _names_read(function, instruction) -> set:
    codes, names = [function.__code__], set()
    for code in codes:
        codes += [x for x in code.co_consts if isinstance(x, types.CodeType)]
        each = dis.get_instructions(code)
        names |= {x.argval for x in each if x.opname == instruction}
    return names


def _class(cls) -> dict:
    """Bases, methods and attributes of a class, if it is somebody's own."""
    if not _home(cls) or _is_course(cls):
        return {}
    parts = {"bases": cls.__bases__}
    # Of a dataclass its decorator has written the other special methods.
    written = {"__call__"} if dataclasses.is_dataclass(cls) else vars(cls)
    for name, value in sorted(vars(cls).items()):
        for wrapped in ("__func__", "fget", "func"):  # static methods, properties, …
            value = getattr(value, wrapped, value)
        if not name.startswith("__") or (name in written and inspect.isfunction(value)):
            parts[name] = value
    return parts


def _tokenizer(tokenizer):
    """What a tokenizer of transformers computes, not where its files are."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"padding": None, "truncation": None}  # set anew by every call
    template, special = tokenizer.chat_template, tokenizer.special_tokens_map
    crc = zlib.crc32(json.dumps([rules, template, special], sort_keys=True).encode())
    return {"": f"tokenizer of {len(tokenizer)} #{crc:08x}"}


def _name(thing) -> str:
    """The name of a function or class, with the module if that is installed."""
    name = getattr(thing, "__qualname__", type(thing).__name__)
    if isinstance(thing, types.FunctionType) and _home(thing):
        return name.replace("<locals>.", "")
    module = getattr(thing, "__module__", None) or "builtins"
    return name if module == "builtins" else f"{module}.{name}"


def _home(thing) -> str | None:
    """The module of somebody's own function or class, None where it is installed.

    A function's is where its globals are, as `functools.wraps` copies other names.
    """
    space = getattr(
        thing, "__globals__", {"__name__": getattr(thing, "__module__", "")}
    )
    module = space.get("__name__") or "__main__"
    return None if _is_installed(module) else module


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module is Python's or an installed package's, not somebody's own."""
    top = (module or "__main__").partition(".")[0]
    if top in ("__main__", "helpers"):  # an installed package runs notebooks
        return False
    if top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    folders = pathlib.Path(file).parts if file else ()
    return bool({"site-packages", "dist-packages"} & {*folders})


def _array_checksum(array) -> int:
    """CRC-32 of an array's numbers, dtype and shape; of JAX's, computed once."""
    if id(array) in _checksums and _checksums[id(array)][0]() is array:
        return _checksums[id(array)][1]
    numbers = array
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        numbers = jax.random.key_data(array)
    numbers = np.ascontiguousarray(whole(numbers))
    crc = zlib.crc32(f"{numbers.dtype}{numbers.shape}".encode())
    crc = zlib.crc32(numbers.reshape(-1).view(np.uint8).data, crc)
    if isinstance(array, jax.Array):  # nobody can change it afterwards
        key = id(array)
        _checksums[key] = weakref.ref(array, lambda _: _checksums.pop(key, None)), crc
    return crc


def _flat(items, path=""):
    flat: dict[str, str] = {}
    for name, value in items.items():
        inner = ": ".join(filter(None, (path, name)))
        flat |= _flat(value, inner) if isinstance(value, dict) else {inner: value}
    return flat


def _one_line(items):
    if len(items) == 1:
        return items[""]
    crc = zlib.crc32(json.dumps(sorted(items.items())).encode())
    return f"{items['']} #{crc:08x}"


def _shortened(text):
    if len(text) <= LONGEST:
        return text
    crc = zlib.crc32(text.encode(errors="backslashreplace"))
    return f"{text[:40]}… of {len(text)} characters #{crc:08x}"


def _readable(text):
    """A text of a description without its checksum."""
    return CHECKSUM.sub("", str(text))


def _is_course(thing) -> bool:
    return (_home(thing) or "").startswith("helpers.")
