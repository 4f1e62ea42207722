"""What functions and classes are made of: code, defaults, closures, globals, members.

Code is read as it was compiled, which is there for functions of notebook cells, files
and strings alike, and knows nothing of comments, docstrings, lines or file names.
"""

import bisect
import dis
import functools
import importlib.util
import pathlib
import re
import sys
import types
import zlib
from typing import Any

# Instructions that hold a place and do nothing.
SILENT = {"NOP", "RESUME", "CACHE", "EXTENDED_ARG"}
_PAIR = re.compile("(?:LOAD|STORE)_FAST(?:_BORROW)?")
GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
KINDS = 4 | 8 | 32 | 128 | 512  # flags: *args, **kwargs, generator, coroutine, both
# Of a class's own attributes: what Python, dataclasses and pickle note for themselves.
NOTES = set(
    "__doc__ __module__ __qualname__ __dict__ __weakref__ __firstlineno__ __annotate__ "
    "__static_attributes__ __annotations__ __annotate_func__ __dataclass_fields__ "
    "__dataclass_params__ __match_args__ __abstractmethods__ _abc_impl __slotnames__ "
    "__annotations_cache__".split()
)
SLOT = (types.MemberDescriptorType, types.GetSetDescriptorType)
PLAIN = {bool, int, float, complex, str, type(None), type(...)}


def checksum(code: types.CodeType) -> str:
    """The code as text, such as "Python 3.11 #1a2b3c4d".

    Every Python compiles differently, so only codes of one version can be compared.
    """
    crc = zlib.crc32("\n".join(_lines(code)).encode())
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} #{crc:08x}"


def _lines(code):
    arguments = code.co_argcount + code.co_kwonlyargcount
    sizes = code.co_argcount, code.co_posonlyargcount, code.co_flags & KINDS
    yield f"{sizes} {code.co_varnames[:arguments]}"
    steps, place = _steps(code)
    for name, value in steps:
        if isinstance(value, types.CodeType):
            yield name
            yield from _lines(value)
        else:
            yield f"{name} {_constant(value)}"
    bytecode: Any = dis.Bytecode(code)  # has more than its types say
    for each in bytecode.exception_entries:
        span = place(each.start), place(each.end), place(each.target)
        yield f"{span} {each.depth} {each.lasti}"


def _steps(code):
    """([(instruction, what it is given)], offset -> index among them).

    Where Python 3.13 makes two instructions one depends on the ends of lines, and so do
    offsets: here they are two, and jumps are told by index.
    """
    steps, offsets = [], []
    for each in dis.get_instructions(code):
        names = _PAIR.findall(each.opname) if isinstance(each.argval, tuple) else []
        if len(names) == 2:
            pair = list(zip(names, each.argval, strict=True))
        else:
            pair = [] if each.opname in SILENT else [(each.opname, each.argval)]
        steps += pair
        offsets += [each.offset] * len(pair)

    def place(offset):
        return bisect.bisect_left(offsets, offset)

    jumps = {dis.opname[op] for op in (*dis.hasjrel, *dis.hasjabs)}
    told = [(n, f"to {place(x)}" if n in jumps else x) for n, x in steps]
    return told, place


def _constant(value):
    """A constant as text; a set's entries in one order, whatever hashes are today."""
    if isinstance(value, frozenset):
        return f"set of {sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    return repr(value)


def held(function: types.FunctionType) -> dict:
    """{path: value} of what a function holds and, unless it is installed, looks up."""
    code, defaults = function.__code__, function.__defaults__ or ()
    last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    default = dict(zip(last, defaults, strict=True)) | (function.__kwdefaults__ or {})
    found = {f"default {name}": value for name, value in sorted(default.items())}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    found |= {name: _content(cell) for name, cell in cells}
    if is_installed(home(function)):
        found |= _as_before_the_first_call(code, found)
    else:
        noted = {n: x for n, x in vars(function).items() if n != "__wrapped__"}
        found |= {f"attribute {name}": noted[name] for name in sorted(noted)}
        found |= used(function)
    return found


def _as_before_the_first_call(code, found):
    """The whole numbers of variables that installed code assigns to, as integers.

    `optax.cosine_decay_schedule(0.1, 6)` makes its 6 a 6.0 when it is first called.
    """
    assigned = {
        x.argval for x in dis.get_instructions(code) if "STORE_DEREF" in x.opname
    }
    numbers = {name: found[name] for name in assigned & found.keys()}
    return {
        name: int(number)
        for name, number in numbers.items()
        if isinstance(number, float) and number.is_integer()
    }


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def members(own: type) -> dict:
    """{name: value} of a class: its bases, and what its body defines."""
    found: dict = {"its bases": own.__bases__}
    if not is_installed(type(own).__module__):
        found["its metaclass"] = type(own)
    for name, value in sorted(vars(own).items()):
        value = getattr(value, "__func__", value)  # of static and class methods
        if isinstance(value, property):
            value = (value.fget, value.fset)
        # By dataclasses, from fields that the attributes tell of; by Flax, for itself.
        made = hasattr(own, "__dataclass_fields__") and _file(value) == "<string>"
        made = made or name.startswith("_pytree__")
        if not (made or name in NOTES or isinstance(value, SLOT)):
            found[name] = value
    return found


