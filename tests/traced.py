"""The operations of a traced program, counted as jax wrote them, on any jax."""

import math


def equations(jaxpr, times=1):
    """Yields (equation, how often it runs); a loop of unknown length counts once."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = list(_programs_in(equation.params.values()))
        if not inner:
            yield equation, times
        for program in inner:
            yield from equations(program, times * equation.params.get("length", 1))


def _programs_in(values):
    for value in values:
        if isinstance(value, tuple | list):
            yield from _programs_in(value)
        elif hasattr(value, "eqns") or hasattr(value, "jaxpr"):
            yield value


def matmul_flops(jaxpr) -> int:
    """FLOPs of all matrix products of a program, two for each multiply-add."""
    total = 0
    for equation, times in equations(jaxpr):
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, result = equation.invars[0].aval, equation.outvars[0].aval
            inner = math.prod(left.shape[i] for i in contracted)
            total += times * 2 * result.size * inner
    return total
