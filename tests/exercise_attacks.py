"""Attacks on a self-check: what a right function becomes by a mistake outside its text.

A learner's function may give the first result for ever, leave out an argument, hand an
argument back, or spoil what it is given. A program puts each of these around a
solution, and the check must refuse it. Nor may a check care for the type of a number:
the same result as float32, or as JAX's in place of NumPy's, must pass.
"""

import copy
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np


def wrong(function) -> dict:
    """{what is wrong: the function with this mistake}."""
    names = [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    found = {
        "the first result for ever": _for_ever(function),
        "spoils what it is given": _spoils(function),
        "None": lambda *given, **named: None,
    }
    for name in names:
        found[f"{name} as in the first call"] = _frozen(function, name)
        found[f"{name} itself"] = _returns(function, name)
    return found


def right(function) -> dict:
    """{type: the function with results of this type}; what is no number stays."""
    return {
        "NumPy": _becomes(function, _as_numpy),
        "JAX": _becomes(function, jnp.asarray),
        "float64": _becomes(function, _as_float(np.float64)),
        "float32": _becomes(function, _as_float(np.float32)),
    }


def _for_ever(function):
    kept = []

    @functools.wraps(function)
    def answer(*given, **named):
        if not kept:
            kept.append(function(*given, **named))
        return copy.copy(kept[0])

    return answer


def _spoils(function):
    """Gives the right result; an error where it is given nothing that can be spoilt."""

    @functools.wraps(function)
    def answer(*given, **named):
        result = function(*given, **named)
        spoilt = [_spoil(argument) for argument in [*given, *named.values()]]
        if not any(spoilt):
            raise TypeError("there is nothing to spoil")
        return result

    return answer


def _spoil(argument):
    """Changes an array, a list or a dict; whether it is one."""
    if isinstance(argument, np.ndarray):
        argument[...] = argument[..., ::-1] + 1 if argument.ndim else 7
    elif isinstance(argument, list):
        argument.append(None)
    elif isinstance(argument, dict):
        argument["spoilt"] = None
    return isinstance(argument, np.ndarray | list | dict)


def _frozen(function, name):
    kept, signature = [], inspect.signature(function)

    @functools.wraps(function)
    def answer(*given, **named):
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        if not kept:
            kept.append(copy.copy(bound.arguments[name]))
        bound.arguments[name] = kept[0]
        return function(*bound.args, **bound.kwargs)

    return answer


def _returns(function, name):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def answer(*given, **named):
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        return bound.arguments[name]

    return answer


def _becomes(function, change):
    @functools.wraps(function)
    def answer(*given, **named):
        result = function(*given, **named)
        if isinstance(result, np.ndarray | np.generic | jax.Array | float):
            return change(result)
        return result

    return answer


def _as_numpy(result):
    """As an array of NumPy's, but for what JAX differentiates or maps."""
    return result if isinstance(result, jax.core.Tracer) else np.asarray(result)


def _as_float(dtype):
    def change(result):
        if isinstance(result, jax.core.Tracer):
            return result
        result = np.asarray(result)
        return result.astype(dtype)[()] if result.dtype.kind == "f" else result

    return change
