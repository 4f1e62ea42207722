"""README, docs/ and the notebooks show what is kept in data/results, and agree."""

import csv
import dataclasses
import json
import math
import re
import statistics

import course_notebooks as course  # finds notebooks/readme.py, too
import jax
import jax.numpy as jnp
import pytest
import readme
import readme_decoding
import readme_gemma4
import readme_learning
import readme_left
import readme_real
from flax import nnx
from PIL import Image

from helpers.course import results
from helpers.course.syllabus import LESSONS, STAGES
from helpers.model import KNOWN, weights
from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.transformer import Transformer
from scripts import tables, tpu_cases

ROOT = course.FOLDER.parent
KEPT = ROOT / "data" / "results"


def test_readme_shows_the_results_that_are_kept():
    table = json.loads((KEPT / "walk.json").read_text())
    assert results.markdown(table) in (ROOT / "README.md").read_text()
    assert {"base", "sft", "grpo", "gspo", "student"} <= {row["stage"] for row in table}


def test_a_run_of_some_notebooks_leaves_the_other_stages_rows():
    kept = [{"stage": stage, "seed": 0, "of": "kept"} for stage in ("base", "grpo")]
    run = [{"stage": stage, "seed": 0, "of": "run"} for stage in ("grpo", "sft")]
    rows = [(row["stage"], row["of"]) for row in readme.renewed(kept, run)]
    assert rows == [("base", "kept"), ("sft", "run"), ("grpo", "run")]


def test_readme_and_docs_show_what_was_measured_last():
    """Whoever measured anew runs notebooks/readme.py."""
    for path, generated in (
        (ROOT / "README.md", readme.readme),
        (ROOT / "docs" / "compiler.md", readme.compiler),
    ):
        assert generated(path.read_text()) == path.read_text(), path.name


def test_notebooks_show_what_the_docs_show_of_the_compiler():
    shown = (ROOT / "docs" / "compiler.md").read_text().splitlines()
    found = 0
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(file.read_text())["cells"]:
            for output in cell.get("outputs", []):
                text = "".join(output.get("data", {}).get("text/markdown", ""))
                if text.startswith("Modelled by the compiler"):
                    found += 1
                    old = [x for x in text.splitlines() if x not in shown]
                    assert not old, f"{file.name} is of an older table: {old[0]}"
    assert found >= 5


def test_a_programs_time_is_summed_by_parts_and_what_is_unknown_is_the_rest():
    told = (
        "layer.Layer.project_all 5.0 4.0; layer.Layer.look 1.0 0.5; rope.rotate 2 0; "
    )
    told += "ops.rms_norm 0.5 0.25; elsewhere 3 8; gradients.whole_gradient 1 1"
    assert readme_left.grouped(told) == {
        "weights": (5, 4),
        "attention": (3, 0.5),
        "norms": (0.5, 0.25),
        "slices and copies": (3, 8),
        "rest": (1, 1),
    }


def test_gemma_4s_time_is_that_of_its_tower_its_matrices_and_its_copies():
    told = "gemma4._Walk.span 5 4; gemma4._joined 1 0; per_layer.PerLayer.rows 2 1; "
    told += "gemma4_vision.turned 3 2; gemma4.Gemma4Layer.__call__ 7 6"
    assert readme_left.grouped(told) == {
        "slices and copies": (8, 5),
        "tower": (3, 2),
        "weights": (7, 6),
    }


@pytest.mark.parametrize("shares", [False, True])
def test_a_token_leaves_in_the_cache_what_the_model_returns(shares):
    own = Gemma4Config(("local", "full") * 2, 32, 1, sharing=2)
    config = ModelConfig("qwen3", 64, 32, 4, 4, 2, 16, 48)
    if shares:
        config = dataclasses.replace(config, family="gemma4_text", window=8, gemma4=own)
    tokens = jnp.zeros((1, 1, 5), jnp.int32)
    model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0)))
    graph, state = nnx.split(model)
    _, new = jax.eval_shape(lambda s, t: nnx.merge(graph, s)(t, t), state, tokens)
    held = sum(math.prod(x.shape) for x in jax.tree.leaves((new.keys, new.values)))
    assert readme_decoding.kept_of_token(config) == held / 5


def test_a_token_reads_all_weights_but_the_table_of_the_layers_vectors():
    """E2B's: the hub's tensors, two bytes for each number."""
    case = tpu_cases.Gemma4Case(tpu_cases.E2B, "rollout", "v5e-1", cut=2)
    sizes = weights.file_shapes(KNOWN[tpu_cases.E2B])
    del sizes["model.embed_tokens_per_layer.weight"]
    wanted = 2 * sum(map(math.prod, sizes.values())) / 2 / 1e9
    assert readme_decoding.weights_gb(case) == pytest.approx(wanted)


