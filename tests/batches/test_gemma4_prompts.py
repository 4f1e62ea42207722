"""Gemma 4's pictures in prompts: as many tokens as transformers' processor writes."""

import copy

import numpy as np
import pytest
from gemma4_sights import config
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers.batches import images, prompt_batches
from helpers.batches.images import ImageMismatch
from helpers.model.vision_config import BUDGETS
from helpers.text import chat

unhurried = settings(deadline=None, max_examples=15)
IMAGE = {"type": "image"}
NAMES = "<|image>", "<|image|>", "<image|>"


def vision(tokenizer, **changes):
    ids = tokenizer.convert_tokens_to_ids(NAMES)
    tokens = dict(zip(("begin_token", "image_token", "end_token"), ids, strict=True))
    return config(**tokens | {"budget": 70} | changes).vision


def text(words):
    return {"type": "text", "text": words}


def picture(height, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3)).astype(np.uint8)


def processor(tower):
    """Transformers' image processor of the tower."""
    module = pytest.importorskip(
        "transformers.models.gemma4.image_processing_pil_gemma4"
    )
    return module.Gemma4ImageProcessorPil(
        patch_size=tower.patch,
        pooling_kernel_size=tower.pool,
        max_soft_tokens=tower.budget,
    )


@pytest.fixture(scope="module")
def whole(families):
    """Transformers' whole processor, which makes ids of messages, without videos."""
    module = pytest.importorskip("transformers.models.gemma4.processing_gemma4")

    class Processor(module.Gemma4Processor):
        def check_argument_for_proper_class(self, name, argument):
            """Videos need torchvision, and none are shown."""

    tokenizer = copy.deepcopy(families["gemma4"])
    names = ("boi_token", "image_token", "eoi_token", "audio_token", "boa_token")
    names += ("eoa_token", "pad_token")
    for name, token in zip(names, (*NAMES, *["<pad>"] * 4), strict=True):
        setattr(tokenizer, name, token)
    tokenizer.image_token_id = tokenizer.convert_tokens_to_ids("<|image|>")
    return Processor(
        None, processor(vision(tokenizer)), tokenizer, None, tokenizer.chat_template
    )


def theirs(whole, messages, pictures, tower):
    """The ids of a prompt with pictures, by the processor with the tower's budget."""
    whole.image_processor = processor(tower)
    text = whole.apply_chat_template(messages, add_generation_prompt=True)
    shown = [list(map(Image.fromarray, pictures))]
    return whole(text=[text], images=shown, add_special_tokens=False)["input_ids"][0]


side = st.integers(4, 90)  # fewer may be taken for colours by their processor


@unhurried
@given(
    st.lists(st.tuples(side, side), min_size=1, max_size=3), st.sampled_from(BUDGETS)
)
def test_prompts_are_those_of_transformers(families, whole, shapes, budget):
    tokenizer = families["gemma4"]
    tower = vision(tokenizer, budget=budget)
    pictures = [picture(*shape) for shape in shapes]
    parts = [text("Hi "), *[IMAGE] * len(pictures), text("Yo")]
    messages = [{"role": "user", "content": parts}]
    shaped = images.shaped(messages, pictures)
    ours = chat.prompt_tokens(tokenizer, shaped, vision=tower)
    assert ours == theirs(whole, messages, pictures, tower)
    strips = [images.fit_for(x, tower) for x in pictures]
    assert images.counts([ours], tower) == [[tower.count(strip) for strip in strips]]
    assert messages[0]["content"][1] is IMAGE and "shape" not in IMAGE


