"""A conversation of the food-logging assistant about one picture, event by event.

A `Backend` is the model that answers. A `BackendError` is what goes wrong for a person
to fix.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict
from helpers.tools.tool import Tool, run_side_by_side

TURNS = 4  # most turns of the model
SECONDS = 10.0  # for one call


class BackendError(RuntimeError):
    """A model did not answer; the message names the cause and the fix."""


class Conversation(Protocol):
    """A model in a conversation; each method may raise a BackendError."""

    def next_turn(self) -> Verdict:
        """The model's next turn, parsed."""

    def append_results(self, verdict: Verdict, results: list[dict]) -> None:
        """Shows the model the results of its calls.

        Args:
          verdict: of the turn that called, or that could not be read.
          results: one dict per call; one error for a turn that could not be read.
        """


class Backend(Protocol):
    """A model behind the assistant: `LocalModel`, `OpenAIServer`, or another one."""

    name: str

    def begin(self, question: str, picture: np.ndarray | None) -> Conversation:
        """Starts a conversation about a picture, uint8 (H, W, 3), or without one."""


class Event(NamedTuple):
    """One thing that happened in a conversation.

    kind: "text", "call", "result", "answer" or "error". text: of the model, or what
    went wrong. call: that was made, or that the result is of. result: of the tool.
    """

    kind: str
    text: str = ""
    call: Call | None = None
    result: dict | None = None


def converse(
    backend: Backend, question: str, picture: np.ndarray | None, tools: Sequence[Tool]
) -> Iterator[Event]:
    """Asks about one picture, and yields each event when it happens.

    Args:
      backend: the model.
      question: str.
      picture: uint8 (H, W, 3); None: a question without one.
      tools: those that its calls may run.
    Yields:
      Events; the last is an "answer" or an "error". Only bugs raise.
    """
    try:
        conversation = backend.begin(question, picture)
        for left in reversed(range(TURNS)):
            verdict = conversation.next_turn()
            if not verdict.calls and not verdict.error:
                if not verdict.text:
                    raise BackendError(
                        "The model gave an empty answer. Rephrase the question."
                    )
                yield Event("answer", verdict.text)
                return
            if words := "\n".join(filter(None, (verdict.thought, verdict.text))):
                yield Event("text", words)
            if not left:
                raise BackendError(
                    f"The model gave no answer in {TURNS} turns, because it kept "
                    "calling tools. Rephrase the question, or choose another model."
                )
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


def portions(events) -> list[dict]:
    """The results of the nutrition tool in a conversation, each once.

    Returns:
      list of dicts with "food", "grams" and `nutrition.NUTRIENTS`.
    """
    looked_up = [e for e in events if e.call and e.call.name == nutrition.TOOL.name]
    results = [e.result for e in looked_up if e.result and "error" not in e.result]
    return [result for i, result in enumerate(results) if result not in results[:i]]
