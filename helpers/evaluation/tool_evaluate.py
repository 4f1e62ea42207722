"""Measuring a model in conversations with a tool: is the whole of each right?

As `helpers.evaluation.evaluator`, with a `ToolUse` between the turns. What is right is
said by `helpers.rewards.food_rewards`: the foods and grams looked up, and the tool's
number answered.
"""

import functools
import itertools

import jax
import numpy as np

from helpers.batches import images
from helpers.batches.prompt_batches import pad_prompts
from helpers.evaluation.evaluator import batches
from helpers.evaluation.report import Report
from helpers.generation.sampling import row_keys
from helpers.rewards import food_rewards
from helpers.text import chat


class ToolReport(Report):
    """A `Report` on conversations; its `strict` is `food_rewards.solved`.

    Each answer also has `trace` (the greedy conversation), `calls` (how many), and the
    scores of the greedy one: `valid` (well-formed calls), `food` and `grams` where
    there is food on the picture, `declined` where there is none; None elsewhere.
    """

    def share(self, name):
        """The mean of a column over the answers that have it; None if none has."""
        values = [value for value in self.column(name) if value is not None]
        return sum(values) / len(values) if values else None

    def __str__(self):
        parts = ("valid", "food", "grams", "declined")
        shares = {name: self.share(name) for name in parts}
        text = "".join(f", {k} {v:.1%}" for k, v in shares.items() if v is not None)
        some = f", pass@1 {self.pass1:.1%}" if self.samples else ""
        some += f", pass@8 {self.pass8:.1%}" if self.samples >= 8 else ""
        between = f"({self.low:.1%} to {self.high:.1%})"
        return f"right {self.greedy:.1%} {between} of {self.n}{some}{text}"


def evaluate(
    model,
    tokenizer,
    rows,
    tools,
    *,
    max_tokens,
    pictures=None,
    samples=8,
    batch=32,
    seed=0,
    temperature=1.0,
    buckets=(64, 128, 256, 512),
    log=True,
):
    """Holds one greedy conversation about every row and several at random.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: with "question" and "portions", see `food_traces.ask`.
      tools: a `tool_use.ToolUse`.
      max_tokens: budget of a turn.
      pictures: `pictures(row)` gives the list of a row's pictures; None: no row has
        any.
      samples: sampled conversations per row; 0 for none.
      batch: rows at a time when sampling; greedily, as many conversations at a time.
      seed, temperature: of the samples.
      buckets: allowed lengths of prompts.
      log: print a line now and then when it takes long.
    Returns:
      A ToolReport.
    Raises:
      ValueError: there are no rows.
      PromptTooLong: a prompt does not fit into the largest bucket.
      images.ImageMismatch: see `pipeline.prompts`.
    """
    if not rows:
        raise ValueError("There are no rows to evaluate.")
    prompts = _prompts(model, tokenizer, rows, buckets, pictures)
    keys_NG = row_keys(jax.random.key(seed), 0, len(rows), max(samples, 1))

    hold = functools.partial(
        _hold,
        model,
        tokenizer,
        prompts,
        tools,
        max_tokens,
        batch * max(samples, 1),
        log,
    )
    greedy = hold("greedy conversations", keys_NG[:, :1], 0.0)
    sampled = [[]] * len(rows)
    if samples:
        sampled = [traces for traces, *_ in hold("samples", keys_NG, temperature)]
    graded = [
        _graded(row, *one, traces)
        for row, one, traces in zip(rows, greedy, sampled, strict=True)
    ]
    return ToolReport(graded, samples)


def _hold(
    model,
    tokenizer,
    prompts,
    tools,
    max_tokens,
    at_once,
    log,
    what,
    keys_NG,
    temperature,
):
    """For each row (traces, tokens said, ended) of its G conversations."""
    size = min(at_once // keys_NG.shape[1], len(keys_NG))
    for at, real in batches(len(keys_NG), size, what if log else None):
        answers = tools.answers(
            model,
            tokenizer,
            {name: array[at] for name, array in prompts.items()},
            keys_NG[at],
            max_tokens=max_tokens,
            temperature=temperature,
        )
        lengths = answers.mask.sum(axis=-1)
        held = zip(answers.texts, lengths, answers.ended, strict=True)
        yield from itertools.islice(held, real)


def _prompts(model, tokenizer, rows, buckets, pictures):
    """The rows' prompts as one batch, pictures included."""
    vision = model.config.vision if pictures else None
    questions = [row["question"] for row in rows]
    tokens = chat.prompts_tokens(tokenizer, questions, vision=vision)
    prompt, mask = pad_prompts(tokens, buckets)
    prompts = {"prompt": prompt, "prompt_mask": mask}
    if pictures:
        numbers = images.counts(tokens, vision)
        own, slots = [pictures(row) for row in rows], max(1, *numbers)
        prompts["images"] = images.stack(own, numbers, slots, vision)
    return prompts


def _graded(row, greedy, lengths, ended, sampled):
    """One entry of `Report.answers`; greedy, lengths and ended hold one answer."""
    (trace,), wanted = greedy, row["portions"]

    def score(reward, traces):
        return reward([], traces, portions=[wanted] * len(traces))

    right = sum(score(food_rewards.solved, sampled))
    solved = score(food_rewards.solved, greedy)[0] == 1
    parts = {
        "valid": food_rewards.well_formed,
        "food": food_rewards.right_food,
        "grams": food_rewards.right_grams,
    }
    scores = {n: score(f, greedy)[0] if wanted else None for n, f in parts.items()}
    declined = None if wanted else score(food_rewards.declined, greedy)[0]
    return {
        "question": row.get("text", row["question"]),
        "level": row.get("level", 0),
        "text": str(trace),
        "tokens": int(np.sum(lengths)),
        "ended": bool(ended[0]),
        "strict": solved,
        "lenient": solved,
        "right": int(right),
        "right_lenient": int(right),
        "names_kept": None,
        "trace": trace,
        "calls": len(trace.calls),
        "declined": declined,
        **scores,
    }
