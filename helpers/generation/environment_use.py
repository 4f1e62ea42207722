"""Conversations with environments: sampled turn by turn, with replies in between.

All answers of a batch take a turn at once. Replies are appended to the answers that go
on, in the same cache, and these take another turn. Those that are over wait.
"""

import copy
import functools
import json
import math
from typing import Any

import jax
import numpy as np

from helpers.batches.prompt_batches import pad_prompts
from helpers.generation import sessions
from helpers.generation.sampling import Dialogue, GrowingAnswer, packed
from helpers.rewards.answers import without_thoughts
from helpers.runtime import distributed
from helpers.runtime.ranges import require_count
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
      max_reply_tokens: most tokens between two turns; more are the environment's error.
      thoughts: what the model reads of the thoughts in its earlier turns. "keep": all
        of them, in one row, whatever the chat template does. "drop": what the template
        writes. Where that drops thoughts, each turn is sampled from a prompt of its
        own and trained as a row of its own, so a batch has P * G * turns rows.
      failures: the share of a batch's answers whose environments may fail. A failed
        one ends its answer, which is not learned and has no reward.
      seconds: time limit for all the steps of one turn together.
    """

    has_openings = True
    threads = 16  # steps at a time
    reply_role = "user"  # of most replies
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
    ):
        if thoughts not in THOUGHTS:
            raise ValueError(f"thoughts is {thoughts!r}: one of {THOUGHTS}.")
        require_count("turns", turns)
        self.make, self.turns, self.max_reply_tokens = make, turns, max_reply_tokens
        self.thoughts, self.failures, self.seconds = thoughts, failures, seconds

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
        return self.make().reset(copy.deepcopy(row), seed)

    def has_turn_rows(self, tokenizer):
        """Whether each turn is a row of its own."""
        given = tokenizer, str(tokenizer.chat_template), self.reply_role
        return self.thoughts == "drop" and rendering.drops_thoughts(*given)

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key, turn by turn.

        Args:
          model: the policy. tokenizer: from `chat.load_tokenizer`.
          prompts: batch from `prompt_batches.prompts`, with `images` if it has them.
          keys: (P, G) random keys.
          max_tokens: budget of one turn.
          temperature: 0 is greedy.
        Returns:
          Answers, whose texts are `tool.Trace`; the metrics are of `metrics`.
        Raises:
          EnvironmentFailed: more environments failed than may.
          ValueError: a conversation does not begin as its prompt does.
        """
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        limits["eos_ids"] = chat.eos_ids(tokenizer)
        begin = functools.partial(self._begin, tokenizer, prompts, keys.shape[1])
        answers = distributed.together(begin)
        # With prompts of their own, answers are groups of one.
        turn_rows = self.has_turn_rows(tokenizer)
        grid = [[each] for each in sum(answers, [])] if turn_rows else answers
        active = np.array([[not each.failure for each in group] for group in grid])
        for turn in range(self.turns):
            if turn_rows or turn == 0:
                session = self._prefill(model, prompts, grid, turn_rows, max_tokens)
            given = model, session, _fold(keys, turn) if turn_rows else keys, active
            session, completions = sessions.generate(*given, **limits)
            tokens, mask, logprobs, ended = local_rows(completions)
            acting = []
            for p, g in zip(*np.nonzero(active), strict=True):
                real = mask[p, g] > 0
                acting.append(grid[p][g])
                wrote = tokens[p, g][real], logprobs[p, g][real], ended[p, g]
                acting[-1].append_turn(*wrote)
            distributed.together(lambda acting=acting: self._act(acting, answers))
            is_last = turn == self.turns - 1
            goes_on = any(each.awaits_reply for each in acting)
            if is_last or not any(distributed.gather(goes_on)):
                break
            replies, real = self._take_replies(grid, turn_rows)
            active = real.any(axis=-1)
            if turn_rows:
                self._begin_turns(grid, active, max_tokens)
            else:
                session = sessions.append_tokens(model, session, replies, real)
        traces = [[each.trace for each in group] for group in answers]
        width = self.turns * max_tokens if turn_rows else self.width(max_tokens)
        done = packed(answers, width, traces, self.metrics(traces))
        used = [[each.prompts for each in group] for group in answers]
        return done._replace(turn_prompts=used if turn_rows else None)

    def _prefill(self, model, prompts, grid, turn_rows, max_tokens):
        """Reads the prompts: those of the batch, or each answer's own."""
        prompt, mask, width = prompts["prompt"], prompts["prompt_mask"], max_tokens
        images = prompts.get("images")
        if not turn_rows:
            width = self.width(max_tokens)
        elif images is not None:
            raise ValueError('Pictures need thoughts="keep".')
        else:
            prompt, mask = _padded([answer.prompt for (answer,) in grid])
        return sessions.prefill(model, prompt, mask, len(grid[0]), width, images)

    def _take_replies(self, grid, turn_rows):
        """The tokens that answers read next, and their mask; (P, G, T) int32."""
        shape = len(grid), len(grid[0]), self.max_reply_tokens
        replies, real = np.zeros((2, *shape), np.int32)
        for p, g in np.ndindex(*shape[:2]):
            if not (answer := grid[p][g]).awaits_reply:
                continue
            ids = answer.take_reply()
            replies[p, g, : len(ids)], real[p, g, : len(ids)] = ids, 1
            if not turn_rows:
                answer.add_result(ids)
                answer.prompt = ids
        return replies, real

    def _begin_turns(self, grid, active, max_tokens):
        """Gives the active answers their next prompts, as the template writes them."""
        going = [grid[p][0] for p in np.flatnonzero(active)]
        for answer in going:
            answer.history += [self.message(answer.texts[-1]), *answer.replies]
        histories, tokenizer = [x.history for x in going], grid[0][0].tokenizer
        prompts = chat.prompts_tokens(tokenizer, histories, tools=self.schemas)
        for answer, prompt in zip(going, prompts, strict=True):
            # Every turn has as much room, so that `rows_of_turns` can take them apart.
            room = max_tokens * len(answer.prompts)
            answer.add_result([0] * (room - len(answer.tokens)))
            answer.prompt = prompt

    def _begin(self, tokenizer, prompts, group):
        """P lists of `group` conversations whose environments are reset."""
        count = len(prompts["prompt"])
        rows = prompts.get("rows", [{}] * count)
        seeds = prompts.get("seeds", [0] * count)
        openings = prompts.get("openings", [None] * count)
        pair = prompts["prompt"], prompts["prompt_mask"]
        answers, jobs = [], []
        for p, (ids, mask) in enumerate(zip(*pair, strict=True)):
            question = openings[p] or rows[p].get("question")
            begin = self, tokenizer, ids[mask > 0].tolist(), question
            answers.append([Conversation(*begin) for _ in range(group)])
            given = rows[p], seeds[p]
            jobs += [functools.partial(each.reset, *given) for each in answers[p]]
        outcomes = iter(side_by_side(jobs, self.seconds, self.threads))
        for opening, conversations in zip(openings, answers, strict=True):
            for each, begun in zip(conversations, outcomes, strict=False):
                if isinstance(begun, BaseException):
                    each.failure = begun
                elif begun != opening:
                    raise ValueError(
                        f"A reset gave {begun!r:.99}, and its prompt {opening!r:.99}: "
                        "the same row and seed must always begin alike."
                    )
        self._check_failures(answers)
        return answers

    def _act(self, acting, answers):
        """The environments of those whose turn ended take their steps."""
        stepping = [each for each in acting if each.ended]
        jobs = [each.act for each in stepping]
        outcomes = side_by_side(jobs, self.seconds, self.threads)
        for each, outcome in zip(stepping, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                each.failure = outcome
            else:
                each.step, each.reward = outcome, each.reward + outcome.reward
        self._check_failures(answers)

    def _check_failures(self, answers):
        failures = [each.failure for group in answers for each in group]
        failed = [failure for failure in failures if failure]
        if len(failed) > self.failures * len(failures):
            raise EnvironmentFailed(
                f"{len(failed)} of {len(failures)} environments of a batch failed, and "
                f"a share of {self.failures:g} may. The first: {failed[0]!r:.300}"
            ) from failed[0]

    def reply(self, answer):
        """What an answer reads after its last turn: messages and their tokens.

        One that cannot be encoded, or is too long, is the environment's error.
        """
        messages = [dict(message) for message in answer.step.messages]
        try:
            tokens = _reply_tokens(
                answer.tokenizer,
                str(answer.tokenizer.chat_template),
                json.dumps([messages, self.schemas]),
                answer.tokens[-1],
            )
            if len(tokens) > self.max_reply_tokens:
                count, most = len(tokens), self.max_reply_tokens
                raise ValueError(f"A reply has {count} tokens, and {most} may.")
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

    def of_environment(self, environment):
        """The calls of a `tool.Trace`, and the object that rewards get."""
        return (), environment

    def metrics(self, traces):
        """Means over all answers: `turns`, and `broken`, whose environment failed."""
        flat = [trace for group in traces for trace in group]
        turns = [len(trace.turns) for trace in flat]
        broken = [trace.failure is not None for trace in flat]
        return {"turns": float(np.mean(turns)), "broken": float(np.mean(broken))}


class Conversation(GrowingAnswer):
    """One answer as it grows: its tokens, and what they mean.

    prompt: ids that its next turn follows.
    question: what its first prompt was made of, a str or messages.
    prompts: those of its turns so far. history: the messages of the last one.
    replies: the messages that followed its last turn.
    """

    def __init__(self, use, tokenizer, prompt, question=None):
        super().__init__()
        self.use, self.tokenizer, self.prompt = use, tokenizer, prompt
        turn = [{"role": "user", "content": question}]
        self.history = turn if isinstance(question, str) else question and [*question]
        self.environment: Any = None
        self.step = Step(done=True)  # it has nothing to say
        self.prompts, self.segments, self.replies, self.reward = [], [], [], 0.0

    def reset(self, row, seed):
        """Begins its environment, which may change its copy of the row."""
        self.environment = self.use.make()
        given = copy.deepcopy(row) if self.use.has_openings else row
        return self.environment.reset(given, seed)

    @property
    def awaits_reply(self):
        """Whether its environment has something to say and it may go on."""
        return self.ended and not self.failure and not self.step.done

    def append_turn(self, tokens, logprobs, ended):
        """Appends what the model wrote."""
        opened = _opened(self.tokenizer, tuple(self.prompt[-32:]))
        text = opened + turn_text(self.tokenizer, tokens, ended)
        self.segments.append(("assistant", text))
        self.prompts.append(self.prompt)
        self.ended, self.step = bool(ended), Step(done=True)
        self.add_sampled(tokens.tolist(), logprobs.tolist())

    def act(self):
        """What its environment makes of its last turn, a Step."""
        step = Step(*self.environment.step(self.texts[-1]))
        roles = {message["role"] for message in step.messages}
        # Other libraries have other tuples, such as (observation, reward, done).
        is_step = isinstance(step.done, bool | np.bool_) and math.isfinite(step.reward)
        if not is_step or not roles <= {"user", "tool"} or not (roles or step.done):
            raise ValueError(
                f"A step gave {step!r:.200}. Its `done` is True or False, its reward is"
                " finite, and unless it is done it has messages of a user or a tool."
            )
        return step

    def take_reply(self):
        """Adds the reply to its last turn; returns its tokens."""
        messages, tokens = self.use.reply(self)
        for message in messages:
            role = self.use.shown_role or message["role"]
            self.segments.append((role, message["content"]))
        self.replies = messages
        return tokens

    @property
    def texts(self):
        """The texts of its turns."""
        return [text for role, text in self.segments if role == "assistant"]

    @property
    def trace(self):
        """What rewards judge."""
        turns = tuple(map(self.use.parse, self.texts))
        there = self.environment
        calls, shown = ((), None) if there is None else self.use.of_environment(there)
        earned = self.reward, shown, self.failure
        return Trace(tuple(self.segments), turns, tuple(calls), *earned)


@functools.lru_cache(maxsize=4096)  # games have few replies, and templates are slow
def _reply_tokens(tokenizer, template, texts, ended):
    messages, tools = json.loads(texts)
    return chat.turn_tokens(tokenizer, messages, tools=tools, ended=ended)


@functools.lru_cache(maxsize=4096)
def _opened(tokenizer, ids):
    return chat.opened_thoughts(tokenizer, [ids])[0]


@jax.jit
def _fold(keys_PG, turn):
    """A key per answer and turn, (P * G, 1): every turn begins at column 0."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return fold(keys_PG.reshape(-1), turn)[:, None]


def _padded(prompts):
    """Prompts as arrays, as wide in all processes; few widths, so few programs."""
    longest = max(distributed.gather(max(map(len, prompts))))
    return pad_prompts(prompts, [1 << (longest - 1).bit_length()])


def rows_of_turns(batch, turns):
    """A batch of `Rollouts` in which each turn is a row of its own, a group of one.

    Args:
      batch: with "turn_prompts", P lists of G lists of prompts, and scored.
      turns: most turns of an answer; those that it does not have are rows of no weight.
    Returns:
      The batch with P * G * turns rows.
    """
    prompts = []
    for p, group in enumerate(batch["turn_prompts"]):
        first = batch["prompt"][p][batch["prompt_mask"][p] > 0].tolist()
        for used in group:
            prompts += used + [first] * (turns - len(used))
    rows = dict(zip(("prompt", "prompt_mask"), _padded(prompts), strict=True))
    for name in ("completion", "loss_mask", "logprobs"):
        rows[name] = batch[name].reshape(len(prompts), 1, -1)
    for name in {"rewards", "advantages"} & batch.keys():
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
