"""A Gemma on real weights behind the food app, with what the food lessons taught it."""

import functools
import threading

from helpers.app.food_models import Choice
from helpers.app.local_model import LocalModel
from helpers.model import hub, lora, weights
from helpers.recipes import food101, maths, presets
from helpers.text import chat
from helpers.tools import nutrition

STAGES = "food_grpo", "food_sft"  # whose adapters it is given: the first that is there
TAUGHT = "It has seen photos, and learned to call this tool from photos of Food-101."
AS_IT_COMES = "It has seen photos, and was never trained to call this tool."


def on_real_weights(preset: presets.Preset) -> dict[str, Choice]:
    """The model of a food lesson's section on real weights, by the name people read.

    It is loaded when it is first asked, and works for one person at a time.

    Args:
      preset: a row of `presets.FOOD` with a model that sees photos, such as "v5e-1".
    """
    stage = next((s for s in STAGES if maths.trained_here(s, preset)), "")
    name = f"{preset.model.rpartition('/')[2]}, on this machine"
    adapters = f"with the adapters of {stage}" if stage else "as it comes"
    return {
        name: Choice(
            functools.cache(functools.partial(_load, preset, stage, name)),
            f"on this computer: {preset.model}, {adapters}",
            TAUGHT if stage else AS_IT_COMES,
            lock=threading.Lock(),
        )
    }


def _load(preset, stage, name):
    """It is asked as it was trained: in the same words, with the same budgets."""
    folder = hub.fetch(preset.model)
    tokenizer = chat.load_tokenizer(folder)
    policy = lora.add(food101.load(preset), preset.lora_rank)
    told = weights.fingerprint(folder)
    there = food101.Recipe(preset, policy, tokenizer, [], [], told)
    there = there.start(stage) if stage else there
    form = food101.form_of(there.policy.config)
    return LocalModel(
        there.policy,
        tokenizer,
        form.grammar,
        name,
        tools=[nutrition.TOOL],
        max_tokens=there.turn,
        max_result_tokens=food101.RESULT_TOKENS,
        question_end=form.ask,
    )
