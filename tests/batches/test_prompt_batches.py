"""Batches hold every example once per epoch, and a run continues where it stopped."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.batches import prompt_batches
from helpers.batches.images import ImageMismatch
from helpers.model.vision_config import VisionConfig
from helpers.text import chat


def make_examples(lengths, seed=0):
    """Examples with distinct tokens, so that a segment names the example it is."""
    rng = np.random.default_rng(seed)
    return [
        ([index + 1, *rng.integers(1, 1000, size - 1)], rng.integers(0, 2, size))
        for index, size in enumerate(lengths)
    ]


def as_key(tokens, mask):
    """An example as packed: nothing of its own predicts its first token."""
    return tuple(map(int, tokens)), (0, *map(int, mask[1:]))


def segments(batch):
    """Cut a batch into its examples by walking its tokens one at a time."""
    found = []
    for row in range(batch["tokens"].shape[0]):
        current = {}
        for t, segment in enumerate(batch["segment_ids"][row]):
            if segment:
                tokens, mask = current.setdefault(int(segment), ([], []))
                assert batch["positions"][row, t] == len(tokens)
                tokens.append(int(batch["tokens"][row, t]))
                mask.append(int(batch["loss_mask"][row, t]))
        found += [(tuple(tokens), tuple(mask)) for tokens, mask in current.values()]
    return found


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


unhurried = settings(deadline=None, max_examples=60)

lengths = st.lists(st.integers(1, 16), min_size=1, max_size=40)


# --- packing ---


@unhurried
@given(lengths, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_every_example_appears_exactly_once_per_epoch(lengths, batch, epochs, seed):
    examples = make_examples(lengths)
    source = prompt_batches.packed_rows(
        examples, batch=batch, length=16, seed=seed, epochs=epochs
    )
    seen = Counter(example for packed in source for example in segments(packed))
    assert seen == Counter({as_key(*example): epochs for example in examples})
    assert source.metrics["epoch"] == epochs


@unhurried
@given(lengths, st.integers(1, 4))
def test_rows_are_whole_segments_then_padding(lengths, batch):
    source = prompt_batches.packed_rows(
        make_examples(lengths), batch=batch, length=16, seed=0, epochs=1
    )
    for packed in source:
        assert {name: a.shape for name, a in packed.items()} == dict.fromkeys(
            ["tokens", "segment_ids", "positions", "loss_mask"], (batch, 16)
        )
        kinds = {name: a.dtype.name for name, a in packed.items()}
        assert kinds.pop("loss_mask") == "float32" and set(kinds.values()) == {"int32"}
        for ids in packed["segment_ids"]:
            used = ids[ids > 0]
            assert np.array_equal(ids[: len(used)], used)  # padding only at the end
            assert set(np.diff(used)) <= {0, 1} and (used[:1] == 1).all()
        padding = packed["segment_ids"] == 0
        assert not any(a[padding].any() for a in packed.values())


def test_a_segment_never_attends_outside_its_example():
    """Pairs that a segment-wise causal mask lets see each other share an example."""
    examples = [([i + 1] * size, [1] * size) for i, size in enumerate([3, 5, 2, 6] * 5)]
    packed = next(prompt_batches.packed_rows(examples, batch=4, length=16, seed=5))
    ids = packed["segment_ids"]
    sees = (ids[:, :, None] == ids[:, None, :]) & (ids > 0)[:, :, None]
    owner = packed["tokens"]  # each example repeats one token of its own
    assert sees.any() and (owner[:, :, None] == owner[:, None, :])[sees].all()


def test_no_target_is_predicted_from_another_example():
    packed = next(
        prompt_batches.packed_rows(make_examples([4] * 50), batch=4, length=16, seed=0)
    )
    targets = np.argwhere(packed["loss_mask"] == 1)
    assert len(targets) > 10
    for row, t in targets:
        assert packed["segment_ids"][row, t] == packed["segment_ids"][row, t - 1]


def test_the_callers_masks_are_left_alone():
    mask = np.ones(4, np.float32)
    next(prompt_batches.packed_rows([([1] * 4, mask)], batch=1, length=8, seed=0))
    assert mask.tolist() == [1] * 4


def test_rows_are_filled_above_85_percent_on_lengths_like_gsm8k():
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5.4, 0.35, 3000), 60, 512).astype(int)
    source = prompt_batches.packed_rows(
        make_examples(lengths), batch=8, length=512, seed=0, epochs=None
    )
    fills = []
    for _ in range(60):
        packed = next(source)
        fills.append((packed["segment_ids"] > 0).mean())
        assert source.metrics["packing"] == pytest.approx(fills[-1])
        assert source.metrics["examples"] == len(segments(packed))
    assert np.mean(fills) > 0.9 and min(fills) > 0.85


def test_no_example_waits_for_ever():
    """One example as long as a row, among many short ones that always fit first."""
    examples = make_examples([16] + [3] * 200)
    source = prompt_batches.packed_rows(examples, batch=1, length=16, seed=0)
    per_epoch = 200 // 5 + 1
    for epoch in range(1, 6):
        batches = [next(source) for _ in range(per_epoch)]
        long = sum((packed["tokens"][:, 0] == 1).sum() for packed in batches)
        assert long >= 1, epoch


def test_every_epoch_has_its_own_order_and_the_seed_decides_it():
    def orders(seed):
        source = prompt_batches.packed_rows(
            make_examples([4] * 60), batch=3, length=4, seed=seed, epochs=3
        )
        first = [int(token) for packed in source for token in packed["tokens"][:, 0]]
        return first[:60], first[60:120], first[120:]

    one, two, three = orders(7)
    assert sorted(one) == sorted(two) == sorted(three) == list(range(1, 61))
    assert one != two != three != one and one != sorted(one)
    assert orders(7) == (one, two, three) != orders(8)


def test_an_example_longer_than_a_row_is_an_error_that_names_it():
    examples = make_examples([4, 17, 5, 20])
    message = (
        r"Example 1 has 17 tokens, a row holds 16 \(2 of 4 .* too long\).*truncate=True"
    )
    with pytest.raises(prompt_batches.ExampleTooLong, match=message):
        prompt_batches.packed_rows(examples, batch=2, length=16, seed=0)


def test_truncation_is_counted():
    examples = make_examples([4, 17, 5, 20])
    source = prompt_batches.packed_rows(
        examples, batch=4, length=16, seed=0, epochs=1, truncate=True
    )
    seen = Counter(segments(next(source)))
    assert seen == Counter(as_key(t[:16], m[:16]) for t, m in examples)
    assert source.metrics["truncated"] == 2


@pytest.mark.parametrize(
    "examples, message",
    [
        ([], "no data"),
        ([([1, 2], [1, 1]), ([], [])], "Example 1 has 0 tokens"),
        ([([1, 2], [1])], "Example 0 has 2 tokens and a loss mask of 1"),
        ([([0, 1, 1], [5, 9, 6])], "mask from 5 to 9.*tokens, mask.*this order"),
        ([([3, 4], [0, 0.5])], "Example 0 .* mask from 0 to 0.5"),
        ([([3, -4], [0, 1])], "Example 0 has tokens from -4"),
    ],
)
def test_broken_examples_are_named(examples, message):
    with pytest.raises(ValueError, match=message):
        prompt_batches.packed_rows(examples, batch=1, length=8, seed=0)


# --- exact resume ---


@unhurried
@given(
    lengths,
    st.integers(1, 3),
    st.integers(0, 12),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([(0, 1), (0, 2), (1, 2)]),
)
def test_a_new_source_continues_exactly_after_any_batch(
    lengths, batch, taken, epochs, shard
):
    def new():
        return prompt_batches.packed_rows(
            make_examples(lengths),
            batch=batch,
            length=16,
            seed=3,
            epochs=epochs,
            shard=shard,
        )

    source = new()
    for _ in range(taken):
        next(source, None)
    kept = source.get_state()
    text = json.dumps(kept)
    wanted = [(next(source, None), source.metrics) for _ in range(8)]
    assert json.dumps(kept) == text  # a saved state does not move on

    later = new()
    for _ in range(2):  # wherever the new source happens to stand
        next(later, None)
    for again in (later, source):
        again.set_state(json.loads(text))
        for packed, metrics in wanted:
            found = next(again, None)
            if packed is None:
                assert found is None
            else:
                assert same(found, packed) and again.metrics == metrics


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"batch": 3}, "batch was 2, here it is 3"),
        ({"length": 32}, "length was 16, here it is 32"),
        ({"seed": 1}, "seed was 0, here it is 1"),
        ({"shard": (0, 2)}, r"shard was \[0, 1\], here it is \[0, 2\]"),
        ({"examples": make_examples([4] * 9, seed=1)}, "data: tokens changed"),
    ],
)
def test_a_state_of_another_run_is_refused(changed, message):
    arguments = {"examples": make_examples([4] * 9), "batch": 2, "length": 16}
    state = prompt_batches.packed_rows(**arguments, seed=0).get_state()
    other = prompt_batches.packed_rows(**{**arguments, "seed": 0, **changed})
    with pytest.raises(ValueError, match=message):
        other.set_state(state)


# --- what makes data other data ---


def refusal(one, other):
    """What is said when `other` shall go on where `one` stands; "" if it may."""
    state = json.loads(json.dumps(one.get_state()))
    try:
        other.set_state(state)
    except ValueError as error:
        return str(error)
    return ""


def in_rows(examples, **changes):
    settings = {"batch": 2, "length": 40, "seed": 0} | changes
    return prompt_batches.packed_rows(examples, **settings)


@unhurried
@given(lengths, st.data())
def test_every_token_mask_and_cut_of_the_examples_counts(lengths, data):
    examples = [(list(t), [*m]) for t, m in make_examples(lengths)]
    assert refusal(in_rows(examples), in_rows(examples)) == ""
    index = data.draw(st.integers(0, len(examples) - 1))
    tokens, mask = examples[index]
    place = data.draw(st.integers(0, len(tokens) - 1))
    other_tokens = [t + (i == place) for i, t in enumerate(tokens)]
    other_mask = [1 - m if i == place else m for i, m in enumerate(mask)]

    def changed(example):
        changed = [*examples[:index], example, *examples[index + 1 :]]
        return refusal(in_rows(examples), in_rows(changed))

    assert "tokens changed" in changed((other_tokens, mask))
    if place > 0:  # nothing predicts the first one, whatever its mask is
        assert "loss masks changed" in changed((tokens, other_mask))
    if index:
        before = examples[index - 1]
        moved = [(before[i] + examples[index][i][:1]) for i in (0, 1)]
        rest = [examples[index][i][1:] for i in (0, 1)]
        if rest[0]:  # all tokens in the same order, and another one is the first
            cut = [*examples[: index - 1], moved, rest, *examples[index + 1 :]]
            assert "tokens changed" in refusal(in_rows(examples), in_rows(cut))


def test_other_epochs_are_another_run():
    examples = make_examples([4] * 9)
    said = refusal(in_rows(examples, epochs=1), in_rows(examples, epochs=2))
    assert "epochs was 1, here it is 2" in said
    assert "epochs was None, here it is 2" in refusal(
        in_rows(examples), in_rows(examples, epochs=2)
    )


def test_a_state_with_pictures_is_not_one_without():
    with_pictures = rows_with_pictures(shown(9))
    without = in_rows(shown(9), length=24, batch=3, seed=5)
    assert "pictures" in refusal(with_pictures, without)
    assert "pictures" in refusal(without, with_pictures)


def test_other_pictures_of_the_same_examples_are_another_run():
    usual = rows_with_pictures(shown(9))
    assert refusal(usual, rows_with_pictures(shown(9))) == ""
    brighter = [[picture + 1 for picture in seen(i)] for i in range(9)]
    shows = rows_with_pictures(shown(9), lambda i: brighter[i])
    assert "pictures" in refusal(usual, shows)


def test_pictures_on_a_disk_that_are_others_now_are_another_run(tmp_path):
    def write(brighter):
        for i in range(9):
            np.save(tmp_path / f"{i}.npy", np.array(seen(i), np.uint8) + brighter)

    def read(index):
        return list(np.load(tmp_path / f"{index}.npy"))

    write(0)
    state = rows_with_pictures(shown(9), read).get_state()
    rows_with_pictures(shown(9), read).set_state(state)
    write(1)
    with pytest.raises(ValueError, match="data: pictures: what it makes changed"):
        rows_with_pictures(shown(9), read).set_state(state)


def test_describing_the_data_waits_until_somebody_asks():
    made = []

    def pictures(index):
        made.append(index)
        return seen(index % 3)

    source = rows_with_pictures(shown(80), pictures)
    assert not made
    source.get_state()
    count = len(made)
    source.get_state()
    assert 0 < len(made) == count < 80


@pytest.mark.parametrize("changes", [{"batch": 0}, {"batch": -1}, {"epochs": 0}])
def test_batches_of_nothing_are_an_error_not_an_end(tokenizer, changes):
    name = next(iter(changes))
    settings = {"batch": 2, "seed": 0} | changes
    with pytest.raises(ValueError, match=f"{name}={changes[name]}: "):
        prompt_batches.packed_rows(make_examples([4]), length=8, **settings)
    with pytest.raises(ValueError, match=f"{name}={changes[name]}: "):
        prompt_batches.prompts(make_rows(3), tokenizer, **settings)


# --- several processes ---


@unhurried
@given(lengths, st.integers(1, 4))
def test_shards_share_the_examples_without_overlap(lengths, processes):
    examples = make_examples(lengths)
    seen = Counter()
    for index in range(processes):
        source = prompt_batches.packed_rows(
            examples,
            batch=2,
            length=16,
            seed=0,
            epochs=processes,  # then every share is equally long
            shard=(index, processes),
        )
        mine = [example for packed in source for example in segments(packed)]
        assert len(mine) == len(examples)
        seen.update(mine)
    assert seen == Counter({as_key(*example): processes for example in examples})


@unhurried
@given(
    lengths,
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3]),
)
def test_when_the_number_of_processes_changes_no_example_is_lost(lengths, taken, later):
    """Even if one of them was batches ahead, as a lone share may be at the end."""
    examples, epochs = make_examples(lengths), 2

    def share(index, count):
        return prompt_batches.packed_rows(
            examples,
            batch=12 // count,
            length=16,
            seed=5,
            epochs=epochs,
            shard=(index, count),
        )

    seen = Counter()
    before = [share(index, len(taken)) for index in range(len(taken))]
    for source, batches in zip(before, taken, strict=True):
        for _, packed in zip(range(batches), source, strict=False):
            seen.update(segments(packed))
    states = json.loads(json.dumps([source.get_state() for source in before]))
    for index in range(later):
        source = share(index, later)
        source.set_states(states)
        seen.update(example for packed in source for example in segments(packed))
    assert seen == Counter({as_key(*example): epochs for example in examples})


@unhurried
@given(
    st.integers(1, 12),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3]),
)
def test_prompts_are_not_lost_either_when_the_number_of_processes_changes(
    tokenizer, count, taken, later
):
    rows, epochs = make_rows(count), 2

    def share(index, of):
        return prompt_batches.prompts(
            rows, tokenizer, batch=6 // of, seed=5, epochs=epochs, shard=(index, of)
        )

    before = [share(index, len(taken)) for index in range(len(taken))]
    drawn = [
        next(x, None) for x, n in zip(before, taken, strict=True) for _ in range(n)
    ]
    states = json.loads(json.dumps([source.get_state() for source in before]))
    for index in range(later):
        source = share(index, later)
        source.set_states(states)
        drawn += list(source)
    seen = Counter(row["question"] for batch in drawn if batch for row in batch["rows"])
    assert seen == Counter({row["question"]: epochs for row in rows})


def test_another_global_batch_is_refused_when_processes_change():
    examples = make_examples([4] * 9)
    two = [
        prompt_batches.packed_rows(examples, batch=2, length=8, seed=0, shard=(i, 2))
        for i in (0, 1)
    ]
    one = prompt_batches.packed_rows(examples, batch=2, length=8, seed=0)
    with pytest.raises(ValueError, match="batch was 4.*, here it is 2"):
        one.set_states([source.get_state() for source in two])


def test_states_that_are_not_all_shares_of_one_run_are_refused():
    """Two processes that each read everything took no turns, and lost count."""
    examples = make_examples([4] * 9)
    all_of_it = [in_rows(examples, shard=(0, 1)).get_state() for _ in range(2)]
    with pytest.raises(ValueError, match="not all there are"):
        in_rows(examples, batch=4, shard=(0, 1)).set_states(all_of_it)


def test_a_shard_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match=r"shard is \(2, 2\)"):
        prompt_batches.packed_rows(
            make_examples([4]), batch=1, length=8, seed=0, shard=(2, 2)
        )


# --- prompts ---


@pytest.fixture(scope="module")
def tokenizer():
    return chat.train_tokenizer(["What is 1+1? It is 2. user model"] * 5, 320)


def make_rows(count):
    return [
        {"question": f"What is {i}+1?", "answer": f"#### {i + 1}"} for i in range(count)
    ]


def test_prompts_carry_their_rows_and_their_tokens(tokenizer):
    rows = make_rows(10)
    source = prompt_batches.prompts(rows, tokenizer, batch=4, seed=0, epochs=1)
    batches = list(source)
    assert [len(batch["rows"]) for batch in batches] == [4, 4, 2]
    for batch in batches:
        for row, ids, mask in zip(
            batch["rows"], batch["prompt"], batch["prompt_mask"], strict=True
        ):
            wanted = chat.prompt_tokens(tokenizer, row["question"])
            assert ids[mask == 1].tolist() == wanted
            assert mask[: len(wanted)].all() and not ids[mask == 0].any()
    drawn = [row["answer"] for batch in batches for row in batch["rows"]]
    assert sorted(drawn) == sorted(row["answer"] for row in rows)
    assert drawn != [row["answer"] for row in rows]
    assert source.metrics["epoch"] == 1 and source.samples == []


@unhurried
@given(st.integers(1, 9), st.data())
def test_every_entry_of_every_row_counts_and_the_order_of_columns_does_not(
    tokenizer, count, data
):
    """Rewards read them all: with other gold answers the old curve is no answer."""
    rows = [{**row, "level": i % 3, "tags": [i]} for i, row in enumerate(make_rows(9))]
    rows = rows[:count]

    def source(rows):
        return prompt_batches.prompts(rows, tokenizer, batch=2, seed=0)

    turned = [dict(reversed(row.items())) for row in rows]
    assert refusal(source(rows), source(turned)) == ""
    index = data.draw(st.integers(0, count - 1))
    changes = {"answer": "#### 77", "level": 77, "tags": [77], "new": None}
    name = data.draw(st.sampled_from([*changes, "gone"]))
    if name == "gone":
        name = "answer"
        other = {k: x for k, x in rows[index].items() if k != "answer"}
    else:
        other = rows[index] | {name: changes[name]}
    changed = [*rows[:index], other, *rows[index + 1 :]]
    assert f"data: column '{name}'" in refusal(source(rows), source(changed))


@unhurried
@given(st.lists(st.integers(1, 64), min_size=1, max_size=6))
def test_the_smallest_bucket_that_holds_the_batch_is_used(lengths):
    lists = [list(range(1, size + 1)) for size in lengths]
    prompt, mask = prompt_batches.pad_prompts(lists, buckets=(64, 8, 32))
    width = 8 if max(lengths) <= 8 else 32 if max(lengths) <= 32 else 64
    assert prompt.shape == mask.shape == (len(lists), width)
    assert prompt.dtype == mask.dtype == np.int32
    for tokens, row, one in zip(lists, prompt, mask, strict=True):
        assert row.tolist() == tokens + [0] * (width - len(tokens))
        assert one.tolist() == [1] * len(tokens) + [0] * (width - len(tokens))


def test_a_prompt_longer_than_the_largest_bucket_is_an_error(tokenizer):
    rows = [*make_rows(3), {"question": "1" * 300}]
    message = (
        r"Prompt 3 has \d+ tokens, the largest bucket is 256.*"
        r"buckets=\(64, 128, 256, 512\)"
    )
    with pytest.raises(prompt_batches.PromptTooLong, match=message):
        prompt_batches.prompts(rows, tokenizer, batch=2, seed=0)
    with pytest.raises(prompt_batches.PromptTooLong, match="Prompt 1 has 9 tokens"):
        prompt_batches.pad_prompts([[1], [1] * 9], buckets=(4, 8))
    with pytest.raises(ValueError, match="Prompt 1 has no tokens"):
        prompt_batches.pad_prompts([[1], []], buckets=(4, 8))


@unhurried
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 9))
def test_prompts_continue_exactly_after_any_batch(tokenizer, count, batch, taken):
    def new():
        return prompt_batches.prompts(make_rows(count), tokenizer, batch=batch, seed=1)

    source = new()
    for _ in range(taken):
        next(source)
    state = json.loads(json.dumps(source.get_state()))
    again = new()
    again.set_state(state)
    for _ in range(6):
        one, other = next(source), next(again)
        assert one.pop("rows") == other.pop("rows") and same(one, other)
        assert source.metrics == again.metrics


def test_shards_of_prompts_together_are_the_batch_of_one_process(tokenizer):
    rows = make_rows(11)

    def answers(batch, shard):
        source = prompt_batches.prompts(
            rows, tokenizer, batch=batch, seed=4, shard=shard
        )
        return [[row["answer"] for row in next(source)["rows"]] for _ in range(9)]

    shares = zip(
        answers(2, (0, 3)), answers(2, (1, 3)), answers(2, (2, 3)), strict=True
    )
    for whole, share in zip(answers(6, (0, 1)), shares, strict=True):
        assert sorted(whole) == sorted(sum(share, []))


# --- rows with pictures ---

PLACE = VisionConfig(
    width=8, layers=1, heads=1, ff=8, patch=2, size=4, tokens=4,
    image_token=7, begin_token=8, end_token=9,
)  # fmt: skip


def seen(i):
    """The pictures of example i: none, one or two, each of another colour."""
    return [np.full((4, 4, 3), 8 * i + n, np.uint8) for n in range(1, 1 + i % 3)]


def shown(count):
    """Examples that begin with their own number, and have a place for each picture."""
    return [
        (tokens, [1] * len(tokens))
        for i in range(count)
        for tokens in [[100 + i, *[8, 7, 7, 7, 7, 9] * (i % 3), *[1] * (i % 5)]]
    ]


def rows_with_pictures(examples, pictures=seen, **settings):
    settings = {"batch": 3, "length": 24, "slots": 2, "seed": 5} | settings
    return prompt_batches.packed_rows(
        examples, pictures=pictures, vision=PLACE, **settings
    )


def test_packed_rows_come_with_the_pictures_of_their_examples_in_order():
    found = Counter()
    for batch in rows_with_pictures(shown(30), epochs=1):
        assert batch["images"].shape == (3, 2, 4, 4, 3)
        for row, images in zip(batch["tokens"], batch["images"], strict=True):
            inside = [int(token) - 100 for token in row if token >= 100]
            own = [picture for i in inside for picture in seen(i)]
            assert len(own) <= 2 and not images[len(own) :].any()
            assert all(map(np.array_equal, images, own))
            found.update(inside)
    assert found == Counter(range(30))


def test_rows_with_pictures_go_on_where_they_stopped():
    source = rows_with_pictures(shown(30))
    next(source)
    state = json.loads(json.dumps(source.get_state()))
    wanted = [next(source) for _ in range(9)]
    again = rows_with_pictures(shown(30))
    again.set_state(state)
    assert all(same(batch, next(again)) for batch in wanted)
    with pytest.raises(ValueError, match="slots was 2, here it is 3"):
        rows_with_pictures(shown(30), slots=3).set_state(state)


def test_pictures_that_do_not_fit_their_rows_are_refused():
    with pytest.raises(ImageMismatch, match="slots=2"):
        rows_with_pictures(shown(3), slots=1)
    with pytest.raises(ImageMismatch, match="whole|runs"):
        rows_with_pictures([([1, 7, 7], [0, 1, 1])])
    with pytest.raises(ImageMismatch, match="images"):
        next(rows_with_pictures(shown(6), lambda i: seen(i)[:1]))


@pytest.mark.parametrize("length", [0, -1, 2.5])
def test_rows_of_no_length_are_refused(length):
    """Cut to nothing, examples fitted in for ever; cut to less, none came."""
    with pytest.raises(ValueError, match=f"length={length}: pass a whole number"):
        prompt_batches.packed_rows(
            [([1, 2, 3], [0, 1, 1])], batch=1, length=length, seed=0, truncate=True
        )


@pytest.mark.parametrize(
    "tokens", [[3.5, 4.0], np.array([3.0, 4.0]), ["3", "4"], np.array([3, 2**31])]
)
def test_tokens_that_are_no_ids_are_refused_and_not_cut_to_some(tokens):
    with pytest.raises(ValueError, match="Example 1 has tokens of .*token ids"):
        prompt_batches.packed_rows(
            [([3, 4], [0, 1]), (tokens, [0, 1])], batch=1, length=8, seed=0
        )


@pytest.mark.parametrize("name", ["batch", "epochs", "length"])
@pytest.mark.parametrize("number", [0, -1, 1.5, 2.0, "2"])
def test_what_is_counted_is_a_whole_number(name, number):
    settings = {"batch": 1, "length": 8, "seed": 0} | {name: number}
    with pytest.raises(ValueError, match=f"{name}=.*whole number from 1"):
        prompt_batches.packed_rows([([3, 4], [0, 1])], **settings)
