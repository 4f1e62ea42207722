"""GGUF files that gguf's own writer makes, whole, damaged and made up by hand."""

import struct
import tracemalloc

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gguf import made, small_tokenizer

from helpers.model import gguf as gguf_files
from helpers.model import gguf_file
from helpers.model.gguf_file import READ, GGUFError, GGUFFile

KIND = gguf.GGMLQuantizationType
# What gguf can write from numbers; it reads more.
WRITTEN = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0".split()


def write(path, tensors, fields=(), arch="llama"):
    """tensors: {name: (float32 array, kind)}."""
    writer = gguf.GGUFWriter(path, arch)
    for add, key, value in fields:
        getattr(writer, f"add_{add}")(key, value)
    for name, (numbers, kind) in tensors.items():
        stored = gguf.quantize(numbers, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


FIELDS = [
    ("uint8", "a.small", 200),
    ("int64", "a.large", -(2**40)),
    ("float32", "a.share", 0.25),
    ("bool", "a.flag", True),
    ("string", "a.text", "Größe <|im_end|>"),
    ("array", "a.words", ["", "zwei", "三"]),
    ("array", "a.numbers", [1, 2, 3]),
    ("array", "a.shares", [0.5, -2.0]),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rng = np.random.default_rng(0)
    tensors = {
        f"blk.{i}.{kind}": (rng.normal(size=(i + 1, 64)).astype(np.float32), KIND[kind])
        for i, kind in enumerate(WRITTEN)
    }
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    return write(path, tensors, FIELDS), tensors


def test_metadata_and_numbers_are_those_that_gguf_wrote(written):
    path, tensors = written
    file = GGUFFile(path)
    for _, key, value in FIELDS:
        assert file.fields[key] == value
    assert file.fields["general.architecture"] == "llama"
    assert list(file.entries) == list(tensors)
    reader = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name, (numbers, kind) in tensors.items():
        read = file.array(name)
        expected = gguf.dequantize(reader[name].data, reader[name].tensor_type)
        np.testing.assert_array_equal(read, expected.reshape(numbers.shape))
        assert read.dtype == np.float32 and file.entries[name].kind == kind
        worst = {"F32": 0, "F16": 2e-3, "BF16": 2e-2, "Q8_0": 2e-2}.get(kind.name, 0.5)
        assert abs(read - numbers).max() <= worst


def four_bits(block):
    """256 numbers of a Q4_K block, as llama.cpp's format lays them out."""
    (d, least), scales = np.frombuffer(block[:4], "<f2").astype(float), block[4:16]
    numbers = []
    for j in range(8):
        if j < 4:
            scale, offset = scales[j] & 63, scales[j + 4] & 63
        else:
            scale = scales[j + 4] & 15 | scales[j - 4] >> 6 << 4
            offset = scales[j + 4] >> 4 | scales[j] >> 6 << 4
        for byte in block[16 + 32 * (j // 2) :][:32]:
            q = byte >> 4 if j % 2 else byte & 15
            numbers.append(d * scale * q - least * offset)
    return numbers


def six_bits(block):
    """256 numbers of a Q6_K block, as llama.cpp's format lays them out."""
    scales = np.frombuffer(block[192:208], np.int8).astype(float)
    (d,) = np.frombuffer(block[208:], "<f2").astype(float)
    numbers = []
    for half in range(2):
        low, high = block[64 * half :][:64], block[128 + 32 * half :][:32]
        for quarter in range(4):
            for i in range(32):
                byte = low[i + 32 * (quarter % 2)]
                q = byte >> 4 if quarter > 1 else byte & 15
                q |= (high[i] >> 2 * quarter & 3) << 4
                scale = scales[8 * half + 2 * quarter + i // 16]
                numbers.append(d * scale * (q - 32))
    return numbers


def blocks(kind, rows, rng):
    """Random stored rows of 512 numbers whose halves (f2) are finite: uint8."""
    size, of_bytes = gguf.GGML_QUANT_SIZES[KIND[kind]]
    stored = rng.integers(0, 256, (rows, 512 // size, of_bytes), dtype=np.uint8)
    for at in {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(kind, (0, 2)):
        halves = rng.normal(size=(rows, 512 // size, 1)).astype("<f2")
        stored[..., at : at + 2] = halves.view(np.uint8)
    return stored.reshape(rows, -1)


@pytest.mark.parametrize("kind", [k.name for k in READ if k.name not in WRITTEN])
def test_blocks_that_gguf_only_reads_are_read(kind, tmp_path, monkeypatch):
    """Those of files that most people have: Q4_K_M is Q4_K with some of Q6_K."""
    monkeypatch.setattr(gguf_file, "AT_ONCE", 1_024)  # two rows
    stored = blocks(kind, 5, np.random.default_rng(3))
    writer = gguf.GGUFWriter(tmp_path / "k.gguf", "llama")
    writer.add_tensor("before", np.ones((3, 32), np.float32))
    writer.add_tensor("blocks", stored, raw_dtype=KIND[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = GGUFFile(tmp_path / "k.gguf").array("blocks")
    assert read.shape == (5, 512) and read.dtype == np.float32
    np.testing.assert_array_equal(read, gguf.dequantize(stored, KIND[kind]))
    by_hand = {"Q4_K": four_bits, "Q6_K": six_bits}.get(kind)
    if by_hand:
        of_bytes = gguf.GGML_QUANT_SIZES[KIND[kind]][1]
        each = [bytes(block) for block in stored.reshape(-1, of_bytes)]
        expected = np.reshape([by_hand(block) for block in each], read.shape)
        np.testing.assert_allclose(read, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_off_anywhere_is_refused(written, share, tmp_path_factory):
    whole = written[0].read_bytes()
    cut = tmp_path_factory.mktemp("cut") / "cut.gguf"
    cut.write_bytes(whole[: int(share * len(whole) * 0.999)])
    with pytest.raises(GGUFError, match="damaged or cut off|no GGUF"):
        GGUFFile(cut)


MOST = sum(len(value) for kind, _, value in FIELDS if kind == "array")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_file_with_other_bytes_is_read_or_refused(written, data, tmp_path_factory):
    """No other error, no room made for what is not there, and no lists without end."""
    content = bytearray(written[0].read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, 1_500))
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("other") / "other.gguf"
    path.write_bytes(content)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gguf_file, "MOST_VALUES", MOST)
            file = GGUFFile(path)
        lists = [x for x in file.fields.values() if isinstance(x, list)]
        assert sum(map(len, lists)) <= MOST
        for name in file.entries:
            assert file.array(name).nbytes <= 16 * len(content)
    except GGUFError as error:
        assert len(str(error)) < 600


def text(value):
    return struct.pack("<Q", len(value)) + value


def head(tensors=0, pairs=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def row(name=b"x", sizes=(32,), kind=0, place=0):
    sizes = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + sizes + struct.pack("<IQ", kind, place)


PAD = bytes(4096)
HOSTILE = {
    "no GGUF file": b"PK\x03\x04" + PAD,
    "40 bytes|no GGUF file": b"GGUF",
    "version 1;": head(version=1) + PAD,
    "version 3 in the other byte order": head(version=3 << 24) + PAD,
    "1152921504606846976 metadata values": head(pairs=2**60) + PAD,
    "1152921504606846976 tensors": head(tensors=2**60) + PAD,
    "more bytes of text": head(pairs=1) + struct.pack("<Q", 2**62) + PAD,
    "no UTF-8": head(pairs=1) + text(b"\xff\xfe") + PAD,
    "unknown type, 77": head(pairs=1) + text(b"k") + struct.pack("<I", 77) + PAD,
    "18446744073709551615 strings": head(pairs=1)
    + text(b"k")
    + struct.pack("<IIQ", 9, 8, 2**64 - 1)
    + PAD,
    "numbers in an array": head(pairs=1)
    + text(b"k")
    + struct.pack("<IIQ", 9, 6, 2**61)
    + PAD,
    "array of type 9": head(pairs=1) + text(b"k") + struct.pack("<IIQ", 9, 9, 1) + PAD,
    "'k' twice": head(pairs=2) + 2 * (text(b"k") + struct.pack("<IB", 0, 1)) + PAD,
    "two tensors of one name": head(tensors=2) + row() + row(place=128) + PAD,
    "with 0 axes": head(tensors=1) + row(sizes=()) + PAD,
    "with 200 axes": head(tensors=1) + row(sizes=(1,) * 200) + PAD,
    "without numbers": head(tensors=1) + row(sizes=(0, 3)) + PAD,
    "bytes before 'x' does": head(tensors=1) + row(sizes=(2**40, 2**40)) + PAD,
    "before 'x' does": head(tensors=1) + row(place=2**62) + PAD,
    "in IQ2_XXS": head(tensors=1) + row(kind=16) + PAD,
    "in type 999": head(tensors=1) + row(kind=999) + PAD,
    "broken blocks of Q8_0": head(tensors=1) + row(sizes=(31,), kind=8) + PAD,
    "where another tensor is": head(tensors=2) + row() + row(b"y", place=96) + PAD,
    "'x' where another tensor is": head(tensors=1) + row(place=7) + PAD,
    "aligns its tensors to 0": head(pairs=1)
    + text(b"general.alignment")
    + struct.pack("<II", 4, 0)
    + PAD,
}


@pytest.mark.parametrize("said", HOSTILE)
def test_what_cannot_be_is_refused_by_name(said, tmp_path):
    path = tmp_path / "hostile.gguf"
    path.write_bytes(HOSTILE[said])
    with pytest.raises(GGUFError, match=said):
        GGUFFile(path)


def numbers(count, kind=3, key=b"k", size=2):
    """A pair of metadata: a list of so many numbers, int16 by themselves."""
    return text(key) + struct.pack("<IIQ", 9, kind, count) + bytes(count * size)


ENDLESS = {  # of each, Python would make some ten times as many bytes
    "4,194,305 values in lists": head(pairs=2) + numbers(1, key=b"j") + numbers(2**22),
    "4,194,306 values in lists": head(pairs=1) + numbers(2**22 + 2, kind=8, size=8),
    "65,537 metadata values": head(pairs=2**16 + 1) + bytes(13 * 2**17),
    "65,537 tensors": head(tensors=2**16 + 1) + bytes(32 * 2**17),
}


@pytest.mark.parametrize("said", ENDLESS)
def test_a_file_of_more_values_than_any_model_has_is_refused_unread(said, tmp_path):
    path = tmp_path / "endless.gguf"
    path.write_bytes(ENDLESS[said])
    tracemalloc.start()
    with pytest.raises(GGUFError, match=f"{said}.* take another one"):
        GGUFFile(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100_000


def test_lists_as_long_as_those_of_the_largest_vocabulary_are_read(tmp_path):
    """Gemma 3: 262,144 entries, kinds and scores, and 514,906 merges."""
    lists = [numbers(262_144, key=key) for key in (b"a", b"b", b"c")]
    lists.append(numbers(514_906, key=b"d"))
    path = tmp_path / "gemma.gguf"
    path.write_bytes(head(pairs=4) + b"".join(lists) + PAD)
    assert list(map(len, GGUFFile(path).fields.values())) == [*[262_144] * 3, 514_906]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(GGUFError, match="is a folder: pass the GGUF file in it"):
        gguf_files.to_folder(tmp_path, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_two_tensors_side_by_side_are_fine(tmp_path):
    path = tmp_path / "fine.gguf"
    path.write_bytes(head(tensors=2) + row(place=128) + row(b"y") + PAD)
    file = GGUFFile(path)
    assert list(file.entries) == ["x", "y"]
    assert file.entries["x"].begin == file.entries["y"].begin + 128


def test_numbers_that_are_not_finite_and_missing_tensors_are_refused(tmp_path):
    numbers = np.full((1, 32), np.nan, np.float32)
    file = GGUFFile(write(tmp_path / "nan.gguf", {"x": (numbers, KIND.F32)}))
    with pytest.raises(GGUFError, match="x of .* not finite"):
        file.array("x")
    with pytest.raises(GGUFError, match="no tensor y"):
        file.array("y")


def test_a_file_that_shrinks_after_it_was_opened_is_refused(tmp_path):
    numbers = np.ones((4, 32), np.float32)
    path = write(tmp_path / "x.gguf", {"x": (numbers, KIND.F32)})
    file = GGUFFile(path)
    path.write_bytes(path.read_bytes()[:-256])
    with pytest.raises(GGUFError, match="cut off while"):
        file.array("x")


@pytest.mark.parametrize("kind, number", [("F32", 0), ("F16", 1), ("Q8_0", 7)])
def test_a_file_says_what_its_numbers_are(kind, number, tmp_path):
    """The numbers of llama.h's enum; the version is a must where there are blocks."""
    gguf_files.save(made("qwen2"), tmp_path / "m.gguf", small_tokenizer(), kind)
    fields = GGUFFile(tmp_path / "m.gguf").fields
    assert fields["general.file_type"] == number
    assert fields["general.quantization_version"] == 2


@pytest.mark.parametrize("at_once", [1, 64, 200, 2**24])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_numbers_read_a_few_rows_at_once_are_those_read_together(
    kind, at_once, tmp_path, monkeypatch
):
    gguf_files.save(made("qwen2"), tmp_path / "m.gguf", small_tokenizer(), kind)
    monkeypatch.setattr(gguf_file, "AT_ONCE", at_once)
    file = GGUFFile(tmp_path / "m.gguf")
    for tensor in gguf.GGUFReader(tmp_path / "m.gguf").tensors:
        whole = gguf.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(file.array(tensor.name), whole)
