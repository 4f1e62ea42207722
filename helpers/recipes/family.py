"""GRPO and its relatives as their papers have them: the same function, other switches.

Each method is a row. What it calls a switch of the loss is an argument of
`training.objectives.policy_gradient`; what it does with a group's rewards, and whether
it draws again for tied groups, are arguments of `generation.Rollouts`.
"""

from typing import Any, NamedTuple

ROOM = 64  # tokens an answer may have on a laptop: the divisor of the constant mean


class Method(NamedTuple):
    """One member of the family.

    Attributes:
      paper: its number at arxiv.org; empty for this course's own choice.
      advantage: kind of `losses.advantages`.
      resample: how often tied groups may be drawn again.
      switches: arguments of `training.objectives.policy_gradient`.
    """

    paper: str
    advantage: str
    resample: int
    switches: dict[str, Any]


def _gspo(level):
    return {"clip": (3e-4, 4e-4), "level": level, "aggregate": "sequence-mean"}


_EVEN = {"clip": (0.2, 0.2)}
# Clips: DAPO and GSPO name theirs, CISPO does not, GRPO's is PPO's usual 0.2; RLOO has
# neither a ratio nor a clip.
FAMILY = {
    "GRPO": Method(
        "2402.03300",
        "mean-std",
        0,
        _EVEN | {"aggregate": "sequence-mean", "beta": 0.04},
    ),
    "Dr. GRPO": Method(
        "2503.20783",
        "mean",
        0,
        _EVEN | {"aggregate": "constant", "constant_length": ROOM},
    ),
    "DAPO": Method("2503.14476", "mean-std", 2, {"clip": (0.2, 0.28)}),
    "GSPO": Method("2507.18071", "mean-std", 0, _gspo("sequence")),
    "GSPO-token": Method("2507.18071", "mean-std", 0, _gspo("sequence-token")),
    "CISPO": Method(
        "2506.13585", "mean-std", 0, {"clips": "weight", "clip": (1.0, 0.28)}
    ),
    "RLOO": Method(
        "2402.14740",
        "leave-one-out",
        0,
        {
            "clips": "weight",
            "clip": (0.0, 0.0),
            "aggregate": "constant",
            "constant_length": ROOM,
        },
    ),
    "this course": Method("", "mean", 0, {"clip": (0.2, 0.28)}),
}
_DEFAULTS = {"level": "token", "clips": "gain", "aggregate": "token-mean", "beta": 0}
_MEANS = {
    "token-mean": "tokens",
    "sequence-mean": "answers",
    "constant": "sum / constant",
}
_ADVANTAGES = {
    "mean": "r − mean",
    "mean-std": "(r − mean) / std",
    "leave-one-out": "r − mean of the others",
}


def table() -> str:
    """The family as a Markdown table, read off the switches that are run."""
    lines = [
        "| method | ratio | clip | mean over | advantage | KL | tied groups |",
        "|---|---|---|---|---|--:|---|",
    ]
    for name, method in FAMILY.items():
        switch: dict[str, Any] = _DEFAULTS | method.switches
        low, high = switch["clip"]
        clip = f"gain, −{low:g} to +{high:g}"
        if switch["clips"] == "weight":
            clip = f"weight, above {1 + high:g}"
        ratio = switch["level"]
        if (low, high) == (0, 0):
            ratio = clip = "none"
        paper = f"[{name}](https://arxiv.org/abs/{method.paper})"
        again = f"drawn again, {method.resample} times at most"
        cells = [
            paper if method.paper else name,
            ratio,
            clip,
            _MEANS[switch["aggregate"]],
            _ADVANTAGES[method.advantage],
            f"{switch['beta']:g}",
            again if method.resample else "kept",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
