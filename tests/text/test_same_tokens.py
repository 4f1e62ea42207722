"""Two tokenizers told apart: by size, by number, by how they cut, wrap and end."""

import json
import shutil

import pytest

from helpers.runtime import ROOT
from helpers.text import load_tokenizer, require_same_tokens

SHIPPED = ROOT / "data" / "tiny"


@pytest.fixture(scope="module")
def ours():
    return load_tokenizer(SHIPPED / "student_base")


@pytest.fixture
def changed(tmp_path):
    """Loads the same tokenizer after `change(table)` of its tokenizer.json."""

    def load(change):
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            shutil.copy(SHIPPED / "student_base" / name, tmp_path)
        shutil.copy(SHIPPED / "student_base" / "chat_template.jinja", tmp_path)
        table = json.loads((tmp_path / "tokenizer.json").read_text())
        change(table)
        (tmp_path / "tokenizer.json").write_text(json.dumps(table))
        return load_tokenizer(tmp_path)

    return load


def test_teacher_and_student_of_the_course_speak_in_the_same_tokens(ours, changed):
    require_same_tokens(ours, load_tokenizer(SHIPPED / "grpo"))
    require_same_tokens(ours, changed(lambda table: None))


def test_another_number_of_entries_is_refused(ours):
    food = load_tokenizer(SHIPPED / "food_grpo")
    with pytest.raises(ValueError, match="has 673 entries, the teacher's 558"):
        require_same_tokens(ours, food)


def test_two_words_that_change_places_are_refused_by_their_names(ours, changed):
    def swap(table):
        words = table["model"]["vocab"]
        words["1"], words["2"] = words["2"], words["1"]

    one, two = ours.get_vocab()["1"], ours.get_vocab()["2"]
    assert one < two, "entries are compared in their order"
    says = f"'1' is entry {one} for the student, {two} for the teacher"
    with pytest.raises(ValueError, match=says):
        require_same_tokens(ours, changed(swap))


def test_the_same_entries_put_together_differently_are_refused(ours, changed):
    def forget(table):
        table["model"]["merges"] = []

    with pytest.raises(ValueError, match="cut or wrap"):
        require_same_tokens(ours, changed(forget))


def test_another_template_is_refused(ours, changed):
    other = changed(lambda table: None)
    other.chat_template = other.chat_template.replace("model", "assistant")
    with pytest.raises(ValueError, match="cut or wrap"):
        require_same_tokens(ours, other)


def test_another_end_of_text_is_refused(ours, changed):
    other = changed(lambda table: None)
    other.eos_token = "<unk>"
    with pytest.raises(ValueError, match="answers end with"):
        require_same_tokens(ours, other)
