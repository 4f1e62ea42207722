"""Conversations with environments: sampled turn by turn, with replies in between.

All answers of a batch take a turn at once. Replies are appended to the answers that go
on, in the same cache, and these take another turn. Those that are over wait.
"""

import functools
import math

import jax
import numpy as np

from helpers.generation import sessions
from helpers.generation.sampling import (
    Dialogue,
    GrowingAnswer,
    TurnRow,
    opened_thoughts,
    packed,
)
from helpers.rewards.answers import without_thoughts
from helpers.runtime import distributed
from helpers.runtime.run_identity import describe
from helpers.runtime.sharding import local_rows
from helpers.text import chat, rendering
from helpers.tools.calls import Verdict
from helpers.tools.environment import EnvironmentFailed, Step
from helpers.tools.tool import Trace, side_by_side

THOUGHTS = ("keep", "drop")


class EnvironmentUse(Dialogue):
    """A `Dialogue` of several turns, with an environment of its own for each answer.

    Args:
      make: () -> `tools.environment.Environment`, such as its class.
      turns: most turns of an answer; after the last one the environment only scores.
      max_reply_tokens: most tokens of replies between two turns; more are an error of
        the environment's.
      thoughts: what the model reads of the thoughts in its earlier turns. "keep": all
        of them, in one row, whatever the chat template does. "drop": what the template
        writes. Where that drops thoughts, each turn is sampled from a prompt of its
        own and trained as a row of its own, so a batch has P * G * turns rows.
      failures: the share of a batch's answers whose environments may fail. A failed
        one ends its answer, which is not learned and has no reward.
      seconds: time limit for all the steps of one turn together.
      threads: steps at a time.
    """

    own_openings = True
    shown_role: str | None = None  # of all replies in a `tool.Trace`; None: their own

    def __init__(
        self,
        make,
        *,
        turns: int,
        max_reply_tokens: int = 64,
        thoughts: str = "keep",
        failures: float = 0.1,
        seconds: float = 60.0,
        threads: int = 64,
    ):
        if thoughts not in THOUGHTS:
            raise ValueError(f"thoughts is {thoughts!r}: one of {THOUGHTS}.")
        self.make, self.turns, self.max_reply_tokens = make, turns, max_reply_tokens
        self.thoughts, self.failures = thoughts, failures
        self.seconds, self.threads = seconds, threads

    def width(self, max_tokens):
        """Most tokens of an answer, replies included."""
        return sessions.columns(self.turns, max_tokens, self.max_reply_tokens)

    def describe(self):
        """What must be the same for a run to be resumed."""
        names = ("turns", "max_reply_tokens", "thoughts")
        limits = {name: getattr(self, name) for name in names}
        return limits | {"environment": describe(self.make)}

    def opening(self, row, seed):
        """The turns that begin a row's conversations; None: its question."""
        return self.make().reset(dict(row), seed)

    @property
    def reply_role(self):
        """The role of most replies."""
        return "user"

    def has_own_rows(self, tokenizer):
        """Whether each turn is a row of its own."""
        drops = functools.partial(rendering.drops_thoughts, tokenizer)
        return self.thoughts == "drop" and drops(self.reply_role)

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key, turn by turn.

        Args:
          model: the policy. tokenizer: from `chat.load_tokenizer`.
          prompts: batch from `prompt_batches.prompts`, `images` included where it has
            them.
          keys: (P, G) random keys.
          max_tokens: budget of one turn.
          temperature: 0 is greedy.
        Returns:
          Answers, whose texts are `tool.Trace`; the metrics are of `metrics`.
        Raises:
          EnvironmentFailed: more environments failed than may.
          ValueError: the prompts were made without `environment=`, or a reset begins
            in another way than its prompt.
        """
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        limits["eos_ids"] = chat.eos_ids(tokenizer)
        answers = distributed.together(
            lambda: self._begin(tokenizer, prompts, keys.shape[1])
        )
        kind = _OwnRows if self.has_own_rows(tokenizer) else _OneCache
        sampler = kind(self, model, prompts, answers, keys, limits)
        active = np.array([[not each.failure for each in group] for group in answers])
        for turn in range(self.turns):
            tokens, mask, logprobs, ended = sampler.sample(turn, active)
            acting = []
            for p, g in zip(*np.nonzero(active), strict=True):
                real = mask[p, g] > 0
                turn_PG = tokens[p, g][real], logprobs[p, g][real], ended[p, g]
                answers[p][g].append_turn(*turn_PG)
                acting.append(answers[p][g])
            distributed.together(lambda acting=acting: self._act(acting, answers))
            is_last = turn == self.turns - 1
            goes_on = any(each.awaits_reply for each in acting)
            if is_last or not any(distributed.gather(goes_on)):
                break
            active = sampler.append_replies(active)
        distributed.together(lambda: self._check_failures(answers))  # replies, too
        traces = [[each.trace for each in group] for group in answers]
        done = packed(answers, self.width(max_tokens), traces, self.metrics(traces))
        return done._replace(turns=sampler.rows())

    def _begin(self, tokenizer, prompts, group):
        """P lists of `group` conversations whose environments are reset."""
        count = len(prompts["prompt"])
        if self.own_openings and "openings" not in prompts:
            raise ValueError("Pass environment= to batches.prompts, too.")
        rows = prompts.get("rows", [{}] * count)
        seeds = prompts.get("seeds", [0] * count)
        openings = prompts.get("openings", [None] * count)
        answers, jobs = [], []
        for p, opened in enumerate(opened_thoughts(tokenizer, prompts)):
            begin = self, tokenizer, opened, openings[p] or rows[p].get("question")
            answers.append([Conversation(*begin) for _ in range(group)])
            for each in answers[p]:
                jobs.append(functools.partial(each.reset, rows[p], seeds[p]))
        outcomes = iter(side_by_side(jobs, self.seconds, self.threads))
        for opening, conversations in zip(openings, answers, strict=True):
            for each, begun in zip(conversations, outcomes, strict=False):
                if isinstance(begun, BaseException):
                    each.failure = begun
                elif begun != opening:
                    raise ValueError(
                        f"A reset began with {begun!r:.200}, and the prompt with "
                        f"{opening!r:.200}. One row and one seed must always give the "
                        "same opening."
                    )
        self._check_failures(answers)
        return answers

    def _act(self, acting, answers):
        """The environments of those whose turn ended take their steps."""
        stepping = [each for each in acting if each.ended]
        jobs = [
            functools.partial(each.environment.step, each.said[-1]) for each in stepping
        ]
        outcomes = side_by_side(jobs, self.seconds, self.threads)
        for each, outcome in zip(stepping, outcomes, strict=True):
            each.take_step(outcome)
        self._check_failures(answers)

    def _check_failures(self, answers):
        flat = sum(answers, [])
        failed = [each.failure for each in flat if each.failure]
        if len(failed) > self.failures * len(flat):
            raise EnvironmentFailed(
                f"{len(failed)} of a batch's {len(flat)} environments failed, and a "
                f"share of {self.failures:g} may. The first: {failed[0]!r:.300}"
            ) from failed[0]

    def reply(self, answer):
        """What an answer reads after its last turn: messages and their tokens.

        A reply that cannot be encoded, or is too long, is an error of the
        environment's.
        """
        messages = [dict(message) for message in answer.step.messages]
        try:
            tokens = chat.turn_tokens(
                answer.tokenizer, messages, tools=self.schemas, ended=answer.tokens[-1]
            )
            if len(tokens) > self.max_reply_tokens:
                raise ValueError(
                    f"A reply has {len(tokens)} tokens, and max_reply_tokens is "
                    f"{self.max_reply_tokens}: {messages!r:.200}"
                )
        except Exception as error:
            answer.failure = error
            return [], []
        return messages, tokens

    def parse(self, text):
        """What a turn of the model is, as a `calls.Verdict`."""
        return Verdict(text=without_thoughts(text).strip())

    def message(self, text):
        """A turn of the model as later prompts have it, without its thought."""
        return {"role": "assistant", "content": without_thoughts(text).strip()}

    def metrics(self, traces):
        """Means over all answers: `turns`, and `broken`, whose environment failed."""
        flat = sum(traces, [])
        return {
            "turns": float(np.mean([len(trace.turns) for trace in flat])),
            "broken": float(np.mean([trace.failure is not None for trace in flat])),
        }


class Conversation(GrowingAnswer):
    """One answer as it grows: its tokens, and what they mean.

    opened: what the text before its next turn opens a thought with, or "".
    question: what its prompt was made of, a str or messages.
    """

    def __init__(self, use, tokenizer, opened, question=None):
        super().__init__()
        self.use, self.tokenizer, self.opened = use, tokenizer, opened
        asked = [{"role": "user", "content": question}]
        self.asked = asked if isinstance(question, str) else question
        self.environment, self.step = None, Step(done=True)
        self.segments, self.replies, self.reward = [], [], 0.0

    def reset(self, row, seed):
        """Begins its environment; see `Environment.reset`."""
        self.environment = self.use.make()
        return self.environment.reset(dict(row), seed)

    @property
    def awaits_reply(self):
        """Whether its environment has something to say and it may go on."""
        return self.ended and not self.failure and not self.step.done

    def append_turn(self, tokens, logprobs, ended):
        """Appends what the model wrote."""
        text = self.opened + turn_text(self.tokenizer, tokens, ended)
        self.segments.append(("assistant", text))
        self.ended, self.step = bool(ended), Step(done=True)
        self.add_sampled(tokens.tolist(), logprobs.tolist())

    def take_step(self, outcome):
        """Takes in what its environment made of its last turn: a Step, or an error."""
        if not isinstance(outcome, BaseException):
            try:
                self.step = Step(*outcome)
                self.reward += float(self.step.reward)
                if math.isfinite(self.reward):
                    return
                outcome = ValueError(f"A step gave the reward {self.step.reward}.")
            except (TypeError, ValueError) as error:
                outcome = error
        self.failure = outcome

    def take_reply(self):
        """Adds the reply to its last turn; returns its tokens."""
        messages, tokens = self.use.reply(self)
        for message in messages:
            role = self.use.shown_role or message["role"]
            self.segments.append((role, message["content"]))
        self.replies.append(messages)
        return tokens

    @property
    def said(self):
        """The texts of its turns."""
        return [text for role, text in self.segments if role == "assistant"]

    @property
    def history(self):
        """The messages that its next turn answers."""
        messages = list(self.asked)
        for text, replies in zip(self.said, self.replies, strict=True):
            messages += [self.use.message(text), *replies]
        return messages

    @property
    def trace(self):
        """What rewards judge."""
        return Trace(
            tuple(self.segments),
            tuple(map(self.use.parse, self.said)),
            tuple(getattr(self.environment, "calls", ())),
            self.reward,
            getattr(self.environment, "inner", self.environment),
            self.failure,
        )


class _OneCache:
    """Samples the turns of all answers in one cache, replies between them."""

    def __init__(self, use, model, prompts, answers, keys, limits):
        self.use, self.model, self.answers, self.keys = use, model, answers, keys
        self.limits, width = limits, use.width(limits["max_tokens"])
        rows = prompts["prompt"], prompts["prompt_mask"], keys.shape[1], width
        self.session = sessions.prefill(model, *rows, prompts.get("images"))

    def sample(self, turn, active):
        """The completions of the active answers, on the host."""
        self.session, completions = sessions.generate(
            self.model, self.session, self.keys, active, **self.limits
        )
        return local_rows(completions)

    def append_replies(self, active):
        """Appends the replies, which have no loss; returns which answers go on."""
        width = self.use.max_reply_tokens
        replies, real = np.zeros((2, *active.shape, width), np.int32)
        for p, g in zip(*np.nonzero(active), strict=True):
            if not (answer := self.answers[p][g]).awaits_reply:
                continue
            ids = answer.take_reply()
            answer.add_result(ids)
            (answer.opened,) = chat.opened_thoughts(answer.tokenizer, [ids])
            replies[p, g, : len(ids)], real[p, g, : len(ids)] = ids, 1
        self.session = sessions.append_tokens(self.model, self.session, replies, real)
        return real.any(axis=-1)

    def rows(self):
        """None: every answer is one row."""
        return None


class _OwnRows:
    """Samples each turn from a prompt of its own, which the chat template writes."""

    def __init__(self, use, model, prompts, answers, keys, limits):
        if "images" in prompts:
            raise ValueError('Pictures need thoughts="keep".')
        self.use, self.model, self.answers, self.keys = use, model, answers, keys
        self.limits = limits
        pairs = zip(prompts["prompt"], prompts["prompt_mask"], strict=True)
        first = [ids[real > 0].tolist() for ids, real in pairs]
        self.prompts = [[ids] * keys.shape[1] for ids in first]
        self.least = prompts["prompt"].shape[1]
        self.turns = [[[] for _ in group] for group in answers]

    def sample(self, turn, active):
        """The completions of the active answers, on the host."""
        prompt, real = right_padded(sum(self.prompts, []), self.least)
        rows = prompt, real, 1, self.limits["max_tokens"]
        session = sessions.prefill(self.model, *rows)
        keys = _fold(self.keys, turn)
        _, completions = sessions.generate(
            self.model, session, keys, active.reshape(-1, 1), **self.limits
        )
        done = [x.reshape(*active.shape, *x.shape[2:]) for x in local_rows(completions)]
        for p, g in zip(*np.nonzero(active), strict=True):
            start = len(self.answers[p][g].tokens)
            stop = start + int(done[1][p, g].sum())
            self.turns[p][g].append(TurnRow(self.prompts[p][g], start, stop))
        return done

    def append_replies(self, active):
        """Makes the next prompts; returns which answers go on."""
        going = np.zeros_like(active)
        for p, g in zip(*np.nonzero(active), strict=True):
            if not (answer := self.answers[p][g]).awaits_reply:
                continue
            answer.take_reply()
            going[p, g] = not answer.failure
        places = list(zip(*np.nonzero(going), strict=True))
        histories = [self.answers[p][g].history for p, g in places]
        if not histories:
            return going
        tokenizer, tools = self.answers[0][0].tokenizer, self.use.schemas
        prompts = chat.prompts_tokens(tokenizer, histories, tools=tools)
        marks = chat.opened_thoughts(tokenizer, prompts)
        for (p, g), ids, mark in zip(places, prompts, marks, strict=True):
            self.prompts[p][g], self.answers[p][g].opened = ids, mark
        return going

    def rows(self):
        """The rows of every answer, P lists of G lists of `TurnRow`."""
        return self.turns


@jax.jit
def _fold(keys_PG, turn):
    """A key per answer and turn, (P * G, 1): every turn begins at column 0."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return fold(keys_PG.reshape(-1), turn)[:, None]


