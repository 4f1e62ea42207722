"""A small Gemma 4 with random weights learns its family's calls: SFT, then GRPO.

What it samples are turns with its own control tokens and a real tool between them.
"""

import jax
import numpy as np
import pytest
import tiny_models
import toy_tools

from helpers.batches import packed_rows, prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import row_keys
from helpers.generation.tool_use import ToolUse
from helpers.runtime.sharding import make_mesh
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.grammars import GEMMA4
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOOL = toy_tools.make("add", lambda n: {"sum": n + 6}, n="integer")
CALL = Call("add", {"n": 1})
GROUP, BUDGET = 8, 20


def demonstration():
    return [
        {"role": "user", "content": "Hi"},
        GEMMA4.message([CALL]),
        *GEMMA4.results([{"sum": 7}], [CALL]),
        {"role": "assistant", "content": "Yo"},
    ]


def called_once(prompts, completions, **_):
    """1 for an answer that called the tool, and what it gave was right, and ended."""
    return [float(t.calls == ((CALL, {"sum": 7}),)) for t in completions]


@pytest.mark.slow
def test_traces_are_learned_and_rollouts_of_them_rewarded(families):
    tokenizer = families["gemma4"]
    shape = {"vocab_size": len(tokenizer), "softcap": 30.0}
    model = tiny_models.model("gemma4_text", **shape)
    use = ToolUse(GEMMA4, [TOOL], turns=2, max_result_tokens=40)
    example = chat.conversation_tokens(tokenizer, demonstration(), tools=use.schemas)
    length = len(example[0])
    rows = packed_rows([example], batch=1, length=length, seed=0)
    mesh = make_mesh(jax.devices()[:1])
    sft = Trainer(model, objectives.sft(), adamw(2e-2), mesh=mesh, log=False)
    losses = [row["loss"] for row in sft.fit(rows, 80)]
    assert losses[-1] < 0.02 * losses[0]

    shape = {"batch": 1, "seed": 0, "buckets": (length,), "tools": use.schemas}
    prompts = prompt_batches.prompts([{"question": "Hi"}], tokenizer, **shape)
    keys = row_keys(jax.random.key(0), 0, 1, 1)
    limits = {"max_tokens": BUDGET, "temperature": 0.0}
    said = use.answers(model, tokenizer, next(prompts), keys, **limits)
    (trace,) = said.texts[0]
    assert trace.calls == ((CALL, {"sum": 7}),) and trace.answer == "Yo"
    own, mask = (np.array(x) for x in example)
    begin = mask.argmax()
    count = len(own) - begin - 1  # all but the line end behind the turn
    assert said.tokens[0, 0, :count].tolist() == own[begin:-1].tolist()
    assert said.mask[0, 0, :count].tolist() == mask[begin:-1].tolist()

    rollouts = Rollouts(
        model, prompts, called_once, tokenizer, group=GROUP, max_tokens=BUDGET,
        seed=1, tools=use, mask_truncated=False, patience=99,
    )  # fmt: skip
    grpo = Trainer(
        model, objectives.policy_gradient(), adamw(1e-4), mesh=mesh, log=False
    )
    table = grpo.fit(rollouts, 2)
    for row in table[:1]:  # sampled with the weights that it updates
        assert row["ratio_mean"] == pytest.approx(1, abs=1e-3)
        assert row["logprob_gap"] < 1e-4
    assert rollouts.metrics["calls"] > 0.5 and rollouts.metrics["reward"] > 0.3
