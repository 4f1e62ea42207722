"""Notebook 00."""

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


WRONG = {
    "00-1": {
        "another place": HERE | {"place": "colab"},
        "chips exchanged": HERE
        | {"preset with 1 chip": "v5e-8", "preset with 8 chips": "v5e-1"},
        "half filled in": HERE | {"preset with 8 chips": None},
        "a key too many": HERE | {"chips": "1"},
    },
    "00-2": {
        "the Drive itself": {"COURSE_BUILD": DRIVE},
        "a path that begins nowhere": {"COURSE_BUILD": "MyDrive/course"},
        "another variable": {"COURSE_PRESET": f"{DRIVE}/course"},
        "out of the Drive again": {"COURSE_BUILD": f"{DRIVE}/../course"},
    },
    "00-3": {
        "not turned": lambda h, t: jnp.dot(h, t),
        "the wrong one turned": lambda h, t: jnp.dot(h.T, t),
        "turned round": lambda h, t: jnp.dot(t, h.T),
        "turned only where it must be": lambda h, t: (
            h @ (t if t.shape[0] == h.shape[1] else t.T)
        ),
    },
}

RIGHT = {
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
