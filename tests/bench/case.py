"""What all three libraries run: one case, one set of prompts, one reward, one clock.

Standard library only: the same file is imported in each library's own environment.
"""

import contextlib
import dataclasses
import json
import os
import random
import resource
import statistics
import sys
import time
from importlib import metadata

PAD, EOS, UNK = 0, 1, 2
FIRST_WORD = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with tied embeddings and SwiGLU, and a GRPO batch.

    Every prompt has exactly `prompt` tokens and every answer exactly `answer`: no
    answer may end early, so a token is the same work everywhere.

    Attributes:
      family: `model_type` of a Hugging Face config: qwen3, qwen2 or llama.
      feed_forward: width of the feed-forward layer; 0: three times `width`.
      dtype: of the weights and of what flows between them. Adapters are float32.
      lora_rank: of the adapters on all matrices of the layers; 0 trains all weights.
      minibatches: updates per batch; TRL makes one in any case.
      pieces: pieces that a batch's update is computed in; 0: the library's default.
      remat, chunk: ours alone, see `Transformer.remat` and `objectives`.
      gpu: whether it runs on a GPU.
    """

    width: int = 128
    prompt: int = 64
    answer: int = 64
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 512
    prompts: int = 8
    group: int = 8
    warmup: int = 2
    steps: int = 5
    learning_rate: float = 1e-4
    family: str = "qwen3"
    feed_forward: int = 0
    dtype: str = "float32"
    lora_rank: int = 0
    minibatches: int = 1
    pieces: int = 0
    remat: str = "cheap"
    chunk: int = 8192
    gpu: bool = False

    @property
    def head_dim(self):
        """Width of one attention head: 32 at width 128."""
        return self.width // self.heads

    @property
    def ff(self):
        """Width of the feed-forward layer."""
        return self.feed_forward or 3 * self.width

    @property
    def rows(self):
        """Answers in a GRPO step, and rows in an SFT step."""
        return self.prompts * self.group

    @property
    def length(self):
        """Tokens of a prompt with its answer."""
        return self.prompt + self.answer

    @property
    def total(self):
        """Steps that are run: the warm-up ones are not timed."""
        return self.warmup + self.steps


def words(case, seed, count, length):
    """`count` random texts of `length` words; word `w17` is token 17."""
    draw = random.Random(seed)
    return [
        " ".join(f"w{draw.randrange(FIRST_WORD, case.vocab)}" for _ in range(length))
        for _ in range(count)
    ]


def ids(text):
    """The token ids of a text of `words`."""
    return [int(word[1:]) for word in text.split()]


def low_words(prompts, completions, half, **_):
    """Share of an answer's words that stand in the lower half of the vocabulary.

    Cheap, different for every answer, and learnable; the signature all three use.
    """
    scores = []
    for text, middle in zip(completions, half, strict=True):
        numbers = [int(w[1:]) for w in text.split() if w[0] == "w"]
        scores.append(sum(n < middle for n in numbers) / max(len(numbers), 1))
    return scores


def word_tokenizer(case, eos=EOS, side="right", chat_template=None):
    """A Hugging Face tokenizer of made-up words, for the libraries that want one.

    Args:
      case: gives the size of the vocabulary.
      eos: the id of the end of a text.
      side: where padding goes.
      chat_template: Jinja source, or None.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    table = {"<pad>": PAD, "<eos>": eos, "<unk>": UNK}
    table |= {f"w{i}": i for i in range(FIRST_WORD, case.vocab)}
    inner = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side=side,
        chat_template=chat_template,
    )


class Clock:
    """Stamps of wall seconds and of this process's CPU seconds (all its threads)."""

    def __init__(self):
        self.stamps = []

    def stamp(self):
        """Mark a moment: the start, and then the end of every step."""
        self.stamps.append((time.perf_counter(), time.process_time()))

    def spans(self, which):
        """Seconds between neighbouring stamps: which=0 for wall, 1 for CPU."""
        marks = [s[which] for s in self.stamps]
        return [end - begin for begin, end in zip(marks, marks[1:], strict=False)]


def timed(clock, function):
    """`function` with a stamp before and after every call."""

    def call(*args, **kwargs):
        clock.stamp()
        result = function(*args, **kwargs)
        clock.stamp()
        return result

    return call


def grpo_figures(case, steps, rollouts):
    """What a GRPO run reports.

    Args:
      case: the case that was run.
      steps: Clock stamped at the start and at the end of each of `case.total` steps.
      rollouts: Clock stamped before and after each of `case.total` rollouts.
    """
    wall, cpu = (steps.spans(k)[case.warmup :] for k in (0, 1))
    rollout_wall, rollout_cpu = (rollouts.spans(k)[::2][case.warmup :] for k in (0, 1))
    assert len(cpu) == len(rollout_cpu) == case.steps, (len(cpu), len(rollout_cpu))
    return {
        "first_step_s": steps.spans(0)[0],
        "grpo_cpu_s": statistics.median(cpu),
        "grpo_wall_s": statistics.median(wall),
        "rollout_cpu_s": statistics.median(rollout_cpu),
        "rollout_tok_s": case.rows * case.answer / statistics.median(rollout_wall),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def sft_figures(case, clock):
    """What an SFT run reports; `clock` is stamped at the start and after each step.

    Tokens per second are the mean over all timed steps, not the median of one: a
    library may run ahead of its device, and then single stamps say little. The median
    `sft_wall_s` is for those that wait for their device after each step.
    """
    wall, cpu = (clock.spans(k)[case.warmup :] for k in (0, 1))
    return {
        "sft_cpu_s": sum(cpu) / case.steps,
        "sft_tok_s": case.rows * case.length / (sum(wall) / case.steps),
        "sft_wall_s": statistics.median(wall),
    }


def run(library, packages, *parts):
    """Runs the case of the command line, and prints its figures as one line of JSON.

    Args:
      library: its name. packages: whose versions are printed.
      parts: functions (case) -> figures. The command line may name some of them behind
        the case, else GRPO and SFT run.
    """
    case, figures = Case(**json.loads(sys.argv[1])), {}
    wanted = sys.argv[2:] or ["grpo", "sft"]
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for that line
        for part in parts:
            if part.__name__ in wanted:
                figures |= part(case)
    versions = {name: metadata.version(name) for name in packages}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    line = {
        "library": library,
        "case": dataclasses.asdict(case),
        "versions": versions,
        "load": round(os.getloadavg()[0], 2),
        **{name: round(value, 4) for name, value in figures.items()},
    }
    print(json.dumps(line), flush=True)
