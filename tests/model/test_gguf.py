"""Models by way of GGUF files: what is read computes what was written."""

import copy
import json
import os
import re
import struct
import subprocess
import tracemalloc

import gemma4_shapes
import gguf
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gguf import GEMMA, SIZES, logits, made, small_tokenizer

from helpers.model import folder as folders
from helpers.model import gguf as gguf_files
from helpers.model import gguf_names, lora, weights
from helpers.model.config import ModelConfig
from helpers.model.folder import WeightsError
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import Stretch, rotary, rotate
from helpers.model.transformer import named_arrays
from helpers.text import gguf_tokenizer

# Each switch of Gemma 4, where llama.cpp takes the keys that a sharing layer takes.
GEMMA4S = [
    {"sharing": 0, "double_wide": False, "softcap": 0.0, "turned": None} | changes
    for name, changes in gemma4_shapes.ALONE.items()
    if name not in ("shared keys", "double wide", "uneven layers", "no local layers")
]
GEMMA4S += [{"sharing": 4, "kinds": "lflllf"}]
GEMMA4S += [gemma4_shapes.E2B | {"full_head_dim": 16}]


def through(model, tok, folder, kind="F32"):
    gguf_files.save(model, folder / "model.gguf", tok, kind)
    return weights.load(gguf_files.to_folder(folder / "model.gguf", folder / "hf"))


KINDS_OF_MODELS = [
    *((family, {"tied": True}) for family in tiny_models.FAMILIES),
    *((family, {"tied": False}) for family in ("llama", "qwen2", "qwen3")),
    ("llama", {"stretch": Stretch("llama3", 8.0), "rope_theta": 5e5}),
    ("llama", {"stretch": Stretch("linear", 4.0)}),
    ("gemma3_text", {"stretch": Stretch("linear", 8.0)}),
    *(("gemma4_text", changes) for changes in GEMMA4S),
]


