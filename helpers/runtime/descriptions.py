"""Any Python thing as {path: short text}: what it is made of, the same everywhere.

Addresses, hashes, file names and line numbers are no part of it; neither is the order
of a dict or a set. What pickle would write of an object counts; what pickle refuses
(an open file, a generator, a connection) cannot be described, and that is said.
"""

import functools
import json
import re
import threading
import types
import warnings
import zlib
from collections import deque

import jax
import numpy as np
from flax import nnx

from helpers.runtime import function_code
from helpers.runtime.function_code import (
    PLAIN,
    home,
    is_by_name,
    is_course,
    is_installed,
)

LONGEST = 60  # characters of a text that is shown whole
MOST_ITEMS = 200  # of a list, dict or object that are told one by one
DEEPEST, MOST_THINGS = 40, 500_000  # beyond these, things are not compared
NOT_COMPARED = "(not compared)"
# What decides no number: who waits for whom, and where arrays lie.
NO_NUMBER = (
    type(threading.Lock()),
    type(threading.RLock()),
    jax.Device,
    jax.sharding.Mesh,
    jax.sharding.Sharding,
)
SETS = (set, frozenset)
DESCRIBED = (type, types.FunctionType)
BUILTIN = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
NODES = (nnx.Module, nnx.Rngs, nnx.RngStream)


class Description:
    """Describes things; functions and classes found on the way are described once.

    Args:
      fingerprint: tree of arrays -> checksum as text.
    """

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint
        self.names: dict[int, str] = {}  # of functions and classes, by id
        self.queue: deque = deque()  # (name, function or class)
        self.told, self.inside, self.kept = {}, set(), []

    def of(self, thing) -> dict[str, str]:
        """{path: text} of a thing, and of the functions and classes that it uses."""
        items = dict(self.items(thing))
        while self.queue:
            name, each = self.queue.popleft()
            if isinstance(each, type):
                held = function_code.members(each)
            else:
                held = function_code.held(each)
            told = self._all(held)
            items |= told if each is thing else _under(name, told)
            if not isinstance(each, type) and not is_installed(home(each)):
                code = function_code.checksum(each.__code__)
                items[f"code of the function `{name}`"] = code
        hidden = [path for path, text in items.items() if NOT_COMPARED in text]
        if hidden:
            _warn(items[""], hidden)
        return items

    def items(self, thing) -> dict[str, str]:
        """{path: text} of a thing itself, with the path "" for what it is."""
        if type(thing) in PLAIN:
            return {"": _shortened(repr(thing))}
        if id(thing) in self.told:
            return self.told[id(thing)]
        if id(thing) in self.inside:
            return {"": f"the {type(thing).__name__} that it stands in"}
        if len(self.inside) > DEEPEST or len(self.told) > MOST_THINGS:
            return _not_compared(thing)
        self.inside.add(id(thing))
        try:
            items = self._items(thing)
        finally:
            self.inside.remove(id(thing))
        self.kept.append(thing)  # or another thing might get its id
        self.told[id(thing)] = items
        return items

    def short(self, thing) -> str:
        """One line for a thing, a checksum in it if it holds others."""
        return _one_line(self.items(thing))

    def _items(self, thing):
        if isinstance(thing, (np.ndarray, np.generic, jax.Array)):
            return self._array(thing)
        if isinstance(thing, (bytes, bytearray)):
            return {"": f"{len(thing)} bytes #{zlib.crc32(thing):08x}"}
        if isinstance(thing, re.Pattern):  # whose repr is cut off
            return {"": _shortened(f"/{thing.pattern}/ flags {thing.flags}")}
        if isinstance(thing, types.ModuleType):
            return {"": f"module {thing.__name__}"}
        if isinstance(thing, NO_NUMBER):
            return {"": type(thing).__name__}
        is_named = isinstance(thing, tuple) and hasattr(thing, "_fields")
        if is_named or isinstance(thing, SETS) or type(thing) in (dict, list, tuple):
            return self._container(thing)
        if isinstance(thing, nnx.Variable):
            return {"": f"{type(thing).__name__} {self.fingerprint(thing[...])}"}
        if isinstance(thing, NODES):
            weights = self.fingerprint(nnx.state(thing))
            return self.module(thing) | {"its weights": weights}
        if hasattr(type(thing), "backend_tokenizer"):
            return _tokenizer(thing)
        if callable(thing) and (found := self._callable(thing)):
            return found
        return self._object(thing)

    def _callable(self, thing):
        """Items of functions, classes and what stands for one; None of others."""
        if isinstance(thing, DESCRIBED):
            return {"": self._name(thing)}
        if isinstance(thing, functools.partial):
            held = {f"argument {i}": each for i, each in enumerate(thing.args)}
            return self._bound("partial", thing.func, held | thing.keywords)
        if isinstance(thing, types.MethodType):
            return self._bound("method", thing.__func__, {"object": thing.__self__})
        owner = getattr(thing, "__self__", None)
        if isinstance(thing, BUILTIN) and not isinstance(owner, types.ModuleType):
            return self.joined(f"builtin {thing.__qualname__}", {"of": owner})
        if is_installed(type(thing).__module__):  # jax.jit, nnx.jit, lru_cache, …
            if callable(inner := getattr(thing, "__wrapped__", None)):
                return self.items(inner)
        return {"": self._name(thing)} if is_by_name(thing) else None

    def _bound(self, kind, function, held):
        inner = self.items(function)
        items = self.joined(f"{kind} of {inner['']}", held)
        return items | {path: text for path, text in inner.items() if path}

    def _array(self, array):
        if getattr(array.dtype, "hasobject", False):  # its memory holds addresses
            return self.joined("array of objects", {"values": array.tolist()})
        if isinstance(array, np.generic):
            return {"": f"{array.item()!r} as {array.dtype}"}
        return {"": f"{array.dtype}{list(array.shape)} {self.fingerprint(array)}"}

    def _container(self, thing):
        kind = self._name(type(thing)).removeprefix("builtins.")
        kind = f"{kind} of {len(thing)}"
        if isinstance(thing, SETS):
            inner = ", ".join(sorted(map(self.short, thing)))
            return {"": _shortened(f"{{{inner}}}", kind)}
        if isinstance(thing, dict):
            keys = sorted((self.short(key), i) for i, key in enumerate(thing))
            values = list(thing.values())
            return self.joined(kind, {text: values[i] for text, i in keys})
        if type(thing) in (list, tuple) and set(map(type, thing)) <= PLAIN:
            return {"": _shortened(repr(thing), kind)}
        names = getattr(thing, "_fields", [f"[{i}]" for i in range(len(thing))])
        return self.joined(kind, dict(zip(names, thing, strict=True)))

    def module(self, module) -> dict[str, str]:
        """An nnx module without its weights: class, settings, and those of its parts.

        `remat` and `unroll` are left out: they change memory and time, not the result.
        """
        items = {"": self._name(type(module))}
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or name in ("remat", "unroll"):
                continue
            if isinstance(value, NODES):
                items |= _under(name, self.module(value))
            elif not isinstance(value, nnx.Variable):
                items |= _under(name, self.items(value))
        return items

    def _object(self, thing):
        """What pickle would write of an object."""
        try:
            reduced = thing.__reduce_ex__(4)
        except Exception:  # whatever a class raises that cannot be pickled
            return _not_compared(thing)
        if isinstance(reduced, str):
            return {"": f"{self._name(type(thing))} {reduced}"}
        make, arguments, state, entries, pairs = (*reduced, None, None, None)[:5]
        held = {}
        if getattr(make, "__name__", "") in ("__newobj__", "__newobj_ex__"):
            arguments = arguments[1:]
        elif make is not type(thing):
            held["made by"] = make
        held |= {f"argument {i}": each for i, each in enumerate(arguments)}
        held |= _attributes(thing, state)
        if entries is not None:
            held["its entries"] = list(entries)
        if pairs is not None:
            held["its entries by key"] = dict(pairs)
        return self.joined(self._name(type(thing)), held)

    def joined(self, head, held) -> dict[str, str]:
        """What holds other things by name; as one checksum, if these are very many."""
        items = {"": head} | self._all(held)
        return items if len(items) <= MOST_ITEMS else {"": _one_line(items)}

    def _name(self, thing):
        """A function or class by name; somebody's own will be described as well."""
        if id(thing) in self.names:
            return self.names[id(thing)]
        name = thing.__qualname__.replace(".<locals>", "")
        if is_installed(home(thing)):
            name = f"{home(thing)}.{name}"
        described = isinstance(thing, types.FunctionType) or not is_course(home(thing))
        if described and isinstance(thing, DESCRIBED) and not is_by_name(thing):
            same = sum(n.partition(" (")[0] == name for n in self.names.values())
            name += f" ({same + 1})" if same else ""
            self.queue.append((name, thing))
        self.kept.append(thing)
        self.names[id(thing)] = name
        return name

    def _all(self, held):
        """{path: text} of things by name."""
        items: dict[str, str] = {}
        for name, value in held.items():
            items |= _under(name, self.items(value))
        return items