def test_what_compiles_too_long_stands_out():
    lines = readme_gemma4.compile_table().splitlines()[4:]
    cells = [cell.strip() for line in lines for cell in line.strip("|").split("|")[2:]]
    assert any(cell.startswith("**") for cell in cells)
    for cell in (cell for cell in cells if cell != "–"):
        most = int(cell.strip("*").rpartition("–")[2].replace(",", ""))
        assert cell.startswith("**") == (most > 3 * 60 * 2)


def test_each_row_of_a_target_is_one_program_of_the_table():
    with open(KEPT / "tpu_fit.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    newest = [row for row in rows if row["versions"] == rows[0]["versions"]]
    for name, wanted, _ in readme_left.TARGETS:
        found = [row for row in newest if wanted.items() <= row.items()]
        assert len(found) == 1, name


def test_a_screen_holds_what_it_is_the_picture_and_the_two_commands():
    top = (ROOT / "README.md").read_text().splitlines()[:25]
    assert top[0].startswith("# ") and len(" ".join(top[1:8])) < 500
    (picture,) = [line for line in top if line.startswith("![")]
    assert picture.endswith("(data/results/walk.png)")
    commands = [line for line in top if line.startswith("make ")]
    assert [line.split()[1] for line in commands] == ["course", "test"]


def test_pictures_are_small_files():
    for file in (*KEPT.glob("*.png"), ROOT / "docs" / "app.png"):
        assert file.stat().st_size < 150_000


@pytest.mark.parametrize(
    "name, drawn", [("walk.png", readme_learning), ("real.png", readme_real)]
)
def test_pictures_are_of_these_data_and_readable_on_a_telephone(name, drawn):
    figure = drawn.picture(drawn.measured())
    points = [t.get_fontsize() for t in figure.axes[0].texts]
    points += [t.get_fontsize() for t in figure.axes[0].get_xticklabels()]
    shown = 343 / figure.get_figwidth()  # pixels an inch, 375 less the margins
    assert min(points) / 72 * shown > 10  # pixels
    with Image.open(KEPT / name) as picture:
        assert picture.width / 343 > 2, "blurred on a telephone's sharp screen"
        words = picture.text["Description"]
    assert words == drawn.alt(drawn.measured()), "drawn of old data"


def test_a_real_models_bars_are_a_seeds_interval_or_the_range_of_several():
    seeds = [{"greedy": g, "low": 0.1, "high": 0.9} for g in (0.5, 0.7, 0.6)]
    assert readme_real.bar(seeds[:1]) == (50, 10, 90)
    assert readme_real.bar(seeds) == pytest.approx((60, 50, 70))
    found = {("base_asked_well", task): seeds[:1] for task in readme_real.TASKS}
    found |= {("sft", "one_step"): seeds}
    shown = readme_real.stages(found)
    assert shown == ["base_asked_well"], "a stage is shown once it is whole"


def test_a_stage_is_held_against_the_one_before_it_problem_by_problem(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(readme_real, "RIGHT", tmp_path / "right.csv")
    assert readme_real.changes() == "", "nothing was kept yet"
    rows = [
        {"stage": stage, "task": "one_step", "seed": seed, "right": right}
        for stage, seed, right in (
            ("sft", "0", "1100" * 50),
            ("grpo", "0", "1011" * 50),
            ("grpo", "1", "1111" * 50),
        )
    ]
    tables.write(tmp_path / "right.csv", rows)
    (line,) = readme_real.changes().splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:6] == ["grpo", "sft", "one step", "0", "50.0%", "75.0%"]
    assert cells[6].startswith("+25.0 (+") and cells[7:] == ["100", "50"]


def test_the_model_as_it_comes_stands_beside_every_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(readme_real, "RIGHT", tmp_path / "right.csv")
    rows = [
        {"stage": stage, "task": "gsm8k", "seed": seed, "right": right}
        for stage, seed, right in (
            ("base", "0", "1000" * 50),
            ("gsm8k_sft", "1", "1100" * 50),
            ("gsm8k_sft", "2", "0000" * 50),
            ("base_asked_well", "0", "1110" * 50),
            ("sft", "3", "1111" * 50),
        )
    ]
    tables.write(tmp_path / "right.csv", rows)
    found = [line.split(" | ")[3:6] for line in readme_real.changes().splitlines()[2:]]
    assert found == [
        ["1", "25.0%", "50.0%"],
        ["2", "25.0%", "0.0%"],
        ["3", "75.0%", "100.0%"],
    ]


def test_seeds_are_told_together_once_there_are_three(tmp_path, monkeypatch):
    monkeypatch.setattr(readme_real, "RIGHT", tmp_path / "right.csv")
    before, up, down = "1100" * 50, "1110" * 50, "1000" * 50
    rows = [
        {"stage": stage, "task": "two_step", "seed": str(seed), "right": right}
        for seed, after in enumerate((up, up, before, down))
        for stage, right in (("sft", before), ("grpo", after))
    ]
    rows += [rows[0] | {"seed": "0", "stage": "student"}]
    tables.write(tmp_path / "right.csv", rows[:4])
    assert len(readme_real.lifts().splitlines()) == 2, "two seeds are no range"
    tables.write(tmp_path / "right.csv", rows)
    _, line, row = readme_real.lifts().splitlines()
    assert line.count("|") == row.count("|")
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["GRPO, after SFT", "two steps", "4"]
    assert cells[3:] == ["+6.2", "−25.0 to +25.0", "2", "1"]


def test_the_picture_shows_means_and_the_ends_of_all_seeds():
    axes = readme_learning.picture(readme_learning.measured()).axes[0]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["base", "SFT", "GRPO", "start", "distilled", "SFT", "GRPO"]
    with open(KEPT / "learning.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stages = "base sft grpo student_start student food_sft food_grpo".split()
    for stage, bar, line in zip(stages, axes.patches, axes.lines, strict=True):
        own = [100 * float(row["greedy"]) for row in rows if row["stage"] == stage]
        assert bar.get_height() == pytest.approx(statistics.mean(own))
        assert list(line.get_ydata()) == pytest.approx([min(own), max(own)])


def measured(**greedy):
    """Rows as of learning.csv, the same figures for all stages but those named."""
    return {
        stage: [
            {"stage": stage, "seed": str(seed), "params": "1000000"}
            | dict.fromkeys(("greedy", "pass1", "pass8"), value)
            for seed, value in enumerate(greedy.get(stage, (0.5, 0.5, 0.5)))
        ]
        for stage in STAGES
    }


def test_ranges_are_said_and_no_order_that_some_seed_contradicts():
    text = readme_learning.table(measured(grpo=(0.88, 0.9, 0.86), gspo=(0.9, 0.8, 0.8)))
    (row,) = [line for line in text.splitlines() if line.startswith("| GRPO |")]
    assert "| 88.0% (86.0 to 90.0) |" in row
    ranges = "GRPO, 88.0% (86.0 to 90.0), and of GSPO, 83.3% (80.0 to 90.0), "
    assert f"{ranges}overlap: no ranking" in text
    apart = readme_learning.table(measured(grpo=(0.9, 0.9, 0.9), gspo=(0.8, 0.8, 0.89)))
    assert "do not overlap" in apart and "no ranking" not in apart
    here = readme_learning.walked("grpo")
    assert f"ended at 88.0% where the seeds were walked, and at {here:.1%}" in text
    assert "Means of three seeds" in text
    assert "two seeds" in readme_learning.image(measured(grpo=(0.5, 0.6)))


def test_every_stage_is_explained_and_shown_in_words_a_newcomer_has():
    assert set(readme_learning.EXPLAINED) == set(STAGES)
    text = (ROOT / "README.md").read_text()
    for said in readme_learning.EXPLAINED.values():
        assert f"| {said} |" in text


def test_a_stage_that_was_not_measured_is_named(tmp_path, monkeypatch):
    lines = (KEPT / "learning.csv").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("gspo,")]
    (tmp_path / "learning.csv").write_text("\n".join(kept))
    monkeypatch.setattr(readme_learning, "LEARNING", tmp_path / "learning.csv")
    with pytest.raises(ValueError, match=r"lacks \['gspo'\]. Run `make seeds`"):
        readme_learning.measured()


def test_readme_says_what_make_course_leaves_out():
    text = (ROOT / "README.md").read_text()
    (said,) = re.findall(r"`make course` runs all but ([\w, ]+),", text)
    left = set(re.findall(r"\d\d\w?", said))
    assert left == {number for number, lesson in LESSONS.items() if not lesson.walk}


@pytest.mark.parametrize("file", ["README.md", "docs/compiler.md", "docs/teaching.md"])
def test_what_is_linked_is_there(file):
    path = ROOT / file
    text = path.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    links += re.findall(r'(?:src|href)="([^"]+)"', text)
    for link in links:
        assert link.startswith("https://") or (path.parent / link).exists(), link
    for name in re.findall(r"\]\[([\w-]+)\]", text):
        assert f"\n[{name}]: https://" in text, name
