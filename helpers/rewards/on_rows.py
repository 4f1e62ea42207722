"""A reward for answers to rows: which columns it is given."""

from helpers.rewards.functions import RewardSet


def on_rows(reward: RewardSet, rows, completions):
    """Scores an answer to each row.

    Args:
      reward: is given the questions, the completions, and every other column that all
        rows have.
      rows: dicts with a "question", one for each completion.
      completions: strings, lists of messages or traces.
    Returns:
      As `RewardSet` does: the totals, and the mean of each reward function.
    Raises:
      helpers.rewards.RewardError: a function failed.
      ValueError: a column has the name of another argument.
    """
    columns = {
        name: [row[name] for row in rows]
        for name in rows[0]
        if name != "question" and all(name in row for row in rows)
    }
    if taken := {"self", "prompts", "completions"} & columns.keys():
        raise ValueError(
            f"The rows have a column {min(taken)!r}, as rewards call what they judge: "
            "give it another name."
        )
    return reward([row["question"] for row in rows], completions, **columns)
