"""A real model's GGUF files, read here and by transformers: both halves.

    python tests/golden/real_model.py write FOLDER   in the course's environment
    python tests/golden/real_model.py check FOLDER   where torch and transformers are

Of SmolLM2-135M-Instruct: the file as its package has it (4 bits), and two that this
course writes of it. transformers reads each by its own routines; the logits of this
course's decoder, of the folder that it makes of the file, stand beside them. Both are
in float32, and compared with float64: on some machines two right results are more than
2e-4 apart. Then ours may lie three times as far from float64 as theirs does.
"""

import pathlib
import sys

import numpy as np

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MOST = 2e-4  # logits of up to 40, in float32
# No fraction such as ½: a digit to the tokenizer (as to llama.cpp), not to what
# transformers makes of its file.
QUESTIONS = (
    "What is the capital of France?",
    "Tom has 5 apples and buys 3 more.\nHow many has he?  Für 4 kg: 12 × 7 = ?",
)


def write(folder):
    """The files, and our ids and logits beside them."""
    import jax.numpy as jnp

    from helpers.model import gguf, hub, weights
    from helpers.text import chat

    def beside(name, file):
        place = gguf.to_folder(file, folder / "ours" / name)
        tokenizer, model = chat.load_tokenizer(place), weights.load(place)
        ours = {}
        for number, ids in enumerate(chat.prompts_tokens(tokenizer, QUESTIONS)):
            tokens = jnp.asarray(ids, jnp.int32)[None, None]
            positions = jnp.arange(len(ids))[None, None]
            hidden, _ = model(tokens, positions, jnp.ones_like(tokens))
            ours |= {
                f"ids{number}": np.asarray(ids),
                f"text{number}": QUESTIONS[number],
            }
            ours[f"logits{number}"] = np.asarray(model.logits(hidden))[0, 0]
        np.savez(folder / f"{name}.npz", **ours)
        return model, tokenizer

    folder.mkdir(parents=True)
    file = hub.gguf_of(MODEL, folder)
    model, tokenizer = beside("Q4_1", file.rename(folder / "Q4_1.gguf"))
    for kind in ("F16", "Q8_0"):
        gguf.save(model, folder / f"{kind}.gguf", tokenizer, kind)
        beside(kind, folder / f"{kind}.gguf")


def check(folder):
    """Their ids and logits of the same files."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    logging.disable_progress_bar()
    files = sorted(folder.glob("*.gguf"))
    assert [file.stem for file in files] == ["F16", "Q4_1", "Q8_0"]
    for file in files:
        ours, source = np.load(folder / f"{file.stem}.npz"), {"gguf_file": file.name}
        tokenizer = AutoTokenizer.from_pretrained(folder, **source)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", **source
        ).eval()
        gaps, rounding = [], []
        for number in range(len(QUESTIONS)):
            asked = [{"role": "user", "content": str(ours[f"text{number}"])}]
            ids = tokenizer.apply_chat_template(
                asked, add_generation_prompt=True, return_dict=False
            )
            np.testing.assert_array_equal(ids, ours[f"ids{number}"])
            with torch.no_grad():
                single, exact = (
                    model.to(dtype)(torch.tensor([ids])).logits[0].numpy()
                    for dtype in (torch.float32, torch.float64)
                )
            gaps.append(np.abs(exact - ours[f"logits{number}"]).max())
            rounding.append(np.abs(exact - single).max())
        told = f"logits differ by {max(gaps):.1e}, by rounding {max(rounding):.1e}"
        print(f"{file.stem}: {told}", flush=True)
        assert max(gaps) <= max(MOST, 3 * max(rounding)), file.stem
        assert max(rounding) <= MOST, file.stem


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
