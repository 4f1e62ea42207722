"""Adapters that peft made and saved, read here: both halves of `make parity`.

    python tests/golden/peft_adapters.py write FOLDER   where torch and peft are
    python tests/golden/peft_adapters.py check FOLDER   in the course's environment

For every golden model peft's own folder, with the logits that it computes beside it,
and for some a folder with other settings. `lora.load` has to give the same, or to
refuse by its name what it cannot do. Without FOLDER `write` makes those of SHIPPED,
which tests/model/test_peft_folder.py reads where there is no torch.
"""

import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
LOGITS, MOST = "logits.npz", 2e-4
MATRICES = [f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")]
# Settings for peft beside rank 3, alpha 5 and all matrices.
CASES = {
    "plain": {},
    "bfloat16": {},  # the adapters, as peft saves those of a model in bfloat16
    "rslora": {"use_rslora": True, "target_modules": ["q_proj", "v_proj", "down_proj"]},
}
ONE = {"target_modules": ["q_proj"]}
REFUSED = {
    "rank_pattern": ONE | {"rank_pattern": {"q_proj": 2}},
    "alpha_pattern": ONE | {"alpha_pattern": {"q_proj": 2}},
    "modules_to_save": ONE | {"modules_to_save": ["embed_tokens"]},
}
SHIPPED = [
    ("plain", "gemma4_e2b"),
    ("bfloat16", "qwen3"),
    ("rslora", "gemma3_text"),
    *((case, "llama") for case in REFUSED),
]


def write(folder=None):
    """peft's folders, CASE/MODEL; those that are to be read with its logits."""
    import torch
    from make_golden import load, logits_of
    from peft import LoraConfig, get_peft_model

    os.chdir(HERE)  # so that a base is called as its folder here
    models = sorted(path.parent.name for path in HERE.glob("*/reference.npz"))
    every = {("plain", model) for model in models if folder} | {*SHIPPED}
    for case, model in sorted(every):
        torch.manual_seed(0)
        base = load(model)
        settings = {"r": 3, "lora_alpha": 5, "target_modules": MATRICES}
        settings |= (CASES | REFUSED)[case] | {"task_type": "CAUSAL_LM"}
        adapted = get_peft_model(base, LoraConfig(**settings)).eval()
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:  # B is zero at first
                torch.nn.init.normal_(parameter.data, 0.0, 0.2)
                if case == "bfloat16":
                    parameter.data = parameter.data.to(torch.bfloat16)
        place = pathlib.Path(folder or HERE / "peft", case, model)
        adapted.save_pretrained(place)
        (place / "README.md").unlink()
        if case in CASES:
            tokens = np.load(HERE / model / "reference.npz")["tokens"]
            logits = logits_of(adapted.float(), input_ids=torch.tensor(tokens))
            np.savez_compressed(place / LOGITS, logits=logits)


def check(folder):
    """Ours of each folder that has theirs beside it; the others are refused by name."""
    import jax.numpy as jnp

    from helpers.model import lora, weights
    from helpers.model.folder import WeightsError

    places = sorted(pathlib.Path(folder).glob("*/*/adapter_config.json"))
    assert {path.parts[-3] for path in places} == {*CASES, *REFUSED}
    for place in (path.parent for path in places):
        base, case = weights.load(HERE / place.name), place.parent.name
        if case in REFUSED:
            try:
                lora.load(base, place)
            except WeightsError as error:
                assert f"{case}={REFUSED[case][case]}" in str(error), error
                continue
            raise AssertionError(f"{case} was read")
        stored = np.load(HERE / place.name / "reference.npz")
        tokens = jnp.asarray(stored["tokens"], jnp.int32)[:, None]
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[-1]), tokens.shape)
        model = lora.load(base, place, base=place.name)
        hidden, _ = model(tokens, positions, jnp.ones_like(tokens))
        ours = np.asarray(model.logits(hidden))[:, 0]
        theirs = np.load(place / LOGITS)["logits"]
        gap = np.abs(ours - theirs).max()
        print(f"peft's {case} on {place.name}: {gap:.1e}", flush=True)
        assert gap <= MOST
        assert np.abs(theirs - stored["logits"]).max() > 0.1, "the adapters do nothing"


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
