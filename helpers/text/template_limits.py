"""Chat templates from elsewhere: rendered once in a process aside, within limits.

A template is a program. Jinja's sandbox keeps it from files and from attributes, and
lets it fill the memory or run for days. So a template of a file that nobody vouches for
is rendered first where that harms nobody, with words that are drawn anew for each look:
it cannot tell that it is being looked at. What it does with a conversation of another
kind, with pictures, say, or a hundred turns, is not known after this.
"""

import contextlib
import json
import re
import secrets
import string
import subprocess
import sys

SECONDS, BYTES, CHARACTERS = 10, 2 << 30, 1_000_000
LONGEST = 1 << 18  # characters of a template; those of large models have some 10,000
GENERATION = re.compile(r"{%-?\s*(end)?generation\s*-?%}")  # transformers' own mark
ROUNDS = 3  # of question and answer in the longest conversation that is looked at


class TemplateRefused(ValueError):
    """A chat template takes more time or memory than any conversation needs."""


def unknown_word() -> str:
    """A word that no template can know: five to twelve letters, drawn by the system."""
    size = 5 + secrets.randbelow(8)
    return "".join(secrets.choice(string.ascii_letters) for _ in range(size))


def require_modest(template: str) -> None:
    """Renders conversations of one to three rounds in a process of its own.

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
            input=json.dumps([template, _conversations()]),
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        ).stdout
    if said.strip() != "fine":
        raise TemplateRefused(
            f"The chat template needs more than {SECONDS} seconds, {BYTES >> 30} GiB "
            f"or {CHARACTERS:,} characters for {ROUNDS} questions and answers. Take the"
            " model from somewhere else, or put another template into the file."
        )


def _conversations():
    """Of one round, of two, and so on; of words that nobody knows."""
    messages = [
        {"role": role, "content": unknown_word()}
        for _ in range(ROUNDS)
        for role in ("user", "assistant")
    ]
    return [messages[:count] for count in range(2, len(messages) + 1, 2)]


def _limit():
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows; macOS
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def _render(template: str, conversations: list) -> bool:
    """Whether it stays within the limits, or stops with an error of its own."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = json.dumps
    environment.globals |= {"raise_exception": str, "strftime_now": str}
    room = [CHARACTERS]
    try:
        compiled = environment.from_string(GENERATION.sub("", template))
        return all(
            _is_modest(compiled, messages, asks, room)
            for messages in conversations
            for asks in (False, True)
        )
    except MemoryError:
        return False
    except Exception:  # noqa: BLE001 (whoever uses the template is told of it)
        return True


def _is_modest(compiled, messages, asks, room):
    """Whether what it writes fits into the room that is left, which gets smaller."""
    try:
        for piece in compiled.generate(
            messages=messages, add_generation_prompt=asks, tools=None
        ):
            room[0] -= len(piece)
            if room[0] < 0:
                return False
    except MemoryError:
        return False
    except Exception:  # noqa: BLE001, S110 (as above; other conversations may work)
        pass
    return True


if __name__ == "__main__":
    _limit()
    print("fine" if _render(*json.load(sys.stdin)) else "refused")
