"""Running an exercise as a notebook does: its imports, an answer, its check."""

import ast
import contextlib
import functools
import io
import signal

import course_notebooks as course

from helpers.exercises.check import Check

MOST_SECONDS = 30  # of CPU time, for one answer and its check


class TooSlow(BaseException):
    """Not an Exception: neither an answer nor its check may catch it."""


@functools.cache
def notebooks() -> dict:
    """Every notebook by its number."""
    return {number: course.read(number) for number in course.NUMBERS}


@functools.cache
def exercises() -> dict:
    """Every exercise of the course by its name: "07-1" is the first of notebook 07."""
    return {
        f"{number}-{i}": exercise
        for number, notebook in notebooks().items()
        for i, exercise in enumerate(course.exercises(notebook), 1)
    }


@functools.cache
def _imports(number):
    """What a notebook's cell of imports defines."""
    (imports,) = course.tagged(notebooks()[number], "imports")
    namespace = {"__name__": "__main__"}
    exec(compile(imports.source, "imports", "exec"), namespace)
    return namespace


@functools.cache
def _check(name):
    """The check cell of an exercise: what comes before its last line, and that line."""
    *first, last = ast.parse(exercises()[name].check).body
    assert isinstance(last, ast.Expr), "a check cell ends with the call of its check"
    return ast.Module(first, []), last.value


def judged(name: str, source: str) -> Check:
    """The verdict on code that stands in place of the stub."""
    namespace = dict(_imports(name.partition("-")[0]))
    exec(compile(source, "answer", "exec"), namespace)
    return _verdict(name, namespace)


def judged_value(name: str, answer) -> Check:
    """The verdict on a value or function; on a tuple where the check takes several."""
    _, call = _check(name)
    names = [argument.id for argument in call.args]
    values = answer if len(names) > 1 else [answer]
    given = dict(zip(names, values, strict=True))
    return _verdict(name, _imports(name.partition("-")[0]) | given)


def _verdict(name, namespace):
    first, call = _check(name)
    exec(compile(first, "check", "exec"), namespace)
    return eval(compile(ast.Expression(call), "check", "eval"), namespace)


def passes(name: str, source: str) -> bool:
    """Whether code passes, in silence; what raises or takes too long does not."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return judged(name, source).passed
    except (Exception, TooSlow):
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(*_):
    raise TooSlow
