"""Chat templates from elsewhere: rendered once in a process aside, within limits.

A template is a program. Jinja's sandbox keeps it from files and from attributes, and
lets it fill the memory or run for days. So a template of a file that nobody vouches for
is rendered first where that harms nobody.
"""

import contextlib
import json
import re
import subprocess
import sys

SECONDS, BYTES, CHARACTERS = 10, 2 << 30, 1_000_000
LONGEST = 1 << 18  # characters of a template; those of large models have some 10,000
GENERATION = re.compile(r"{%-?\s*(end)?generation\s*-?%}")  # transformers' own mark
MESSAGES = (
    {"role": "user", "content": "question"},
    {"role": "assistant", "content": "answer"},
)


class TemplateRefused(ValueError):
    """A chat template takes more time or memory than any conversation needs."""


def require_modest(template: str) -> None:
    """Renders a question and an answer in a process of its own.

    What is wrong with a template otherwise is not looked at.

    Raises:
      TemplateRefused: it is longer than 262,144 characters, or takes more than ten
        seconds or 2 GiB, or writes more than a million characters.
    """
    if len(template) > LONGEST:
        raise TemplateRefused(
            f"The chat template has {len(template):,} characters, more than "
            f"{LONGEST:,}."
        )
    aside = [sys.executable, "-P", __file__]
    said = ""
    with contextlib.suppress(subprocess.TimeoutExpired):
        said = subprocess.run(
            aside,
            input=json.dumps(template),
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        ).stdout
    if said.strip() != "fine":
        raise TemplateRefused(
            f"The chat template needs more than {SECONDS} seconds, {BYTES >> 30} GiB "
            f"or {CHARACTERS:,} characters for one question and its answer. Take the "
            "model from somewhere else, or put another template into the file."
        )


def _limit():
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows; macOS
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def _render(template: str) -> bool:
    """Whether it stays within the limits, or stops with an error of its own."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = json.dumps
    environment.globals |= {"raise_exception": str, "strftime_now": str}
    written = 0
    try:
        compiled = environment.from_string(GENERATION.sub("", template))
        for asks in (False, True):
            for piece in compiled.generate(
                messages=MESSAGES, add_generation_prompt=asks, tools=None
            ):
                written += len(piece)
                if written > CHARACTERS:
                    return False
    except MemoryError:
        return False
    except Exception:  # noqa: BLE001 (whoever uses the template is told of it)
        return True
    return True


if __name__ == "__main__":
    _limit()
    print("fine" if _render(json.load(sys.stdin)) else "refused")
