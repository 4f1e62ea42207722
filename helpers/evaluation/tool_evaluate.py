"""Measuring a model in conversations with a tool: is the whole of each right?

As `helpers.evaluation.evaluator`, with a `ToolUse` between the turns. What is right is
said by `helpers.rewards.food_rewards`: the foods and grams looked up, and the tool's
number answered.
"""

from helpers.evaluation.held import hold
from helpers.evaluation.report import Report, mean
from helpers.rewards import food_rewards


class ToolReport(Report):
    """A `Report` on conversations; its `strict` is `food_rewards.solved`.

    One that ran out of budget is not right: its number might have gone on.

    Each answer also has `trace` (the greedy conversation), `calls` (how many), and the
    scores of the greedy one: `valid` (well-formed calls), `food` and `grams` where
    there is food on the picture, `declined` where there is none; None elsewhere.
    """

    def share(self, name):
        """The mean of a column over the answers that have it; None if none has."""
        return mean([value for value in self.column(name) if value is not None])

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
      samples, batch, seed, temperature, buckets, log: see `evaluate.hold`.
    Returns:
      A ToolReport.
    Raises:
      ValueError: there are no rows.
      PromptTooLong: a prompt does not fit into the largest bucket.
      images.ImageMismatch: see `prompt_batches.prompts`.
    """
    held = hold(
        model,
        tokenizer,
        rows,
        tools,
        max_tokens=max_tokens,
        samples=samples,
        batch=batch,
        seed=seed,
        temperature=temperature,
        buckets=buckets,
        pictures=pictures,
        log=log,
    )
    graded = [_graded(row, *own) for row, own in zip(rows, held, strict=True)]
    return ToolReport(graded, samples)


def _graded(row, greedy, sampled):
    """One entry of `Report.answers`."""
    trace, wanted = greedy.text, row["portions"]

    def score(reward, traces):
        return reward([], traces, portions=[wanted] * len(traces))

    parts = {
        "valid": food_rewards.well_formed,
        "food": food_rewards.right_food,
        "grams": food_rewards.right_grams,
    }
    scores = {n: score(f, [trace])[0] if wanted else None for n, f in parts.items()}
    declined = None if wanted else score(food_rewards.declined, [trace])[0]
    solved = score(food_rewards.solved, [trace, *(each.text for each in sampled)])
    right, *sampled_right = (
        each.ended and one == 1
        for each, one in zip((greedy, *sampled), solved, strict=True)
    )
    return {
        "question": row.get("text", row["question"]),
        "gold": wanted,
        "level": row.get("level", 0),
        "text": str(trace),
        "tokens": greedy.tokens,
        "ended": greedy.ended,
        "strict": right,
        "right": sum(sampled_right),
        "trace": trace,
        "calls": len(trace.calls),
        "declined": declined,
        **scores,
    }
