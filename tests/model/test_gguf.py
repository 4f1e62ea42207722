"""Models by way of GGUF files: what is read computes what was written."""

import contextlib
import copy
import re
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
from small_gguf import CHATML, assert_computes, byte_pairs, made, small_tokenizer
from transformers import AutoTokenizer

from helpers.model import gguf as gguf_files
from helpers.model import lora, weights
from helpers.model.folder import WeightsError, read_json
from helpers.model.gguf import GGUFError, GGUFFile
from helpers.model.ops import Stretch
from helpers.model.transformer import named_arrays
from helpers.text import gguf_tokenizer


def through(model, tok, folder, kind="F32"):
    gguf_files.save(model, folder / "model.gguf", tok, kind)
    return weights.load(gguf_files.to_folder(folder / "model.gguf", folder / "hf"))


KINDS_OF_MODELS = [
    ("gemma3_text", {"stretch": Stretch("linear", 8.0)}),
    ("qwen2", {"tied": False}),
    ("qwen3", {"tied": True}),
    ("llama", {"stretch": Stretch("llama3", 8.0), "rope_theta": 5e5, "tied": False}),
    ("llama", {"stretch": Stretch("linear", 4.0), "tied": True}),
    ("gemma4_text", {"sharing": 4, "kinds": "lflllf"}),
    ("gemma4_text", gemma4_shapes.E2B | {"full_head_dim": 16}),
    ("gemma4_text", {"keys_are_values": True, "turned": None, "softcap": 0.0}),
]


@pytest.mark.parametrize("family, changes", KINDS_OF_MODELS)
def test_what_is_read_computes_what_was_written(family, changes, tmp_path):
    model = made(family, **changes)
    assert_computes(through(model, small_tokenizer(), tmp_path), model)


def test_a_llamas_rows_are_turned_in_pairs(tmp_path):
    """llama.cpp turns channels (0, 1), (2, 3), …; transformers the two halves."""
    model = made("llama")
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    stored, layers = GGUFFile(tmp_path / "m.gguf").array, model.layers
    for name, ours, heads in (("attn_q", layers.q, 2), ("attn_k", layers.k, 1)):
        rows = stored(f"blk.0.{name}.weight").reshape(heads, 32, 64)
        halves = np.asarray(ours[...])[0].T.reshape(heads, 32, 64)
        np.testing.assert_array_equal(rows[:, ::2], halves[:, :16])
        np.testing.assert_array_equal(rows[:, 1::2], halves[:, 16:])


def test_gemmas_norms_hold_their_one(tmp_path):
    model = made("gemma3_text")
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    stored = GGUFFile(tmp_path / "m.gguf").array
    stacked = dict(named_arrays(nnx.state(model)))
    for ours, theirs in {
        "attention_norm": "attn_norm",
        "q_norm": "attn_q_norm",
        "post_attention_norm": "post_attention_norm",
        "ff_norm": "ffn_norm",
        "post_ff_norm": "post_ffw_norm",
    }.items():
        np.testing.assert_allclose(
            stored(f"blk.1.{theirs}.weight"), 1 + stacked["layers", ours][1], rtol=1e-6
        )


@pytest.mark.parametrize(
    "change", [{"pattern": 2}, {"rope_local_theta": 20.0}, {"query_scale": 9.0}]
)
def test_a_gemma_that_llama_cpp_would_run_otherwise_is_not_written(change, tmp_path):
    model = made("gemma3_text", **change)
    with pytest.raises(GGUFError, match="and llama.cpp gives every Gemma 3"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer())
    assert not list(tmp_path.iterdir())


def test_an_added_token_without_an_embedding_is_left_out(tmp_path):
    tokenizer = copy.deepcopy(small_tokenizer())
    tokenizer.add_tokens(["<one more>"])
    gguf_files.save(made("llama"), tmp_path / "m.gguf", tokenizer, "F32")
    gguf_files.to_folder(tmp_path / "m.gguf", tmp_path / "hf")
    assert weights.load(tmp_path / "hf").config.vocab_size == len(tokenizer) - 1


