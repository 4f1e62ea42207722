"""A report that was measured is read again, not measured again.

A baseline costs minutes on a real model, and a session that was cut off would pay them
twice. What it was measured on stands beside it; of anything else it is measured anew.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import warnings
from collections.abc import Callable
from typing import TypeVar

from helpers.evaluation.report import Report
from helpers.evaluation.scored import Scores, score
from helpers.runtime import run_identity
from helpers.runtime.platform import require_writable
from helpers.tools.tool import Trace

R = TypeVar("R", Report, Scores)
LEFT_OUT = ("trace",)  # of an answer: a whole conversation; its text stays


def kept(path, about: dict, measure: Callable[[], R], kind: type[R]) -> R:
    """The report in a file if it is about the same, else a new one, which goes there.

    Args:
      path: a JSON file, made with its folder; it is replaced in one step.
      about: what decides the report, texts by name, such as `run_identity.describe`
        gives of a model.
      measure: makes it.
      kind: the dataclass that it makes, `Report` or `Scores`. One that was read lacks
        the traces of its conversations; where one is an answer's completion, its text
        comes back.
    Raises:
      OSError: the folder cannot be written to; found out before it is measured.
    Warns:
      UserWarning: the file could not be written after all: measured, but not kept.
    """
    path = pathlib.Path(path)
    about = json.loads(json.dumps(about))
    names = [field.name for field in dataclasses.fields(kind)]
    found = _read(path, names)
    if found and found["about"] == about:
        print(f"measured before: {path}")
        return kind(**{name: found[name] for name in names})
    require_writable(path.parent)
    report = measure()
    answers = [
        {name: _kept(x) for name, x in answer.items() if name not in LEFT_OUT}
        for answer in report.answers
    ]
    whole = {name: getattr(report, name) for name in names}
    whole |= {"about": about, "answers": answers}
    _write(path, json.dumps(whole, default=_plain))
    return report


def kept_score(path, model, tokenizer, rows, reward, **settings) -> Scores:
    """`score`, read again from a file if model, rows, reward and settings are the same.

    Args:
      path: as for `kept`. The others are those of `score`.
    """
    tools = settings.get("tools")
    told = settings | {"tools": tools.describe() if tools else None}
    about = {
        "model": run_identity.describe(model),
        "tokenizer": run_identity.describe(tokenizer),
        "rows": run_identity.describe_rows(rows),
        "reward": run_identity.describe(reward),
        "answers": "with the scores of each reward function",  # older ones lack them
        "settings": told,
    }
    return kept(
        path, about, lambda: score(model, tokenizer, rows, reward, **settings), Scores
    )


def _write(path, text):
    """Writes a file in one step; a disk that is full by now costs the file alone."""
    aside = path.with_suffix(".partial")
    try:
        aside.write_text(text, "utf-8")
        os.replace(aside, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a disk that is gone has nothing to remove
            aside.unlink()
        warnings.warn(
            f"{path} could not be written ({error.strerror or error}): what was "
            "measured is here, but the next session will measure it again. Make room "
            "there, or set COURSE_BUILD to a folder elsewhere.",
            stacklevel=3,
        )


def _kept(x):
    """What JSON can hold of an entry of an answer."""
    return str(x) if isinstance(x, Trace) else x


def _plain(x):
    """What JSON can hold of a number or an array of NumPy's or JAX's; else its text."""
    return x.tolist() if hasattr(x, "tolist") else str(x)


def _read(path, names):
    """The content of a file; None if there is none, or what is there is no report."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if {"about", *names} <= found.keys():
            return found
        said = "it has other entries"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        said = str(error)
    warnings.warn(f"{path} is no report, so it is measured anew: {said}", stacklevel=3)
    return None
