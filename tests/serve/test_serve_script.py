"""`make serve`: the commands and templates that engines get, without the engines."""

import json
import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from helpers.runtime.platform import ROOT
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.grammars import GEMMA3, GEMMA4, HERMES
from helpers.tools.nutrition import TINY, lookup_nutrition
from scripts import serve

FOOD = ROOT / "data" / "tiny" / "food_grpo"
MATHS = ROOT / "data" / "tiny" / "grpo"
CALLS = [Call("lookup_nutrition", {"food": "apple pie", "grams": 150})]
QUESTION = {
    "role": "user",
    "content": [{"type": "image"}, {"type": "text", "text": "How much?"}],
}


def as_protocol(calls, results, text, parts):
    """A turn with calls and its results as OpenAI's protocol sends them."""
    functions = [{"name": c.name, "arguments": c.arguments} for c in calls]
    tool_calls = [{"type": "function", "function": f} for f in functions]
    contents = [json.dumps(result) for result in results]
    if parts:
        contents = [[{"type": "text", "text": each}] for each in contents]
        text = text and [{"type": "text", "text": text}]
    turn = {"role": "assistant", "content": text, "tool_calls": tool_calls}
    return [turn, *({"role": "tool", "content": each} for each in contents)]


@pytest.mark.parametrize(
    "calls, results, text, parts",
    [
        (CALLS, [lookup_nutrition("pizza", 150)], "", False),
        (CALLS, [{"error": "no such food", "suggestions": ["pizza"]}], "Hm.", True),
        (CALLS * 2, [{"kcal": 7}, {"kcal": 12, "salt": 0.1}], "I see it.", True),
    ],
)
def test_the_template_for_vllm_writes_calls_as_the_grammar_does(
    tmp_path, calls, results, text, parts
):
    place = serve.for_vllm(FOOD, tmp_path / "served")
    tokenizer, served = chat.load_tokenizer(FOOD), chat.load_tokenizer(place)
    ours = [QUESTION, TINY.message(calls, text), *TINY.results(results, calls)]
    theirs = [QUESTION, *as_protocol(calls, results, text, parts)]
    write = {"tokenize": False, "add_generation_prompt": True}
    expected = tokenizer.apply_chat_template(ours, **write)
    assert served.apply_chat_template(theirs, **write) == expected


def test_the_entries_for_vllm_cut_no_text_otherwise(tmp_path):
    place = serve.for_vllm(FOOD, tmp_path / "served")
    tokenizer, served = chat.load_tokenizer(FOOD), chat.load_tokenizer(place)
    for text in ("a\nb", "\n\n<start_of_image>\n\n\n\n\n", "two\n\n\napples\n" * 3):
        ids = tokenizer(text)["input_ids"]
        assert served(text)["input_ids"] == ids
        assert served.decode(ids) == tokenizer.decode(ids)
    entries = served.get_vocab()
    for breaks in serve.LINE_BREAKS:
        assert entries[breaks] >= len(tokenizer)
    assert (place / "model.safetensors").read_bytes() == (
        FOOD / "model.safetensors"
    ).read_bytes()


def test_vllm_gets_tools_only_for_models_that_have_them(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    place = "127.0.0.1", 8000, ["--enable-lora"]
    food = serve.vllm_command("python", FOOD, *place)
    maths = serve.vllm_command("python", ROOT / "data" / "tiny" / "grpo", *place)
    assert "tiny" in food and str(tmp_path / "build/serve/8000/food_grpo") in food
    other = serve.vllm_command("python", FOOD, "127.0.0.1", 8001)
    assert {*food} & {*other} & {*map(str, tmp_path.rglob("*"))} == set()
    assert "--tool-call-parser" not in maths
    for command in (food, maths):
        assert command[command.index("--host") + 1] == "127.0.0.1"
        assert command[-1] == "--enable-lora"


@pytest.mark.parametrize(
    "family, parser, grammar",
    [
        ("gemma3", None, GEMMA3),
        ("gemma4", "gemma4", GEMMA4),
        ("qwen3", "hermes", HERMES),
        ("llama", None, None),
    ],
)
def test_calls_of_other_families_are_read_as_these_write_them(
    family, parser, grammar, tmp_path
):
    """Gemma 3 with its chat template, say; vLLM reads the calls of those it knows."""
    config = {"model_type": family, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    assert not serve.is_tiny(tmp_path) and serve.is_tiny(FOOD)
    command = serve.vllm_command("python", tmp_path, "127.0.0.1", 8000)
    assert command[command.index("--model") + 1] == str(tmp_path), "not a changed copy"
    if parser is None:
        assert "--tool-call-parser" not in command
    else:
        assert command[command.index("--tool-call-parser") + 1] == parser
    assert serve.grammar_of(tmp_path) is grammar
    assert serve.grammar_of(FOOD) is TINY


def test_vllm_gets_the_cores_that_are_ours_and_no_network():
    env = serve.settings({"HF_HUB_OFFLINE": "0", "VLLM_CPU_KVCACHE_SPACE": "4"})
    cores = {int(core) for core in env["VLLM_CPU_OMP_THREADS_BIND"].split(",")}
    assert cores == os.sched_getaffinity(0)
    assert env["HF_HUB_OFFLINE"] == "1" and env["VLLM_CPU_KVCACHE_SPACE"] == "4"


def test_what_cannot_be_served_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="is no model folder"):
        serve.main([str(tmp_path)])
    for more in (["--host", "0.0.0.0"], ["--", "--enable-lora"]):
        with pytest.raises(SystemExit, match="listens here only"):
            serve.main([str(FOOD), "--engine", "course", *more])


def test_the_courses_server_gives_a_maths_model_room_to_end():
    """And ends on SIGTERM."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "scripts.serve", str(MATHS), "--engine", "course"]
    server = subprocess.Popen(
        [*command, "--port", str(port)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert f"127.0.0.1:{port}" in server.stdout.readline()
        for row in word_problems.generate(2, seed=5, levels=(3,), split="test"):
            body = {"model": "grpo", "temperature": 0, "max_tokens": 512}
            body |= {"messages": [{"role": "user", "content": row["question"]}]}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/chat/completions",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                choice = json.load(answer)["choices"][0]
            assert choice["finish_reason"] == "stop"
            assert "####" in choice["message"]["content"]
    finally:
        server.terminate()
    assert server.wait(30) == 0
