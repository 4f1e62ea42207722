"""The template, and notebook 00."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers.recipes import presets

HERE = {
    "place": "laptop",
    "platform": "cpu",
    "preset": "laptop",
    "preset with 1 chip": "v5e-1",
    "preset with 8 chips": "v5e-8",
}
DRIVE = "/content/drive/MyDrive"


def in_place(rewards_PG):
    rewards_PG -= rewards_PG.mean(axis=1, keepdims=True)
    return rewards_PG


# Of notebook 07 as well.
CENTRED_WRONGLY = {
    "over the other axis": lambda r: r - r.mean(axis=0, keepdims=True),
    "one mean for all groups": lambda r: r - r.mean(),
    "the median": lambda r: r - np.median(r, axis=1, keepdims=True),
    "the midrange": lambda r: (
        r - (r.max(1, keepdims=True) + r.min(1, keepdims=True)) / 2
    ),
    "the wrong sign": lambda r: r.mean(axis=1, keepdims=True) - r,
    "divided by the standard deviation": lambda r: (
        (r - r.mean(1, keepdims=True)) / (r.std(1, keepdims=True) + 1e-6)
    ),
    "without the answer itself": lambda r: (
        (r - r.mean(1, keepdims=True)) * r.shape[1] / (r.shape[1] - 1)
    ),
    "groups of four": lambda r: r - r.sum(axis=1, keepdims=True) / 4,
    "the rewards": lambda r: r,
    "zeros": lambda r: 0 * r,
    "ranks": lambda r: r.argsort(1).argsort(1) - (r.shape[1] - 1) / 2,
    "in place": in_place,
    "the example": lambda r: np.array([[0.5, -0.5, 0.5, -0.5], [0, 0, 0, 0]]),
}
CENTRED = {
    "by jax": lambda r: jnp.asarray(r) - jnp.mean(r, axis=-1)[:, None],
    "row by row": lambda r: np.stack([row - sum(row) / len(row) for row in r]),
}


def empties_the_table(hidden_TD, table_VD):
    scores = hidden_TD @ table_VD.T
    table_VD[:] = 0
    return scores


WRONG = {
    "template-1": {"none": 0, "both": 2, "minus": -1, "a half": 0.5, "True": True},
    "template-2": CENTRED_WRONGLY,
    "template-3": {
        "nobody is right": [0.0, 3.0],
        "one answer": [1.0],
        "all equal": [1.0, 1.0, 1.0],
        "right is best": [1.0, 0.5, 0.0],
        "infinite": [1.0, float("inf")],
        "not a number": [1.0, float("nan")],
    },
    "00-1": {
        "another place": HERE | {"place": "colab"},
        "another device": HERE | {"platform": "tpu"},
        "another preset": HERE | {"preset": "v5e-1"},
        "chips exchanged": HERE
        | {"preset with 1 chip": "v5e-8", "preset with 8 chips": "v5e-1"},
        "letter case": HERE | {"place": "Laptop"},
        "half filled in": HERE | {"preset with 8 chips": None},
        "a key too many": HERE | {"chips": "1"},
    },
    "00-2": {
        "the Drive itself": {"COURSE_BUILD": DRIVE},
        "a path that begins nowhere": {"COURSE_BUILD": "MyDrive/course"},
        "on the machine": {"COURSE_BUILD": "/content/course"},
        "another variable": {"COURSE_PRESET": f"{DRIVE}/course"},
        "two variables": {"COURSE_BUILD": f"{DRIVE}/course", "X": "1"},
        "only the path": f"{DRIVE}/course",
        "out of the Drive again": {"COURSE_BUILD": f"{DRIVE}/../course"},
        "there and back": {"COURSE_BUILD": f"{DRIVE}/course/.."},
        "as the folder is shown": {"COURSE_BUILD": "/content/drive/My Drive/course"},
        "a blank at its end": {"COURSE_BUILD": f"{DRIVE}/course "},
    },
    "00-3": {
        "not turned": lambda h, t: jnp.dot(h, t),
        "the wrong one turned": lambda h, t: jnp.dot(h.T, t),
        "turned round": lambda h, t: jnp.dot(t, h.T),
        "another shape in place of turning": lambda h, t: h @ t.reshape(h.shape[1], -1),
        "turned only where it must be": lambda h, t: (
            h @ (t if t.shape[0] == h.shape[1] else t.T)
        ),
        "zeros": lambda h, t: np.zeros((len(h), len(t))),
        "only the sums": lambda h, t: np.outer(h.sum(1), t.sum(1)),
        "whole numbers": lambda h, t: (h @ t.T).astype(int),
        "half precision": lambda h, t: np.float16(h) @ np.float16(t).T,
        "nested lists": lambda h, t: (h @ t.T).tolist(),
        "empties the table": empties_the_table,
    },
}

RIGHT = {
    "template-1": {"a float": 1.0},
    "template-2": CENTRED,
    "template-3": {"a bonus": [1, 0, 0, 5], "an array": np.array([1.0, 2.0, 9.0])},
    "00-1": {
        "read": HERE
        | {"platform": jax.default_backend(), "preset": presets.preset().name}
    },
    "00-2": {"another folder": {"COURSE_BUILD": f"{DRIVE}/llm/runs"}},
    "00-3": {
        "an operator": lambda h, t: h @ t.T,
        "einsum": lambda h, t: np.einsum("td,vd->tv", h, t),
    },
}