@pytest.mark.parametrize("family, changes", KINDS_OF_MODELS)
def test_what_is_read_computes_what_was_written(family, changes, tmp_path):
    model = made(family, **changes)
    read = through(model, small_tokenizer(), tmp_path)
    assert read.config == model.config
    np.testing.assert_allclose(logits(read), logits(model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind, off", [("F16", 2e-3), ("Q8_0", 2e-2)])
@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_fewer_bits_are_off_by_little_and_only_in_matrices(family, kind, off, tmp_path):
    model = made(family)
    read = through(model, small_tokenizer(), tmp_path, kind)
    theirs = dict(named_arrays(nnx.state(read)))
    for path, x in named_arrays(nnx.state(model)):
        gap = float(abs(x - theirs[path]).max() / abs(x).max())
        is_matrix = path[-1] in lora.ATTENTION + lora.MLP + ("embed", "head")
        assert gap < off and (gap < 1e-6) == (not is_matrix), path


def test_a_llamas_rows_are_turned_in_pairs(tmp_path):
    """llama.cpp turns channels (0, 1), (2, 3), …; transformers the two halves."""
    model = made("llama")
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    reader = {t.name: t.data for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    x, positions = np.random.default_rng(0).normal(size=(5, 64)), np.arange(5)

    def scores_in_pairs():
        turned = []
        for name, heads in (("attn_q", 2), ("attn_k", 1)):
            made = (x @ reader[f"blk.0.{name}.weight"].T).reshape(5, heads, 16, 2)
            angle = positions[:, None, None] * 300.0 ** -(np.arange(0, 32, 2) / 32)
            as_complex = (made[..., 0] + 1j * made[..., 1]) * np.exp(1j * angle)
            turned.append(as_complex)
        return np.einsum("qhd,kod->hqk", turned[0], turned[1].conj()).real

    def scores_in_halves():
        cos_sin = rotary(positions[None, None], 300.0 ** -(np.arange(0, 32, 2) / 32))
        turned = []
        for name, heads in (("q", 2), ("k", 1)):
            made = x @ np.asarray(weight(name))
            made = made.reshape(1, 1, 5, heads, 32).swapaxes(2, 3)
            turned.append(rotate(jnp.asarray(made), cos_sin))
        return np.einsum("hqd,okd->hqk", turned[0][0, 0], turned[1][0, 0])

    def weight(name):
        return dict(named_arrays(nnx.state(model)))[("layers", name)][0]

    np.testing.assert_allclose(
        scores_in_pairs(), scores_in_halves(), rtol=1e-4, atol=1e-4
    )


def test_gemmas_norms_hold_their_one(tmp_path):
    model = made("gemma3_text")
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    reader = {t.name: t.data for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    stacked = dict(named_arrays(nnx.state(model)))
    for ours, theirs in {
        "attention_norm": "attn_norm",
        "q_norm": "attn_q_norm",
        "post_attention_norm": "post_attention_norm",
        "ff_norm": "ffn_norm",
        "post_ff_norm": "post_ffw_norm",
    }.items():
        np.testing.assert_allclose(
            reader[f"blk.1.{theirs}.weight"], 1 + stacked["layers", ours][1], rtol=1e-6
        )


@pytest.mark.parametrize("is_adapted", [False, True])
@pytest.mark.parametrize("kind", [None, "int8", "nf4 double"])
def test_adapters_and_codes_go_into_the_file(kind, is_adapted, tmp_path):
    model = made("qwen3")
    model = lora.quantize(model, kind) if kind else model
    model = tiny_models.adapted(model) if is_adapted else model
    read = through(model, small_tokenizer(), tmp_path)
    np.testing.assert_allclose(logits(read), logits(model), rtol=1e-4, atol=1e-4)


@st.composite
def configs(draw):
    family = draw(st.sampled_from(tiny_models.FAMILIES))
    gemma, heads = family == "gemma3_text", draw(st.sampled_from([2, 4, 8]))
    layers = draw(st.sampled_from([1, 6, 26, 62] if gemma else [1, 6, 62]))
    width, head_dim = 16 * heads, draw(st.sampled_from([8, 16, 64]))
    stretches = [None, Stretch("linear", 8.0)]
    if family == "llama":
        stretches += [Stretch("llama3", 8.0), Stretch("llama3", 32.0)]
    stretch = draw(st.sampled_from(stretches))
    theta = draw(st.sampled_from([1e4, 1e5, 5e5, 1e6]))
    if stretch and stretch.kind == "llama3":  # of slow enough waves to tell its factor
        head_dim, theta = 64, 5e5
    return ModelConfig(
        family=family,
        vocab_size=draw(st.integers(3, 300)),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=draw(st.sampled_from([1, 2, heads])),
        head_dim=head_dim,
        ff=draw(st.integers(1, 99)),
        window=draw(st.integers(1, 4096)) if gemma else 0,
        pattern=6 if gemma else 1,
        rope_theta=theta,
        stretch=stretch,
        max_positions=draw(st.integers(1, 2**20)),
        query_scale=(width / heads if layers == 62 else head_dim) if gemma else 0.0,
        norm_eps=draw(st.sampled_from([1e-5, 1e-6, 9e-7])),
        tied=gemma or draw(st.booleans()),
    )


class Waves:
    """As an Entry, of `rope_freqs.weight` in a `Made`."""

    def __init__(self, file):
        self.file = file

    @property
    def shape(self):
        return self.file.shape_of_rope


class Made:
    """As GGUFFile, of a head only."""

    path = "made.gguf"

    def __init__(self, config):
        self.fields = {
            # As they come out of the file.
            key: float(np.float32(x)) if isinstance(x, float) else x
            for key, x in gguf_names.config_fields(config).items()
        }
        name = gguf_names.ARCHITECTURES[config.family]
        self.fields["general.architecture"] = name
        own = config.gemma4  # `names.tensors` would trace a model
        without = own and own.keys_are_values
        self.entries = {f"blk.{i}.attn_q.weight": None for i in range(config.layers)}
        self.entries |= {
            f"blk.{i}.attn_v.weight": None
            for i in range(config.layers)
            if not (without and own.kinds[i] == "full")
        }
        self.entries["token_embd.weight"] = self
        self.shape = (config.vocab_size, config.width)
        self.factors = gguf_names.slowed(config)
        if not config.tied:
            self.entries["output.weight"] = self
        if self.factors is not None:
            self.shape_of_rope = self.factors.shape
            self.entries[gguf_names.ROPE] = Waves(self)

    def array(self, name):
        assert name == gguf_names.ROPE
        return self.factors


@settings(max_examples=200, deadline=None)
@given(configs())
def test_every_shape_comes_back_as_it_was(config):
    assert gguf_names.read_config(Made(config)) == config


@settings(max_examples=300, deadline=None)
@given(config=configs(), data=st.data())
def test_metadata_that_cannot_be_are_refused(config, data):
    file = Made(config)
    key = data.draw(st.sampled_from(sorted(file.fields)))
    strange = [None, -1, 0, 2**40, "x", [1], True, float("nan"), float("inf")]
    file.fields[key] = data.draw(st.sampled_from(strange))
    try:
        read = gguf_names.read_config(file)
    except ValueError as error:  # of ours, and of ModelConfig
        assert len(str(error)) > 20
    else:
        # Or any number above 0 would do.
        unread = ("vocab_size", "scaling.type", "factor", "epsilon", "freq_base")
        missing = file.fields[key] is None
        assert read == config or missing or key.endswith(unread), key


def test_a_gemma_has_the_pattern_and_the_local_base_that_its_file_names():
    """Newer llama.cpp read both keys, as `make gguf-check` found."""
    file = Made(tiny_models.config("gemma3_text", **SIZES | GEMMA))
    file.fields["gemma3.attention.sliding_window_pattern"] = 2
    file.fields["gemma3.rope.freq_base_swa"] = 20.0
    read = gguf_names.read_config(file)
    assert (read.pattern, read.rope_local_theta) == (2, 20.0)
    file.fields["gemma3.attention.sliding_window_pattern"] = [True, False]
    with pytest.raises(GGUFError, match="sliding_window_pattern is .*no size"):
        gguf_names.read_config(file)


@pytest.mark.parametrize("family", ["llama", "gemma4_text"])
def test_numbers_that_llama_cpp_reads_as_real_are_written_so(family, tmp_path):
    """Also where a config has a whole one; of another type they would be refused."""
    changes = {"softcap": 30}
    if family == "llama":
        changes = {"rope_theta": 500, "norm_eps": 1, "stretch": Stretch("linear", 4)}
    gguf_files.save(made(family, **changes), tmp_path / "m.gguf", small_tokenizer())
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    found = {key.partition(".")[2]: field.types for key, field in fields.items()}
    real = {key: types for key, types in found.items() if key in gguf_files.REAL}
    assert len(real) >= 3
    assert set(map(tuple, real.values())) == {(gguf.GGUFValueType.FLOAT32,)}


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_a_factor_of_no_kind_is_a_linear_one_as_in_llama_cpp(key):
    """llama-model.cpp: the kind is "linear" where nothing is said."""
    file = Made(tiny_models.config("llama", **SIZES))
    file.fields[f"llama.{key}"] = 4.0
    assert gguf_names.read_config(file).stretch == Stretch("linear", 4.0)
    file.fields["llama.rope.scaling.type"] = "none"
    assert gguf_names.read_config(file).stretch is None
    slow = Made(
        tiny_models.config(
            "llama", **SIZES | {"rope_theta": 5e5}, stretch=Stretch("llama3", 8.0)
        )
    )
    slow.fields[f"llama.{key}"] = 4.0
    with pytest.raises(GGUFError, match="divided a second time"):
        gguf_names.read_config(slow)


REFUSED = {
    "architecture 'gpt2', not llama": {"general.architecture": "gpt2"},
    "one part of 3": {"split.count": 3},
    "expert_count=8": {"llama.expert_count": 8},
    "attn_logit_softcapping=50.0": {"llama.attn_logit_softcapping": 50.0},
    "rope scaling 'yarn'": {"llama.rope.scaling.type": "yarn"},
    "rope.scaling.attn_factor=0.5": {"llama.rope.scaling.attn_factor": 0.5},
    "rope.dimension_count is not 32": {"llama.rope.dimension_count": 16},
    "head_count is .4, 2.: no size": {"llama.attention.head_count": [4, 2]},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_this_decoder_does_not_do_is_refused_by_name(said):
    file = Made(tiny_models.config("llama", **SIZES))
    file.fields |= REFUSED[said]
    with pytest.raises(GGUFError, match=said):
        gguf_names.read_config(file)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"pattern": 2}, "pattern=2, and llama.cpp gives every Gemma 3"),
        ({"rope_local_theta": 20.0}, "rope_local_theta=20.0"),
        ({"query_scale": 9.0}, "attention_scale"),
    ],
)
def test_a_gemma_that_llama_cpp_would_run_otherwise_is_not_written(
    change, said, tmp_path
):
    with pytest.raises(GGUFError, match=said):
        gguf_files.save(
            made("gemma3_text", **change), tmp_path / "m.gguf", small_tokenizer()
        )
    assert not list(tmp_path.iterdir())


def test_a_file_of_other_tensors_makes_no_folder(tmp_path):
    """A tensor that is missing, has another shape, or is one too many."""
    model = made("llama", tied=True)
    whole = {"path": tmp_path / "m.gguf", "tok": small_tokenizer()}
    gguf_files.save(model, whole["path"], small_tokenizer(), "F32")
    file = GGUFFile(whole["path"])
    places = gguf_names.tensors(model.config)

    def refusal(entries):
        file.entries = entries
        with pytest.raises(GGUFError) as error:
            gguf_files._check_tensors(file, places, model.config)
        return str(error.value)

    entries = dict(file.entries)
    name = "blk.2.ffn_up.weight"
    missing = {k: v for k, v in entries.items() if k != name}
    assert f"{name} should have shape (96, 64), and has none" in refusal(missing)
    wide = entries | {name: entries[name]._replace(shape=(96, 65))}
    assert "and has (96, 65)" in refusal(wide)
    assert "1 tensors that a llama has no place for" in refusal(
        entries | {"blk.7.x": entries[name]}
    )


def test_an_added_token_without_an_embedding_is_left_out(tmp_path):
    tokenizer = copy.deepcopy(small_tokenizer())
    tokenizer.add_tokens(["<one more>"])
    gguf_files.save(made("llama"), tmp_path / "m.gguf", tokenizer, "F32")
    gguf_files.to_folder(tmp_path / "m.gguf", tmp_path / "hf")
    assert weights.load(tmp_path / "hf").config.vocab_size == len(tokenizer) - 1


def test_more_entries_than_embeddings_are_refused(tmp_path, monkeypatch):
    model = made("llama", vocab=tiny_models.VOCAB - 2)
    with pytest.raises(GGUFError, match="has 19 tokens, and the model 17"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    write = gguf_files._write

    def with_fewer_rows(path, config, fields, tensors, kind):
        """As another program may have written it."""
        for name in "model.embed_tokens.weight", "lm_head.weight":
            tensors[name] = tensors[name][:-2]
        write(path, config, fields, tensors, kind)

    monkeypatch.setattr(gguf_files, "_write", with_fewer_rows)
    gguf_files.save(made("llama"), tmp_path / "m.gguf", small_tokenizer(), "F32")
    with pytest.raises(GGUFError, match="19 entries .* embeddings of 17"):
        gguf_files.to_folder(tmp_path / "m.gguf", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize(
    "template, said",
    [
        (
            "{{ 'x' * 9999999999 }} and more text<|end|>",
            "needs more than 10 seconds, 2 GiB",
        ),
        (
            "{{ raise_exception('y' * 5000) }} and more",
            "chat template cannot be used: y{200}\\. Fetch",
        ),
    ],
)
def test_a_hostile_template_is_refused_and_nothing_is_written(template, said, tmp_path):
    path, tokenizer = tmp_path / "m.gguf", copy.deepcopy(small_tokenizer())
    tokenizer.chat_template = tokenizer.chat_template.ljust(len(template))
    gguf_files.save(made("llama"), path, tokenizer, "F32")
    raw, fine = path.read_bytes(), tokenizer.chat_template.encode()
    assert raw.count(fine) == 1 and len(fine) == len(template)
    path.write_bytes(raw.replace(fine, template.encode()))  # `save` would render it
    with pytest.raises(GGUFError, match=said):
        gguf_files.to_folder(path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("layers", [1000, 2**31 - 1])
def test_more_layers_than_tensors_are_refused_before_each_gets_a_name(
    layers, tmp_path, monkeypatch
):
    path = tmp_path / "m.gguf"
    gguf_files.save(made("llama"), path, small_tokenizer(), "F32")
    key, number = (
        b"llama.block_count",
        struct.pack("<II", 4, made("llama").config.layers),
    )
    raw = path.read_bytes()
    assert raw.count(key + number) == 1
    path.write_bytes(raw.replace(key + number, key + struct.pack("<II", 4, layers)))
    monkeypatch.setattr(gguf_files.gguf_names, "tensors", None)  # to call it would fail
    with pytest.raises(GGUFError, match=f"names {layers:,} layers"):
        gguf_files.to_folder(path, tmp_path / "hf")


def test_rows_without_an_entry_are_kept(tmp_path):
    model = made("llama", vocab=tiny_models.VOCAB + 5)
    read = through(model, small_tokenizer(), tmp_path)
    assert read.embed.shape == model.embed.shape
    fields = GGUFFile(tmp_path / "model.gguf").fields
    assert fields["tokenizer.ggml.token_type"][-5:] == 5 * [gguf_tokenizer.UNUSED]


def test_a_disk_that_says_no_leaves_the_old_file(tmp_path, monkeypatch):
    model, path = made("llama"), tmp_path / "m.gguf"
    path.write_bytes(b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", full)
    with pytest.raises(GGUFError, match="No space left.*save again"):
        gguf_files.save(model, path, small_tokenizer())
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_what_killed_saves_of_a_file_left_goes_with_the_next_one(tmp_path):
    """Also under the number of this process, which a container gives to every run."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    lost = [f".part-{number}-m.gguf" for number in (gone.pid, os.getpid())]
    others = [f".part-{os.getppid()}-m.gguf", f".part-{gone.pid}-other.gguf", "m.part"]
    for name in lost + others:
        (tmp_path / name).write_bytes(b"half")
    gguf_files.save(made("llama"), tmp_path / "m.gguf", small_tokenizer())
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {*others, "m.gguf"}


def test_a_part_that_is_being_filled_is_not_taken_for_one_that_was_left(
    tmp_path, monkeypatch
):
    fill, path = gguf_files._fill, tmp_path / "m.gguf"

    def looked_at(aside, *rest):
        fill(aside, *rest)
        pattern = re.compile(r"\.part-(\d+)-m\.gguf")
        assert aside.exists() and folders.left(tmp_path, pattern) == []

    monkeypatch.setattr(gguf_files, "_fill", looked_at)
    gguf_files.save(made("llama"), path, small_tokenizer())
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_a_template_is_read_and_ends_with_the_text(tmp_path):
    tok = copy.deepcopy(small_tokenizer())
    tok.chat_template = None
    gguf_files.save(made("llama"), tmp_path / "m.gguf", tok, "F32")
    gguf_files.to_folder(tmp_path / "m.gguf", tmp_path / "hf")
    said = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    assert said["eos_token_id"] == tok.eos_token_id


def test_kinds_and_numbers_that_cannot_be_written_are_refused(
    tmp_path,
):
    model = made("llama")
    with pytest.raises(GGUFError, match="'Q4_K': choose one of F32, F16, Q8_0"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "Q4_K")
    model.embed[...] = model.embed[...].at[0, 0].set(1e5)
    with pytest.raises(GGUFError, match="token_embd.weight has numbers beyond F16's"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F16")
    wide = made("llama", width=32)
    wide.embed[...] = wide.embed[...].at[0, 0].set(1e7)
    with pytest.raises(GGUFError, match="token_embd.weight has numbers beyond Q8_0's"):
        gguf_files.save(wide, tmp_path / "m.gguf", small_tokenizer(), "Q8_0")
    for strange in np.nan, np.inf:
        model.embed[...] = model.embed[...].at[0, 0].set(strange)
        with pytest.raises(WeightsError, match="embed has numbers that are not finite"):
            gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    assert not list(tmp_path.iterdir())


def test_a_save_holds_each_tensor_once(tmp_path):
    """As it is or as it will be: 16 layers in bfloat16, 12.6 MB, then half of it."""
    sizes = {"width": 256, "ff": 512, "layers": 16, "heads": 4, "kv_heads": 2}
    model = tiny_models.model("qwen3", dtype=jnp.bfloat16, **sizes | {"head_dim": 64})
    tokenizer = small_tokenizer()
    gguf_files.save(model, tmp_path / "first.gguf", tokenizer, "Q8_0")
    tracemalloc.start()
    try:
        gguf_files.save(model, tmp_path / "again.gguf", tokenizer, "Q8_0")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = 2 * sum(x.size for x in weights.folder_tensors(model).values())
    assert peak < 1.3 * size, (peak, size)
