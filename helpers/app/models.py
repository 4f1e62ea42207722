"""The models behind the assistant: greedy, in this process; what is known of each."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from helpers import runtime
from helpers.app.chat import TURNS, Backend, BackendError
from helpers.app.server import OpenAIServer
from helpers.batches import images, prompt_batches
from helpers.course import stages
from helpers.generation import sessions
from helpers.generation.environment_use import turn_text
from helpers.generation.tool_use import ToolUse, result_turn
from helpers.model import weights
from helpers.model.transformer import Transformer
from helpers.runtime.ranges import TextTooLong
from helpers.runtime.sharding import local_rows
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.calls import Grammar
from helpers.tools.tool import Tool

# Lengths of prompts, so that few are compiled; the last has room for the largest
# picture of a Gemma 4, 1,120 tokens, and a question.
BUCKETS = (64, 128, 256, 512, 1024, 2048)
STUDENTS = {  # name: stage of the course
    "Student after GRPO": "food_grpo",
    "Student after SFT": "food_sft",
}
UNKNOWN = "A server does not say what its model was trained on."
DRAWINGS = "It was trained on drawings of sixteen foods and has never seen a photo."


class Choice(NamedTuple):
    """A model to choose.

    make: function without arguments that gives the backend. runs: where, with which
    weights. seen: a sentence on what it was trained on. lock: taken while it works.
    """

    make: Callable[[], Backend]
    runs: str
    seen: str = UNKNOWN
    lock: contextlib.AbstractContextManager = contextlib.nullcontext()


def course_models() -> dict[str, Choice]:
    """The models of the food lessons by name.

    Each is loaded at the first question, and works for one person at a time.
    """
    choices = {}
    for name, stage in STUDENTS.items():
        shipped = stages.stage_folder(stage).is_relative_to(runtime.ROOT / "data")
        origin = "shipped with the course" if shipped else "trained here"
        runs = f"{stage} on this computer, {origin}"
        make = functools.cache(functools.partial(load, stage, name))
        choices[name] = Choice(make, runs, DRAWINGS, threading.Lock())
    return choices


def on_server(address, model, key="") -> Choice:
    """A model behind an OpenAI-compatible server; see `OpenAIServer`."""
    return Choice(
        lambda: OpenAIServer(address, model, key=key, tools=[nutrition.TOOL]),
        f"{model} on the server at {address}",
        DRAWINGS if model in STUDENTS.values() else UNKNOWN,  # notebook 14 serves one
    )


def load(stage, name):
    """A model of this course, of a run here or else the shipped one, as a backend.

    Args:
      stage: such as "food_grpo". name: what people call the model.
    Raises:
      FileNotFoundError: there is none; says which notebook makes it.
    """
    folder = stages.stage_folder(stage)
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    return LocalModel(model, tokenizer, nutrition.TINY, name)


@dataclasses.dataclass(eq=False)
class LocalModel:
    """A backend that asks a model in this process, one conversation at a time.

    Args:
      model: a Transformer, with vision if it is to see pictures.
      tokenizer: from `chat.load_tokenizer`.
      grammar: of the model's family, from `helpers.tools.grammars`.
      name: what people call the model.
      tools: list of `tool.Tool` for its chat template, where that takes any.
      max_tokens: budget of one turn.
      max_result_tokens: most tokens of results between two turns.
    """

    model: Transformer
    tokenizer: Any
    grammar: Grammar
    name: str
    tools: Sequence[Tool] = ()
    max_tokens: int = 48
    max_result_tokens: int = 64

    @property
    def schemas(self):
        """The tools, for the chat template."""
        return self.grammar.schemas(self.tools)

    def begin(self, question, picture):
        """See `helpers.app.chat.Backend`.

        Raises:
          BackendError: the question is too long, or the model cannot see.
        """
        text = {"type": "text", "text": question}
        content = question if picture is None else [{"type": "image"}, text]
        return self._read([{"role": "user", "content": content}], picture)

    def reply(self, messages, picture, may_call=True, max_tokens=None):
        """The next turn of a conversation, all of which is given as text.

        It is encoded and read anew, as by a server that stores nothing between two
        requests.

        Args:
          messages: for the chat template. picture: of the first one, or None.
          may_call: whether the chat template gets the tools.
          max_tokens: a smaller budget than its own; None: its own.
        Returns:
          a Turn, whether or not it ended.
        Raises:
          BackendError: see `begin`.
        """
        return self._read(messages, picture, 1, may_call).write(max_tokens)

    def _read(self, messages, picture, turns=TURNS, may_call=True):
        vision = self.model.config.vision
        use = ToolUse(self.grammar, self.tools) if may_call else None
        settings: dict = {"environment": use, "batch": 1, "buckets": BUCKETS, "seed": 0}
        if picture is not None:
            if vision is None:
                raise BackendError(f"{self.name} cannot see. Choose another model.")
            messages = images.shaped(messages, [picture])
            fitted = images.fit_for(picture, vision)
            settings |= {"pictures": lambda row: [fitted], "vision": vision}
        rows = [{"question": messages}]
        try:
            prompt = next(prompt_batches.prompts(rows, self.tokenizer, **settings))
            return _LocalConversation(self, prompt, turns)
        except (prompt_batches.PromptTooLong, TextTooLong) as error:
            raise BackendError(
                f"The question is too long for {self.name}. Use fewer words."
            ) from error


class Turn(NamedTuple):
    """What a model wrote in one turn.

    text: without the token that ends it. tokens: int32, that token included. ended:
    whether there is one. read: tokens of the conversation before it.
    """

    text: str
    tokens: np.ndarray
    ended: bool
    read: int


class _LocalConversation:
    """One conversation: a session with one answer, always the likeliest token.

    certainty: the probability that it gave to all of its first turn, 0 to 1; None
    before that. last: the last token it has written.
    """

    def __init__(self, backend, prompt, turns):
        self.certainty, self.last = None, None
        self.backend, self.read = backend, int(prompt["prompt_mask"].sum())
        self.session = sessions.prefill(
            backend.model,
            prompt["prompt"],
            prompt["prompt_mask"],
            1,
            sessions.columns(turns, backend.max_tokens, backend.max_result_tokens),
            prompt.get("images"),
        )

    def next_turn(self):
        backend, turn = self.backend, self.write()
        if not turn.ended:
            raise BackendError(
                f"{backend.name} did not finish within {backend.max_tokens} tokens. "
                "Rephrase the question, or choose another model."
            )
        return backend.grammar.parse(turn.text)

    def write(self, max_tokens=None) -> Turn:
        """The next turn, as it is written, in a smaller budget than the backend's."""
        backend = self.backend
        budget = min(max_tokens or backend.max_tokens, backend.max_tokens)
        self.session, completions = sessions.generate(
            backend.model,
            self.session,
            jax.random.split(jax.random.key(0), (1, 1)),  # greedy: not used
            np.ones((1, 1), bool),
            max_tokens=budget,
            eos_ids=chat.eos_ids(backend.tokenizer),
            temperature=0,
        )
        tokens, mask, logprobs, ended = (a[0, 0] for a in local_rows(completions))
        tokens, self.last = tokens[mask > 0], int(tokens[mask > 0][-1])
        if self.certainty is None:
            self.certainty = float(np.exp(logprobs[mask > 0].sum()))
        text = turn_text(backend.tokenizer, tokens, ended)
        return Turn(text, tokens, bool(ended), self.read)

    def append_results(self, verdict, results):
        backend = self.backend
        try:
            turn = result_turn(backend, backend.tokenizer, verdict, results, self.last)
        except ValueError as error:
            raise BackendError(f"{backend.name}: {error}") from error
        tokens, real = np.zeros((2, 1, 1, backend.max_result_tokens), np.int32)
        tokens[..., : len(turn.tokens)], real[..., : len(turn.tokens)] = turn.tokens, 1
        self.session = sessions.append_tokens(backend.model, self.session, tokens, real)
