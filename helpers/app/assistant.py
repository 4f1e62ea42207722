"""The food-logging assistant: one conversation about one picture, event by event.

Whose words it passes on is a *backend*'s affair: `begin(question, picture)` starts a
talk, whose `speak()` gives the model's next turn as a `tool_calls.Verdict` and whose
`hear(verdict, results)` tells it what its calls gave, one dict per call, or one error
for a turn that could not be read. What goes wrong for a person to mend is a
`BackendError`.
"""

from typing import NamedTuple

from helpers.tools import nutrition
from helpers.tools.tool import run_side_by_side
from helpers.tools.tool_calls import Call

TURNS = 4  # how often the model may speak
SECONDS = 10.0  # for one call
KINDS = ("said", "call", "result", "answer", "error")


class BackendError(RuntimeError):
    """A model could not be asked; the message names the cause and the remedy."""


class Event(NamedTuple):
    """One thing that happened in a conversation.

    kind: of KINDS. text: what was said or answered, or what went wrong. call: that was
    made, or that the result is of. result: dict, as the tool gave it.
    """

    kind: str
    text: str = ""
    call: Call | None = None
    result: dict | None = None


def converse(backend, question, picture, tools):
    """Ask about one picture, and yield each event when it happens.

    Args:
      backend: `local_model.LocalModel`, `openai_server.OpenAIServer`, or what has their
        `begin`.
      question: str.
      picture: uint8 (H, W, 3); None: a question without one.
      tools: list of `tool.Tool` that its calls may run.
    Yields:
      Events; the last is an "answer" or an "error". Only faults of our own raise.
    """
    try:
        talk = backend.begin(question, picture)
        for left in reversed(range(TURNS)):
            verdict = talk.speak()
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
            talk.hear(verdict, results)
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