def _attributes(thing, state):
    """{name: value} of a pickled state: attributes, slots, or what it is otherwise."""
    parts = state if isinstance(state, tuple) else (state,)
    if not all(isinstance(part, (dict, types.NoneType)) for part in parts):
        return {"state": state}
    held = {str(name): x for part in parts for name, x in (part or {}).items()}
    return {name: x for name, x in sorted(held.items()) if not _is_cached(thing, name)}


def _is_cached(thing, name):
    """Whether an attribute was computed from the others when somebody asked for it."""
    return isinstance(getattr(type(thing), name, None), functools.cached_property)


def _tokenizer(tokenizer):
    """A tokenizer of transformers: what it computes, not where its files lie."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"padding": None, "truncation": None}  # set anew by every call
    template, special = tokenizer.chat_template, tokenizer.special_tokens_map
    crc = zlib.crc32(json.dumps([rules, template, special], sort_keys=True).encode())
    return {"": f"tokenizer of {len(tokenizer)} #{crc:08x}"}


def _under(name, items):
    return {": ".join(filter(None, (name, path))): text for path, text in items.items()}


def _one_line(items):
    if len(items) == 1:
        return items[""]
    crc = zlib.crc32(json.dumps(sorted(items.items())).encode())
    hidden = any(NOT_COMPARED in text for text in items.values())
    return f"{items['']}{f' {NOT_COMPARED}' if hidden else ''} #{crc:08x}"


def _shortened(text, kind=None):
    if len(text) <= LONGEST:
        return text
    kind = kind or f"{text[:40]}… of {len(text)} characters"
    return f"{kind} #{zlib.crc32(text.encode(errors='backslashreplace')):08x}"


def _not_compared(thing):
    return {"": f"{type(thing).__module__}.{type(thing).__name__} {NOT_COMPARED}"}


def _warn(thing, paths):
    names = ", ".join(path or "all" for path in paths[:3])
    warnings.warn(
        f"What {thing} holds cannot be written down: {names}. When that changes, a run"
        " is resumed all the same. Hold plain numbers, texts, arrays or objects of them"
        " instead (a path, not an open file), or mind it yourself.",
        stacklevel=4,
    )
