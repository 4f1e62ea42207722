"""What makes two runs the same run: settings, code, data and starting weights as text.

A folder is only resumed by the run that made it. Otherwise a changed reward, teacher or
optimizer would silently return the old run's numbers. Checkpoints hold this description
item by item, so that a refusal can name the setting that changed.

Functions count by their source, without comments and docstrings, and by the values of
their defaults, closures and globals. Objects count by their class and attributes.
Functions and classes of installed packages, and classes of the course, count by name.
"""

import ast
import functools
import inspect
import json
import re
import sys
import textwrap
import types
import zlib

import jax
import numpy as np
from flax import nnx

from helpers.runtime.distributed import whole

REMEDY = (
    "Pass fresh=True to the Trainer to start again there (what is there is moved aside,"
    " not deleted), or give this run another folder."
)
FORMAT = 6  # raised whenever runs are described in another way
LONGEST, MOST_ITEMS = 60, 50  # beyond these a checksum stands for a text, or for items
SAMPLED = 64  # pictures that are made to see whether they are still the same
PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType)
NO_FILES = ("<string>", "<stdin>")  # code of exec, `python -c` and a pipe
NODES = (nnx.Module, nnx.Rngs, nnx.RngStream)
# They change no number.
NO_NUMBER = types.ModuleType, jax.Device, jax.sharding.Mesh, jax.sharding.Sharding


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
    model = describe(state.model)
    weights = model["its weights"]
    model = {path: x for path, x in model.items() if not path.endswith("its weights")}
    return {
        "format of this description": FORMAT,
        "model": model,
        "starting weights": weights,
        **{f"frozen {i}": describe(x) for i, x in enumerate(state.frozen)},
        "objective": describe(objective),
        "optimizer": optimizer.settings or describe(optimizer.transform),
        "learning rate": describe(optimizer.learning_rate),
        "number of minibatches": minibatches,
        **{name: f"{x.dtype}{x.shape}" for name, x in state.named_arrays().items()},
    }


def describe_rows(rows: list[dict]) -> dict[str, str]:
    """A checksum of each column of a table, which rewards and pictures may read."""
    names = sorted({name for row in rows for name in row})
    columns = {name: [row.get(name, ...) for row in rows] for name in names}
    return {f"column {name!r}": _line(describe(x)) for name, x in columns.items()}


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
    return {**describe(make), "what it makes": _line(describe(made))}