def test_more_entries_than_embeddings_are_refused(tmp_path):
    model = made("llama", vocab=tiny_models.VOCAB - 2)
    with pytest.raises(WeightsError, match="token 18, and the model 17 embeddings"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")


def test_rows_without_an_entry_stay(tmp_path):
    model = made("llama", vocab=tiny_models.VOCAB + 5)
    read = through(model, small_tokenizer(), tmp_path)
    assert read.embed.shape == model.embed.shape
    fields = GGUFFile(tmp_path / "model.gguf").fields
    assert fields["tokenizer.ggml.token_type"][-5:] == 5 * [gguf_tokenizer.UNUSED]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    model, path = made("llama"), tmp_path / "m.gguf"
    path.write_bytes(b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", full)
    with pytest.raises(WeightsError, match="No space left.*save again"):
        gguf_files.save(model, path, small_tokenizer())
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_kinds_and_numbers_that_cannot_be_written_are_refused(tmp_path):
    model = made("llama")
    with pytest.raises(GGUFError, match="'Q4_K': choose one of F32, F16, Q8_0"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "Q4_K")
    model.embed[...] = model.embed[...].at[0, 0].set(1e5)
    with pytest.raises(GGUFError, match="token_embd.weight has numbers beyond F16's"):
        gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F16")
    model.embed[...] = model.embed[...].at[0, 0].set(np.nan)
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


@pytest.mark.parametrize("kind, off", [("F16", 2e-3), ("Q8_0", 2e-2)])
def test_fewer_bits_are_off_by_little_and_only_in_matrices(kind, off, tmp_path):
    model = made("llama")
    read = through(model, small_tokenizer(), tmp_path, kind)
    theirs = dict(named_arrays(nnx.state(read)))
    for path, x in named_arrays(nnx.state(model)):
        gap = float(abs(x - theirs[path]).max() / abs(x).max())
        is_matrix = path[-1] in lora.ATTENTION + lora.MLP + ("embed", "head")
        assert gap < off and (gap < 1e-6) == (not is_matrix), path
    fields = GGUFFile(tmp_path / "model.gguf").fields  # the numbers of llama.h's enum
    assert fields["general.file_type"] == {"F16": 1, "Q8_0": 7}[kind]
    assert fields["general.quantization_version"] == 2


@pytest.mark.parametrize("kind, is_adapted", [("int8", True), ("nf4 double", False)])
def test_adapters_and_codes_go_into_the_file(kind, is_adapted, tmp_path):
    model = lora.quantize(made("qwen3"), kind)
    model = tiny_models.adapted(model) if is_adapted else model
    assert_computes(through(model, small_tokenizer(), tmp_path), model)


def test_numbers_that_llama_cpp_reads_as_real_are_written_so(tmp_path):
    """Also where a config has a whole one; of another type they would be refused."""
    changes = {"rope_theta": 500, "norm_eps": 1, "stretch": Stretch("linear", 4)}
    gguf_files.save(made("llama", **changes), tmp_path / "m.gguf", small_tokenizer())
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    for key in "rope.freq_base", "rope.scaling.factor":
        assert fields[f"llama.{key}"].types == [gguf.GGUFValueType.FLOAT32]
    real = fields["llama.attention.layer_norm_rms_epsilon"]
    assert real.types == [gguf.GGUFValueType.FLOAT32]


def test_a_file_of_other_tensors_makes_no_folder(tmp_path, monkeypatch, whole):
    file, name = GGUFFile(whole), "blk.2.ffn_up.weight"
    file.shapes = {k: v for k, v in file.shapes.items() if k != name}
    monkeypatch.setattr(gguf_files, "GGUFFile", lambda path: file)
    with pytest.raises(WeightsError, match="96, 64.*, and has none"):
        gguf_files.to_folder(whole, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


# --- the container ---


def test_tensors_in_few_bits_are_decoded_in_pieces(tmp_path, monkeypatch):
    """As the package decodes them at once, rows and all."""
    monkeypatch.setattr(gguf_files, "AT_ONCE", 1_024)
    kind = gguf.GGMLQuantizationType.Q4_1
    numbers = np.random.default_rng(3).normal(size=(2, 5, 512)).astype(np.float32)
    stored = gguf.quantize(numbers, kind)
    writer = gguf.GGUFWriter(tmp_path / "k.gguf", "llama")
    writer.add_tensor("blocks", stored, raw_dtype=kind)
    writer.add_array("words", ["", "zwei", "三"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUFFile(tmp_path / "k.gguf")
    assert file.fields["words"] == ["", "zwei", "三"]
    assert file.shapes["blocks"] == (2, 5, 512)
    np.testing.assert_array_equal(file.array("blocks"), gguf.dequantize(stored, kind))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    gguf_files.save(made("llama", tied=True), path, small_tokenizer(), "F32")
    return path


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_off_anywhere_is_refused(whole, share, tmp_path_factory):
    cut = tmp_path_factory.mktemp("cut") / "cut.gguf"
    content = whole.read_bytes()
    cut.write_bytes(content[: int(share * len(content) * 0.999)])
    with pytest.raises(GGUFError, match="damaged, cut off or no GGUF.* Fetch"):
        GGUFFile(cut)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_with_other_bytes_is_read_or_refused(whole, data, tmp_path_factory):
    """No other error, and no lists without end."""
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, 1_500))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("other")
    (folder / "other.gguf").write_bytes(content)
    with contextlib.suppress(GGUFError, WeightsError):
        gguf_files.to_folder(folder / "other.gguf", folder / "hf")


def test_numbers_that_are_not_finite_and_folders_are_refused(tmp_path, whole):
    path = tmp_path / "nan.gguf"
    tensor = GGUFFile(whole)._tensors["blk.0.ffn_norm.weight"]
    content = bytearray(whole.read_bytes())
    content[tensor.data_offset : tensor.data_offset + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(content)
    with pytest.raises(WeightsError, match="ffn_norm.weight of .* not finite"):
        gguf_files.to_folder(path, tmp_path / "hf")
    with pytest.raises(GGUFError, match="is a folder: pass the GGUF file in it"):
        gguf_files.to_folder(tmp_path, tmp_path / "hf")


def test_a_file_without_a_template_is_read_and_ends_with_the_text(tmp_path):
    folder, tokenizer = tmp_path / "hf", copy.deepcopy(small_tokenizer())
    tokenizer.chat_template = None
    gguf_files.save(made("llama"), tmp_path / "m.gguf", tokenizer, "F32")
    gguf_files.to_folder(tmp_path / "m.gguf", folder)
    back = AutoTokenizer.from_pretrained(folder)  # ours wants a template
    assert (back.eos_token, len(back)) == ("<|end|>", len(tokenizer))
    settings = read_json(folder / "generation_config.json")
    assert settings["eos_token_id"] == tokenizer.eos_token_id


def test_keys_of_layers_that_share_may_stand_in_a_file_and_are_left_out():
    """Older folders of Gemma 4 have them, and llama.cpp converts what it finds."""
    config = gemma4_shapes.config("flflf", sharing=2)
    names = {f"blk.3.{name}.weight" for name in ("attn_k", "attn_v", "attn_k_norm")}
    assert names <= gguf_files.redundant(config)
    ours = weights.file_shapes(config)
    assert not names & set(gguf_files.names_of(config, ours).values())


BOS = "<|endoftext|>"
SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n"
    "{% endif %}"
)


@pytest.mark.parametrize("begin, cut", [("", "qwen2"), (SYSTEM, "qwen2")])
def test_ollama_writes_the_turns_of_the_template(begin, cut):
    assert_turns_in_modelfile(byte_pairs(cut, template=begin + CHATML), "")


def test_ollama_adds_the_begin_of_a_text_itself():
    named = {"eos_token": "<|im_end|>", "bos_token": BOS}
    template = "{{ bos_token }}" + CHATML
    tokenizer = byte_pairs("llama-bpe", template=template, first=BOS, **named)
    assert_turns_in_modelfile(tokenizer, BOS)


def assert_turns_in_modelfile(tokenizer, begin):
    """A question, and a conversation, are written as the chat template writes them."""
    text = gguf_files.modelfile(tokenizer, "own.gguf")
    assert text.startswith("FROM ./own.gguf\n") and text.count('"""') == 2
    pieces = re.split(r"\{\{ (?:range|if|else if|end)[^}]*\}\}", text.split('"""')[1])
    system, nothing, user, assistant, *rest = pieces
    assert nothing == "" and rest == ["", ""]
    parts = {"user": user, "assistant": assistant}
    talk = [("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")]
    for turns in (talk[:1], talk):
        expected = tokenizer.apply_chat_template(
            [{"role": role, "content": said} for role, said in turns],
            tokenize=False,
            add_generation_prompt=True,
        )
        said = [parts[role].replace("{{ .Content }}", text) for role, text in turns]
        assert "".join([begin, system, *said]) == expected
