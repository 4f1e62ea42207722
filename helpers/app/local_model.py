"""A model in this process as the assistant's backend: greedy, offline, ours."""

from typing import NamedTuple

import jax
import numpy as np

from helpers.app.assistant import TURNS, BackendError
from helpers.batches import images, prompt_batches
from helpers.course import stages
from helpers.generation import sessions
from helpers.generation.tool_use import result_turn, turn_text
from helpers.model import weights
from helpers.runtime.ranges import TextTooLong
from helpers.runtime.sharding import local_rows
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.tool import by_name

# Lengths of prompts, so that few are compiled; the last holds the largest picture of a
# Gemma 4, 1,120 tokens, and a question.
BUCKETS = (64, 128, 256, 512, 1024, 2048)


def load(stage, name, **budgets):
    """A model of this course: the learner's own, else the shipped one.

    Args:
      stage: such as "food_grpo"; it knows the nutrition tool. name, budgets: as of
        LocalModel.
    Raises:
      BackendError: there is none; says which notebook makes it.
    """
    try:
        folder = stages.stage_folder(stage)
    except FileNotFoundError as error:
        raise BackendError(str(error)) from error
    model = weights.load(folder, vision=True)
    tokenizer = chat.load_tokenizer(folder)
    return LocalModel(model, tokenizer, nutrition.TINY, name, **budgets)


class LocalModel:
    """Asks a model that is loaded here, one conversation at a time.

    Args:
      model: a Transformer, with vision if it is to see pictures.
      tokenizer: from `chat.load_tokenizer`.
      grammar: of the model's family, from `helpers.tools.calls`.
      name: what people call the model.
      tools: list of `tool.Tool` of which its chat template is told, where it has any.
      max_tokens: budget of one turn.
      max_result_tokens: most tokens of results between two turns.
      question_end: what it was trained to read behind each question.
    """

    def __init__(
        self,
        model,
        tokenizer,
        grammar,
        name,
        *,
        tools=(),
        max_tokens=48,
        max_result_tokens=64,
        question_end="",
    ):
        self.model, self.tokenizer, self.grammar = model, tokenizer, grammar
        self.name, self.max_tokens = name, max_tokens
        self.max_result_tokens, self.question_end = max_result_tokens, question_end
        self.schemas = grammar.schemas(by_name(tools).values())

    def begin(self, question, picture):
        """See `helpers.app.assistant`.

        Raises:
          BackendError: the question is too long, or the model cannot see.
        """
        question += self.question_end
        text = {"type": "text", "text": question}
        content = question if picture is None else [{"type": "image"}, text]
        return self._read([{"role": "user", "content": content}], picture)

    def reply(self, messages, picture, may_call=True):
        """The next turn of a conversation of which all that was said is known as text.

        It is turned into tokens and read anew, as a server does that keeps nothing
        between two requests.

        Args:
          messages: for the chat template. picture: of the first one, or None.
          may_call: whether the chat template is told of the tools.
        Returns:
          a Turn, whether or not it ended.
        Raises:
          BackendError: see `begin`.
        """
        return self._read(messages, picture, 1, may_call).write()

    def _read(self, messages, picture, turns=TURNS, may_call=True):
        vision = self.model.config.vision
        shown = {"tools": self.schemas if may_call else None}
        if picture is not None:
            if vision is None:
                raise BackendError(f"{self.name} cannot see: choose another model.")
            messages = images.shaped(messages, [picture])
            fitted = images.fit_for(picture, vision)
            shown |= {"pictures": lambda row: [fitted], "vision": vision}
        row = {"question": messages}
        try:
            prompt = next(
                prompt_batches.prompts(
                    [row], self.tokenizer, batch=1, buckets=BUCKETS, seed=0, **shown
                )
            )
        except prompt_batches.PromptTooLong as error:
            raise BackendError(
                f"The question is too long for {self.name}, which reads at most "
                f"{BUCKETS[-1]} tokens. Ask in fewer words."
            ) from error
        try:
            return _Conversation(self, prompt, turns)
        except TextTooLong as error:
            raise BackendError(f"{self.name} cannot take this. {error}") from error


class Turn(NamedTuple):
    """What a model wrote in one turn.

    text: without the token that ends it. tokens: int32, that token included. ended:
    whether there is one. read: tokens of the conversation before it. logprobs: float32,
    of each of the tokens, in nats.
    """

    text: str
    tokens: np.ndarray
    ended: bool
    read: int
    logprobs: np.ndarray

    def cut(self, budget, tokenizer):
        """The turn as it had been with this budget of tokens, at least one."""
        if self.tokens.size <= budget:
            return self
        tokens, logprobs = self.tokens[:budget], self.logprobs[:budget]
        text = turn_text(tokenizer, tokens, False)
        return Turn(text, tokens, False, self.read, logprobs)


class _Conversation:
    """One conversation: a session with one answer, always the likeliest token.

    tokens: how many it has written. certainty: the probability that it gave to all of
    its first turn, 0 to 1; None before that. ended: the last token it has written.
    """

    def __init__(self, backend, prompt, turns):
        self.tokens, self.certainty, self.ended = 0, None, None
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
                f"{backend.name} did not end its turn within {backend.max_tokens} "
                "tokens. Ask in other words, or choose another model."
            )
        return backend.grammar.parse(turn.text)

    def write(self) -> Turn:
        """The next turn, as it is written."""
        backend = self.backend
        self.session, completions = sessions.generate(
            backend.model,
            self.session,
            jax.random.split(jax.random.key(0), (1, 1)),  # greedy: not used
            np.ones((1, 1), bool),
            max_tokens=backend.max_tokens,
            eos_ids=chat.eos_ids(backend.tokenizer),
            temperature=0,
        )
        tokens, mask, logprobs, ended = (a[0, 0] for a in local_rows(completions))
        own, logprobs = tokens[mask > 0], logprobs[mask > 0]
        self.tokens += own.size
        self.ended = int(own[-1])
        if self.certainty is None:
            self.certainty = float(np.exp(logprobs.sum()))
        text = turn_text(backend.tokenizer, own, ended)
        return Turn(text, own, bool(ended), self.read, logprobs)

    def append_results(self, verdict, results):
        backend = self.backend
        try:
            ids = result_turn(
                backend, backend.tokenizer, verdict, results, self.ended
            ).tokens
        except ValueError as error:
            raise BackendError(f"{backend.name}: {error}") from error
        tokens, real = np.zeros((2, 1, 1, backend.max_result_tokens), np.int32)
        tokens[..., : len(ids)], real[..., : len(ids)] = ids, 1
        self.session = sessions.append_tokens(backend.model, self.session, tokens, real)
