"""The food-logging assistant: one conversation about one picture, event by event.

Which model answers is a `Backend`'s affair. What goes wrong for a person to mend is a
`BackendError`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict
from helpers.tools.tool import Tool, run_side_by_side

TURNS = 4  # most turns of the model
SECONDS = 10.0  # for one call
KINDS = ("said", "call", "result", "answer", "error")


class BackendError(RuntimeError):
    """A model could not be asked; the message names the cause and the remedy."""


class Conversation(Protocol):
    """A model in a conversation; each method may raise a BackendError."""

    def next_turn(self) -> Verdict:
        """What the model writes next, read."""

    def append_results(self, verdict: Verdict, results: list[dict]) -> None:
        """Shows the model what its calls gave.

        Args:
          verdict: of the turn that called, or that could not be read.
          results: one dict per call; one error for a turn that could not be read.
        """


class Backend(Protocol):
    """A model behind the assistant: `LocalModel`, `OpenAIServer`, or your own."""

    name: str

    def begin(self, question: str, picture: np.ndarray | None) -> Conversation:
        """Starts a conversation about a picture, uint8 (H, W, 3), or without one."""


class Event(NamedTuple):
    """One thing that happened in a conversation.

    kind: of KINDS. text: what was said or answered, or what went wrong. call: that was
    made, or that the result is of. result: dict, as the tool gave it.
    """

    kind: str
    text: str = ""
    call: Call | None = None
    result: dict | None = None


def converse(
    backend: Backend,
    question: str,
    picture: np.ndarray | None,
    tools: Sequence[Tool],
) -> Iterator[Event]:
    """Ask about one picture, and yield each event when it happens.

    Args:
      backend: the model.
      question: str.
      picture: uint8 (H, W, 3); None: a question without one.
      tools: those that its calls may run.
    Yields:
      Events; the last is an "answer" or an "error". Only faults of our own raise.
    """
    try:
        conversation = backend.begin(question, picture)
        for left in reversed(range(TURNS)):
            verdict = conversation.next_turn()
            if not verdict.calls and not verdict.error:
                yield _last(verdict.text)
                return
            said = "\n".join(filter(None, (verdict.thought, verdict.text)))
            if said:
                yield Event("said", said)
            if not left:
                break
            results = []
            for call in verdict.calls:
                yield Event("call", call=call)
                results += run_side_by_side(tools, [call], SECONDS)
                yield Event("result", call=call, result=results[-1])
            if verdict.error:
                results = [{"error": verdict.error}]
                yield Event("result", verdict.error, result=results[0])
            conversation.append_results(verdict, results)
    except BackendError as error:
        yield Event("error", str(error))
        return
    yield Event(
        "error",
        f"No answer after {TURNS} turns: the model goes on calling. Ask again in other "
        "words, or choose another model.",
    )


def _last(text):
    if text:
        return Event("answer", text)
    return Event(
        "error", "The model ended its turn without a word. Ask in other words."
    )


def portions(events):
    """What was looked up in a conversation: results of the nutrition tool, each once.

    Args:
      events: of `converse`.
    Returns:
      list of dicts with "food", "grams" and `nutrition.NUTRIENTS`.
    """
    found = []
    for event in events:
        is_lookup = event.call is not None and event.call.name == nutrition.TOOL.name
        result = event.result or {"error": "none yet"}
        if is_lookup and "error" not in result and result not in found:
            found.append(result)
    return found