def _file(function):
    return getattr(getattr(function, "__code__", None), "co_filename", None)


def used(function: types.FunctionType) -> dict:
    """The globals that a function uses by path, and those of modules with functions in.

    A module of somebody's own, or of the course, is looked into: `rules.limit` is what
    the code asks it for. Of the course's own globals functions, classes and constants
    count, not its folders and tables.
    """
    found, attributes = _names(function.__code__)
    space = function.__globals__
    there = {name: space[name] for name in sorted(found) if name in space}
    there |= _imported(function)
    return dict(_looked_up(there, "global ", home(function), attributes, set()))


def _looked_up(values, path, module, attributes, seen):
    for name, value in values.items():
        if not isinstance(value, types.ModuleType) or is_installed(value.__name__):
            if not is_course(module) or _is_constant(value):
                yield f"{path}{name}", value
        elif id(value) not in seen:
            seen.add(id(value))
            inner = {n: vars(value)[n] for n in sorted(attributes & vars(value).keys())}
            inside = f"{path.removeprefix('global ')}{name}."
            yield from _looked_up(inner, inside, value.__name__, attributes, seen)


def _imported(function):
    """{name: module} of what a function imports in its body and somebody wrote."""
    package, found = function.__globals__.get("__package__"), {}
    for name in sorted(_import_names(function.__code__)):
        for whole in (name, f"{package}.{name}"):
            if is_installed(whole) or is_course(whole):
                break
            if module := _loaded(whole):
                found[name] = module
                break
    return found


def _import_names(code):
    names = set()
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            names.add(each.argval)
        elif isinstance(each.argval, types.CodeType):
            names |= _import_names(each.argval)
    return names


def _loaded(name):
    """A module, imported now if need be, as the function would; None if there is none.

    A module that is broken says so when the function is called.
    """
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def _is_constant(value):
    kinds = (type, types.FunctionType, tuple, re.Pattern)
    return (
        type(value) in PLAIN
        or isinstance(value, kinds)
        or callable(getattr(value, "__wrapped__", None))
    )


def _names(code):
    """Names that may be global, and all names of attributes, nested code included."""
    found, attributes = set(), set(code.co_names)
    for each in dis.get_instructions(code):
        if each.opname in GLOBAL:
            found.add(each.argval)
        elif isinstance(each.argval, types.CodeType):
            inner, inner_attributes = _names(each.argval)
            found |= inner
            attributes |= inner_attributes
    return found, attributes


def is_course(module: str | None) -> bool:
    """Whether a module of this name is the course's own."""
    return (module or "").partition(".")[0] == "helpers"


@functools.cache
def is_installed(module: str | None) -> bool:
    """Whether a module is Python's or an installed package's, not somebody's own.

    Notebooks, scripts, modules beside them and the course itself are not.
    """
    top = (module or "__main__").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    if top == "__main__" or is_course(top):
        return False
    try:
        found = importlib.util.find_spec(top)
    except ValueError:  # loaded without a spec, by hand
        return False
    if found is None:
        return False
    place = found.origin if found.has_location else None
    place = place or next(iter(found.submodule_search_locations or []), None)
    if place is None:
        return True
    path = pathlib.Path(place).resolve()
    return _has_packages(path.parents[1 if path.stem == "__init__" else 0])


@functools.cache
def _has_packages(folder):
    """Whether pip, or the system, installs packages into this folder."""
    known = folder.name in ("site-packages", "dist-packages")
    return known or any(folder.glob("*.dist-info"))


def home(thing) -> str | None:
    """The module that a function or class is of.

    A function's is where its globals are: `functools.wraps` copies the names of what it
    wraps, the module's among them.
    """
    if isinstance(thing, types.FunctionType):
        return thing.__globals__.get("__name__")
    return getattr(thing, "__module__", None)


def is_by_name(thing) -> bool:
    """Whether the name says it all: of classes and functions of installed modules.

    Not of those that were made inside of another function, with what that held.
    """
    module, path = home(thing), getattr(thing, "__qualname__", None)
    if isinstance(thing, types.FunctionType):
        path = thing.__code__.co_qualname
    if not isinstance(module, str) or not isinstance(path, str):
        return False
    return is_installed(module) and (isinstance(thing, type) or "<" not in path)