def right_padded(prompts, least):
    """Prompts as arrays, as wide in all processes; few widths, so few programs.

    Args:
      prompts: lists of ids. least: the least width, which is doubled as often as
        needed.
    Returns:
      (tokens, mask): int32 (P, T).
    """
    longest = max(distributed.gather(max(map(len, prompts))))
    width = max(distributed.gather(least))
    while width < longest:
        width *= 2
    tokens, mask = np.zeros((2, len(prompts), width), np.int32)
    for row, ids in enumerate(prompts):
        tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
    return tokens, mask


def rows_of_turns(batch, turns, max_tokens):
    """A batch of `Rollouts` in which each turn is a row of its own, a group of one.

    Args:
      batch: with "turns", P lists of G lists of `TurnRow`, and scored.
      turns: most turns of an answer; those that it does not have are rows of no weight.
      max_tokens: of a turn.
    Returns:
      The batch with P * G * turns rows.
    """
    shape = P, G = batch["completion"].shape[:2]
    prompts, names = [], ("completion", "loss_mask", "logprobs")
    rows = {
        name: np.zeros((P * G * turns, 1, max_tokens), batch[name].dtype)
        for name in names
    }
    for p, g in np.ndindex(shape):
        taken = batch["turns"][p][g]
        for turn in range(turns):
            place = len(prompts)
            if turn >= len(taken):
                prompt, mask = batch["prompt"][p], batch["prompt_mask"][p]
                prompts.append(prompt[mask > 0].tolist())
                continue
            prompt, start, stop = taken[turn]
            prompts.append(prompt)
            for name in names:
                rows[name][place, 0, : stop - start] = batch[name][p, g, start:stop]
    rows["prompt"], rows["prompt_mask"] = right_padded(
        prompts, batch["prompt"].shape[1]
    )
    for name in ("rewards", "advantages"):
        if name in batch:
            rows[name] = np.repeat(batch[name].reshape(-1, 1), turns, axis=0)
    return rows


def turn_text(tokenizer, tokens, ended):
    """The text of a turn that a model wrote, control tokens included but for its EOS.

    Args:
      tokens: int array of one axis. ended: whether the last one is an EOS.
    """
    return tokenizer.decode(
        tokens[: len(tokens) - bool(ended)].tolist(),
        skip_special_tokens=False,
        clean_up_tokenization_spaces=False,
    )