@pytest.mark.parametrize("budget, shape", [(70, (97, 31)), (280, (20, 700))])
def test_pixels_are_those_of_the_image_processor(families, budget, shape):
    """Within one step of 255: bicubic numbers are rounded at other places."""
    tower = vision(families["gemma4"], budget=budget, patch=4, pool=3)
    pixels, k, p = picture(*shape), tower.pool, tower.patch
    strip = images.fit_for(pixels, tower)
    out = processor(tower)(Image.fromarray(pixels), return_tensors="np")
    places, values = out["image_position_ids"][0], out["pixel_values"][0]
    there = places[:, 0] >= 0
    columns, rows = (places.max(axis=0) + 1) // k
    assert tower.count(strip) == rows * columns == there.sum() // k**2
    squares = strip[tower.side :].reshape(-1, k, p, k, p, 3)
    assert not squares[rows * columns :].any()
    column, row = places[there].T
    ours = squares[row // k * columns + column // k, row % k, :, column % k]
    ours = ours.reshape(len(ours), -1) / 255
    np.testing.assert_allclose(ours, values[there], atol=1 / 255 + 1e-6)


def test_a_conversation_learns_the_answers_and_no_image(families):
    tokenizer = families["gemma4"]
    tower = vision(tokenizer)
    messages = [
        {"role": "user", "content": [IMAGE | {"shape": [16, 48]}, text("Hi")]},
        {"role": "assistant", "content": "Yo"},
        {"role": "user", "content": [text("Bye"), IMAGE | {"shape": [40, 20]}]},
        {"role": "assistant", "content": "Ciao"},
    ]
    tokens, mask = chat.conversation_tokens(tokenizer, messages, vision=tower)
    pieces = [
        ("<bos><|turn>user\n<|image>" + "<|image|>" * 4 * 14, 0),
        ("<image|>Hi<turn|>\n<|turn>model\n", 0),
        ("Yo<turn|>", 1),
        ("\n<|turn>user\nBye<|image>" + "<|image|>" * 11 * 5, 0),
        ("<image|><turn|>\n<|turn>model\n", 0),
        ("Ciao<turn|>", 1),
        ("\n", 0),
    ]
    ids = [
        tokenizer(piece, add_special_tokens=False)["input_ids"] for piece, _ in pieces
    ]
    assert tokens == sum(ids, [])
    assert mask == [m for piece, (_, m) in zip(ids, pieces, strict=True) for _ in piece]
    spelled = [{"role": "user", "content": [text("<|image|>" * 4)]}]
    typed = chat.prompt_tokens(tokenizer, spelled, vision=tower)
    assert images.counts([typed], tower) == [[]]


def test_batches_carry_strips_in_the_order_of_their_tokens(families):
    tokenizer = families["gemma4"]
    tower = vision(tokenizer)
    shown = [[picture(30, 20), picture(20, 30, 1)], [], [picture(9, 60, 2)]]
    fitted = [[images.fit_for(x, tower) for x in some] for some in shown]
    rows = [
        {"question": images.shaped([user([IMAGE] * len(x) + [text("Hi")])], x), "i": i}
        for i, x in enumerate(shown)
    ]
    source = prompt_batches.prompts(
        rows, tokenizer, batch=3, buckets=(256,), seed=0, vision=tower,
        pictures=lambda row: fitted[row["i"]],
    )  # fmt: skip
    batch = next(source)
    assert batch["images"].shape == (3, 2, *tower.shape)
    images.check_prompts(batch["prompt"], batch["prompt_mask"], batch["images"], tower)
    for row, strips in zip(batch["rows"], batch["images"], strict=True):
        wanted = fitted[row["i"]]
        np.testing.assert_array_equal(strips[: len(wanted)], wanted or strips[:0])
        assert not strips[len(wanted) :].any()
    examples = [
        chat.example_tokens(tokenizer, row["question"], "Yo", vision=tower)
        for row in rows
    ]
    packed = prompt_batches.packed_rows(
        examples, batch=1, length=512, seed=0, epochs=1, slots=3, vision=tower,
        pictures=fitted.__getitem__,
    )  # fmt: skip
    row = next(packed)
    images.check_prompts(row["tokens"], row["segment_ids"], row["images"], tower)
    assert tower.count(row["images"][0, 2]) > 0


def user(content):
    return {"role": "user", "content": content}


def test_what_does_not_fit_is_refused(families):
    tokenizer = families["gemma4"]
    tower, question = vision(tokenizer), [user([IMAGE, text("Hi")])]
    with pytest.raises(ValueError, match=r"does not say its shape.*images\.shaped"):
        chat.prompt_tokens(tokenizer, question, vision=tower)
    for shown in ([], [picture(8, 8)] * 2):
        with pytest.raises(ImageMismatch, match=f"1 images, and {len(shown)} pictures"):
            images.shaped(question, shown)
    other = images.fit_for(picture(8, 60), tower)
    shaped = images.shaped(question, [picture(30, 30)])
    counts = images.counts([chat.prompt_tokens(tokenizer, shaped, vision=tower)], tower)
    assert counts == [[64]]
    with pytest.raises(ImageMismatch, match=r"images of \[64\] .* take \[66\]"):
        images.stack([[other]], counts, 1, tower)
    with pytest.raises(ImageMismatch, match=r"not uint8\(284, 4, 3\).*fit_for"):
        images.stack([[picture(30, 30)]], counts, 1, tower)
    with pytest.raises(ImageMismatch, match=r"runs of \[71\].*at most 70"):
        images.counts([[tower.image_token] * 71], tower)
    with pytest.raises(ValueError, match="writes no .* for an image"):
        chat.prompt_tokens(families["qwen3"], question, vision=tower)