def fingerprint(tree) -> str:
    """CRC-32 of all the numbers of a tree of arrays, on whatever devices they are."""
    crc = 0
    for array in jax.tree.leaves(tree):
        if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        array = np.ascontiguousarray(whole(array))
        crc = zlib.crc32(f"{array.dtype}{array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8).data, crc)
    return f"#{crc:08x}"


def differences(before: dict, now: dict) -> str:
    """The first three differences of two descriptions in words; "" if there is none.

    Args:
      before: of the saved run; dicts may be nested.
      now: of this run.
    """
    before, now = _flat(before), _flat(now)
    texts: dict[str, str] = {}
    for path in before | now:
        was, here = before.get(path, "nothing"), now.get(path, "nothing")
        # Where the whole is another, its parts say nothing more.
        if was == here or any(path.startswith(f"{whole}: ") for whole in texts):
            continue
        was, here = (re.sub(r" ?#[0-9a-f]{8}$", "", str(x)) for x in (was, here))
        texts[path] = "changed" if was == here else f"was {was}, here it is {here}"
    changes = [f"{path} {text}".strip() for path, text in texts.items()]
    more = [f"and {len(changes) - 3} more"] if len(changes) > 3 else []
    return "; ".join(changes[:3] + more)


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
    if text := _text(thing, seen):
        return {"": text}
    is_function = isinstance(thing, types.FunctionType)
    if hasattr(thing, "__wrapped__") and not is_function:
        return _items(thing.__wrapped__, seen)  # jax.jit, functools.lru_cache
    items = {"": _name(thing)}
    if isinstance(thing, NODES):
        items["its weights"] = fingerprint(nnx.state(thing))
    if is_function and _owner(thing) != "installed":
        items["code"] = _checksum(_source(thing))
    for name, value in _parts(thing, seen).items():
        inner = _items(value, seen)
        is_deep = name.startswith("global ") and _owner(thing) == "course"
        if len(inner) > (1 if is_deep else MOST_ITEMS):
            inner = {"": _line(inner)}
        items |= {": ".join(filter(None, (name, x))): inner[x] for x in inner}
    return items


def _text(thing, seen) -> str:
    """One text for what has no parts, else ""."""
    version = getattr(thing, "version", None) if callable(thing) else None
    if isinstance(version, (str, int)):
        return f"{_name(thing)} version {version}"
    if isinstance(thing, NO_NUMBER):
        return type(thing).__name__
    if isinstance(thing, (np.ndarray, jax.Array)):
        return f"{thing.dtype}{list(thing.shape)} {fingerprint(thing)}"
    if isinstance(thing, (set, frozenset)):
        lines = sorted(_line(_items(x, seen)) for x in thing)
        return _shortened(f"{{{', '.join(lines)}}}")
    if type(thing) in (list, tuple) and all(isinstance(x, PLAIN) for x in thing):
        return _shortened(repr(thing))
    if isinstance(thing, re.Pattern):  # its repr is truncated
        return _shortened(f"/{thing.pattern}/ flags {thing.flags}")
    if hasattr(type(thing), "backend_tokenizer"):
        return _tokenizer(thing)
    return ""


def _parts(thing, seen) -> dict:
    """{name: value} of what a thing contains and, if it is a function, reads."""
    if isinstance(thing, types.FunctionType):
        return _function(thing)
    if isinstance(thing, type):
        return _class(thing)
    if isinstance(thing, functools.partial):
        return {"function": thing.func, "arguments": thing.args} | thing.keywords
    if isinstance(thing, dict):
        lines = {_line(_items(key, seen)): value for key, value in thing.items()}
        return dict(sorted(lines.items(), key=lambda line: line[0]))
    if isinstance(thing, (list, tuple)):
        names = getattr(thing, "_fields", [f"[{i}]" for i in range(len(thing))])
        return dict(zip(names, thing, strict=True))
    if isinstance(thing, types.MethodType):
        return {"object": thing.__self__, "function": thing.__func__}
    values = dict(getattr(thing, "__dict__", {}))
    for cls in type(thing).__mro__:
        for name in getattr(cls, "__slots__", ()) if _owner(cls) != "installed" else ():
            values[name] = getattr(thing, name, None)
    if isinstance(thing, NODES):
        # Weights have a fingerprint; these two change memory and time only.
        skipped = {"remat", "unroll", *(x for x in values if x.startswith("_"))}
        skipped |= {n for n, x in values.items() if isinstance(x, nnx.Variable)}
    else:  # a cached property appears only once somebody has read it
        methods = vars(type(thing)).items()
        skipped = {n for n, x in methods if isinstance(x, functools.cached_property)}
    names = sorted(values.keys() - skipped)
    return {"class": type(thing)} | {name: values[name] for name in names}


def _function(function) -> dict:
    """Defaults, closure and, unless it is installed, what it reads of its module."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    parts = {
        f"default {x.name}": x.default
        for x in parameters
        if x.default is not inspect.Parameter.empty
    }
    parts |= inspect.getclosurevars(function).nonlocals
    owner, names = _owner(function), _names(function.__code__)
    if owner == "installed":
        return parts
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            if _owner(value) != "installed":
                read = sorted(names & vars(value).keys())
                parts |= {f"global {name}.{x}": vars(value)[x] for x in read}
        # The course's own tables and folders are not settings of a run.
        elif owner == "own" or isinstance(value, PLAIN) or callable(value):
            parts[f"global {name}"] = value
    return parts


def _names(code) -> set:
    """Names of globals and attributes that a function reads, inner ones included."""
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _source(function) -> str:
    """The source of a function without comments, docstrings and line breaks."""
    code = function.__code__
    try:
        if code.co_filename in NO_FILES:  # linecache may hold another program's lines
            raise OSError
        text = textwrap.dedent(inspect.getsource(code)).strip()
        name = "lambda" if code.co_name == "<lambda>" else f"def {code.co_name}"
        if not re.search(rf"\b{name}\b", text):  # the file was edited since
            raise OSError
    except (OSError, TypeError):
        raise ValueError(
            f"The source of {_name(function)} cannot be read. Define it in a file or in"
            " a notebook's cell and import it again, or say which one it is:"
            f' {function.__name__}.version = "1".'
        ) from None
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a lambda, from the middle of its statement
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _class(cls) -> dict:
    """Bases, methods and attributes of a class, if it is the learner's."""
    if _owner(cls) != "own":
        return {}
    parts = {"bases": cls.__bases__}
    for name, value in sorted(vars(cls).items()):
        for wrapper in ("__func__", "fget", "func"):  # static methods, properties, …
            value = getattr(value, wrapper, value)
        # Special methods count if they were written, not made by a decorator.
        code = getattr(value, "__code__", None)
        written = code and code.co_name == name and code.co_filename not in NO_FILES
        if written or not name.startswith("__"):
            parts[name] = value
    return parts


def _tokenizer(tokenizer) -> str:
    """What a tokenizer of transformers computes, not where its files are."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"padding": None, "truncation": None}  # set anew by every call
    about = [rules, tokenizer.chat_template, tokenizer.special_tokens_map]
    checksum = _checksum(json.dumps(about, sort_keys=True))
    return f"tokenizer of {len(tokenizer)} {checksum}"


def _name(thing) -> str:
    """The name of a function or class, its module if installed; an object's text."""
    if hasattr(thing, "__qualname__"):
        name = thing.__qualname__.replace("<locals>.", "")
        return f"{thing.__module__}.{name}" if _owner(thing) == "installed" else name
    if hasattr(thing, "__dict__") or isinstance(thing, (dict, list, tuple)):
        return type(thing).__name__
    return _shortened(re.sub(r" at 0x\w+", "", repr(thing)))


def _owner(thing) -> str:
    """Whose function, class or module it is: "own" (a learner's), "course" or other.

    A function's module is where its globals are: `functools.wraps` copies other names.
    """
    named = {"__name__": getattr(thing, "__module__", None)}
    is_module = isinstance(thing, types.ModuleType)
    space = vars(thing) if is_module else getattr(thing, "__globals__", named)
    module = space.get("__name__") or "__main__"
    top = module.partition(".")[0]
    if top in ("__main__", "helpers"):  # notebooks run in an installed package's
        return "course" if "." in module else "own"
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    is_installed = top in sys.stdlib_module_names or "-packages" in file
    return "installed" if is_installed else "own"


def _flat(items, path=""):
    flat: dict[str, str] = {}
    for name, value in items.items():
        inner = ": ".join(filter(None, (path, name)))
        flat |= _flat(value, inner) if isinstance(value, dict) else {inner: value}
    return flat


def _line(items) -> str:
    """All items as one text."""
    if len(items) == 1:
        return items[""]
    return f"{items['']} {_checksum(json.dumps(sorted(items.items())))}"


def _shortened(text) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:40]}… of {len(text)} characters {_checksum(text)}"


def _checksum(data: str | bytes) -> str:
    data = data.encode(errors="backslashreplace") if isinstance(data, str) else data
    return f"#{zlib.crc32(data):08x}"
