"""What `make tpu-check` compiles: programs of presets, of each family, and far ones."""

import dataclasses

from helpers.model.config import KNOWN, SEES
from helpers.recipes.presets import FOOD, LARGER, PRESETS
from helpers.tpu import compiler, programs, roofline
from helpers.tpu.topology import SLICES
from helpers.training import objectives, optimizers

QWEN = "Qwen/Qwen2.5-0.5B-Instruct"
TEACHER = "Qwen/Qwen2.5-1.5B-Instruct"
QWEN3 = "Qwen/Qwen3-0.6B"
SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct"
GEMMAS = ("google/gemma-3-270m-it", "google/gemma-3-1b-it")
GEMMA4B = "google/gemma-3-4b-it"
E2B, E4B, LARGEST = (f"google/gemma-4-{size}-it" for size in ("E2B", "E4B", "31B"))
LARGE = "meta-llama/Llama-3.1-70B-Instruct"
ADAMW = optimizers.adamw(1e-4)
PROGRAMS = ("sft", "rollout", "grpo", "evaluation")
SWEEP = ("v5e-1", "v5e-8", "v5e:8x8", "v5e:16x16")


@dataclasses.dataclass(frozen=True)
class Case:
    """One program: what is trained, on which slice, and with which sizes.

    A batch has `prompts` questions with `group` answers each, or `prompts` packed rows
    of both budgets together for SFT.

    Attributes:
      program: sft, rollout, grpo, gspo, evaluation, distillation, or answers, which
        those of a frozen model are.
      rank: of the adapters; 0 trains all weights.
      pieces: parts of a batch, one after the other.
      chunk: tokens of a chip whose logits exist at once.
      stored: how the frozen base is stored if not in bfloat16, int8 or NF4.
      pictures: in every prompt; a tower is frozen, and runs once per prompt.
      table_on_host: whether Gemma 4's per-layer table is in the host's memory.
      teacher: of a distillation; its storage and table have the same meaning.
      beside_teacher: whether it stays on the chips while answers are sampled.
      cut: chips that share each matrix, the axis "model" of the mesh.
    """

    model: str
    program: str
    topology: str
    rank: int = 32
    prompts: int = 32
    group: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256
    pieces: int = 1
    chunk: int = 1024
    preset: str = ""
    remat: str = "layer"
    stored: str = ""
    pictures: int = 0
    table_on_host: bool = False
    teacher: str = TEACHER
    teacher_stored: str = ""
    teacher_table_on_host: bool = False
    beside_teacher: bool = False
    cut: int = 1

    def config_of(self, model):
        """The shape of the model or its teacher, with a tower if there are pictures."""
        tower = SEES[model] if self.pictures else None
        return dataclasses.replace(KNOWN[model], vision=tower)

    @property
    def config(self):
        """The model's shape."""
        return self.config_of(self.model)

    @property
    def answers(self):
        """Answers to each question; packed rows and greedy evaluation have one."""
        return 1 if self.program in ("sft", "evaluation") else self.group

    @property
    def tokens(self):
        """Tokens in a batch, prompts counted once per group."""
        each = self.prompt_tokens + self.answers * self.completion_tokens
        return self.prompts * each

    def build(self):
        """(jitted function, abstract arguments, GiB that stay in memory beside it)."""
        mesh, config = compiler.mesh(self.topology, self.cut), self.config
        sizes = (self.answers, self.prompt_tokens, self.completion_tokens)
        if self.program == "answers":
            model = programs.abstract_model(config, stored=self.stored, frozen=True)
            return *programs.rollout(model, self.prompts, *sizes, mesh), 0.0
        model = programs.abstract_model(
            config, rank=self.rank, stored=self.stored, table_on_host=self.table_on_host
        )
        model.remat = self.remat
        if self.program in ("rollout", "evaluation"):
            greedy = self.program == "evaluation"
            job = programs.rollout(model, self.prompts, *sizes, mesh, greedy=greedy)
            resident = programs.moments_gb(model, ADAMW, mesh)
            if self.beside_teacher:
                resident += programs.model_gb(self.frozen_teacher(), mesh)
            return *job, resident
        batch = programs.group_batch(self.prompts, *sizes, config.vision)
        if self.program == "sft":
            rows = self.prompts, sum(sizes[1:])
            batch = programs.packed_batch(*rows, config.vision)
        split = {"accumulate": self.pieces}
        if self.program == "distillation":
            split["frozen"] = (self.frozen_teacher(),)
        objective = self.objective(mesh.shape["data"])
        return *programs.update(model, objective, ADAMW, batch, mesh, **split), 0.0

    def objective(self, chips):
        """The objective of its notebook."""
        name = self.program if self.program != "grpo" else "policy_gradient"
        return getattr(objectives, name)(chunk=self.chunk * chips)

    def frozen_teacher(self):
        """The teacher as shapes."""
        return programs.abstract_model(
            self.config_of(self.teacher),
            stored=self.teacher_stored,
            table_on_host=self.teacher_table_on_host,
            frozen=True,
        )

    def flops(self):
        """Useful FLOPs of one call on all chips (`helpers.tpu.roofline`).

        Packed rows are scored whole, as one text each. Of a group only the answers are,
        and of its prompt only the last token needs all layers.
        """
        config, rows = self.config, self.prompts * self.answers
        packed = self.program == "sft"
        last = self.prompt_tokens if packed else 1
        texts = [
            roofline.Texts(self.prompts, 0, self.prompt_tokens, last),
            roofline.Texts(rows, self.prompt_tokens, self.completion_tokens),
        ]
        scored = self.tokens if packed else rows * self.completion_tokens
        forward = roofline.forward_flops(config, texts, scored, self.rank)
        total = sum(forward)
        if self.program not in ("rollout", "evaluation", "answers"):
            total = roofline.update_flops(forward, trains_base=not self.rank)
        models = [config]
        if self.program == "distillation":
            models.append(self.config_of(self.teacher))
            total += sum(roofline.forward_flops(models[1], texts, scored))
        towers = [model.vision for model in models if model.vision]
        return total + sum(roofline.vision_flops(x, self.prompts) for x in towers)

    @property
    def trained(self):
        """What it trains, and beside what if that is not a base on the chip alone."""
        if self.program == "answers":
            return "nothing"
        beside = " on NF4" if self.stored.startswith("nf4") else ""
        if self.table_on_host:
            beside += " on int8" if self.stored == "int8" else ""
            beside += " with a table on the host"
        if self.cut > 1:
            beside += f", each matrix over {self.cut} chips"
        distilled = self.program == "distillation"
        if self.teacher != TEACHER and (distilled or self.beside_teacher):
            beside += " from " if distilled else " beside "
            beside += self.teacher.rpartition("/")[2]
            if self.teacher_stored and not self.stored:  # else it is said of both
                beside += f" in {self.teacher_stored}"
        return f"LoRA {self.rank}{beside}" if self.rank else f"all{beside}"


def of_preset(name, topology, chosen):
    """A preset's programs, with its sizes."""
    preset = PRESETS[name]
    sizes = ("prompts", "group", "prompt_tokens", "completion_tokens", "chunk", "remat")
    sizes = {size: getattr(preset, size) for size in sizes}
    sizes |= {"rank": preset.lora_rank, "preset": name}
    changed = {"evaluation": {"prompts": preset.prompts * preset.group}}
    changed |= {"sft": {"prompts": preset.rows}}
    changed |= dict.fromkeys(("grpo", "distillation"), {"pieces": preset.pieces})
    return [
        Case(preset.model, program, topology, **sizes | changed.get(program, {}))
        for program in chosen
    ]


def shipped():
    """The programs of the presets that are chosen by default."""
    for name in SLICES:
        yield from of_preset(name, name, (*PROGRAMS, "distillation"))


def larger():
    """Those of the presets with another model, chosen by name."""
    for name in LARGER:
        yield from of_preset(name, name[: len("v5e-1")], PROGRAMS)


def families():
    """GRPO of every model on both free machines; at most 36,864 tokens at once."""
    for topology, pieces, prompts in zip(SLICES, (2, 1), (16, 64), strict=True):
        yield Case(QWEN, "grpo", topology, rank=0, pieces=4)
        for model in (QWEN3, *GEMMAS):
            yield Case(model, "grpo", topology, pieces=pieces)
        # Notebook 15 offers these, too.
        yield Case(SMOL, "grpo", topology, prompts=prompts)
        yield Case(TEACHER, "grpo", topology, prompts=prompts, pieces=pieces)
    yield Case(GEMMA4B, "grpo", "v5e-8", prompts=64)


def seeing():
    """Food-101's programs with Gemma 3, with one picture in every prompt.

    Of a prompt's tokens 256 are the picture's; an answer's are two turns with a tool's
    result between them. GRPO once more with a picture for every answer.
    """
    for program in ("sft", "rollout", "grpo"):
        yield gemma3(program, "v5e-8", prompts=16)
        pieces = 1 if program == "rollout" else 2
        yield gemma3(program, "v5e-1", prompts=8, pieces=pieces, stored="int8")
    yield gemma3("grpo", "v5e-8", prompts=128, group=1)


def gemma3(program, topology, **sizes):
    """A program of Gemma 3 4B, with one picture in every prompt."""
    turns = {"prompt_tokens": 384, "completion_tokens": 128, "pictures": 1}
    turns |= {"remat": FOOD[f"{topology}-gemma3-4b"].remat}
    return Case(GEMMA4B, program, topology, **turns, **sizes)


def variants():
    """GRPO on one chip once more: a base in NF4, and a table in the host's memory."""
    yield gemma3("grpo", "v5e-1", prompts=8, pieces=2, stored="nf4 double")
    yield gemma4(E2B, "grpo", "v5e-1", prompts=8, pieces=4, table_on_host=True)


def gemma4(model, program, topology, **sizes):
    """A program of Gemma 4, with one picture in every prompt unless told otherwise.

    Of a prompt's tokens 282 are the picture's and about 150 explain the tool.
    """
    food = FOOD.get(topology)
    remat = food.remat if food and food.model == model else "layer"
    turns = {"prompt_tokens": 448, "completion_tokens": 128, "pictures": 1}
    turns |= {"remat": remat, "teacher": E4B}
    return Case(model, program, topology, **turns | sizes)


def students():
    """Gemma 4's small models with a photo in every prompt, and without.

    On one chip E2B is in bfloat16. Of E4B the matrices are int8 there and the per-layer
    table is in the host's memory. On eight chips two share each of its matrices;
    sampling with whole ones fits, and takes half as long again.
    """
    for pictures in (1, 0):
        for program in ("sft", "rollout", "grpo"):
            pieces = 1 if program == "rollout" else 4
            one = {"pictures": pictures, "prompts": 8, "pieces": pieces}
            small = {"stored": "int8", "table_on_host": True}
            yield gemma4(E2B, program, "v5e-1", **one)
            yield gemma4(E4B, program, "v5e-1", **one | small)
            for model, cut in ((E2B, 1), (E4B, 2)):
                eight = {"prompts": 16, "pictures": pictures, "cut": cut}
                yield gemma4(model, program, "v5e-8", **eight)
    yield gemma4(E2B, "evaluation", "v5e-1", prompts=64, pictures=0)


def teachers():
    """The largest Gemma 4 answers on eight chips, and is distilled into small ones.

    On v5e it is in int8, beside a student whose matrices two chips share. E2B answers
    as many photos on one chip, to show what it saves.
    """
    rows = {"rank": 0, "prompts": 64, "group": 1}
    yield gemma4(E2B, "answers", "v5e-1", **rows)
    yield gemma4(LARGEST, "answers", "v6e:2x4", **rows, cut=8)
    yield gemma4(LARGEST, "answers", "v5e-8", stored="int8", **rows, cut=8)
    for topology, teacher in (
        ("v5e-8", E4B),
        ("v6e:2x4", LARGEST),
        ("v5p:4x4x1", LARGEST),
    ):
        both = {"prompts": 16, "teacher": teacher}
        yield gemma4(E2B, "distillation", topology, **both)
        if topology != "v5p:4x4x1":
            yield gemma4(E2B, "rollout", topology, **both, beside_teacher=True)
    yield gemma4(E2B, "distillation", "v5e-8", prompts=16, pictures=0)
    large = {"teacher": LARGEST, "teacher_stored": "int8", "beside_teacher": True}
    large |= {"prompts": 16, "cut": 2}
    for program in ("distillation", "rollout"):
        for student in (E2B, E4B):
            yield gemma4(student, program, "v5e-8", **large)
    yield gemma4(E4B, "distillation", "v5e-8", **large, pictures=0)
    # Both on one chip: in int8, and their per-layer tables on the host.
    chip = {"stored": "int8", "table_on_host": True, "teacher_stored": "int8"}
    chip |= {"teacher_table_on_host": True, "beside_teacher": True, "prompts": 8}
    for pictures in (1, 0):
        yield gemma4(E2B, "distillation", "v5e-1", **chip, pieces=8, pictures=pictures)
    yield gemma4(E2B, "rollout", "v5e-1", **chip)


def far():
    """Past this machine: 70 billion parameters on 64 chips, one model on 1 to 256.

    The compiler gathers along two axes of a slice at most: over all three it adds up
    arrays that are zero but for a chip's own part, at more than twice the messages. So
    every matrix lies over four chips and stays cut there; once it is whole.
    """
    for program, cut in (("grpo", 4), ("gspo", 4), ("grpo", 1)):
        all_weights = {"rank": 0, "prompts": 64, "cut": cut, "remat": "cheap"}
        yield Case(LARGE, program, "v5p:4x4x4", **all_weights)
    for topology, chips in zip(SWEEP, (1, 8, 64, 256), strict=True):
        pieces = 4 if chips == 1 else 1  # alone, it has all of the optimizer's state
        sizes = {"rank": 0, "prompts": 16 * chips, "pieces": pieces}
        yield Case(QWEN3, "grpo", topology, **sizes)


def long_texts():
    """SFT on rows that are long enough for the attention kernel."""
    one = {"prompts": 4, "prompt_tokens": 1024, "completion_tokens": 1024}
    eight = {"prompts": 8, "prompt_tokens": 4096, "completion_tokens": 4096}
    for model in (QWEN, GEMMAS[1]):
        yield Case(model, "sft", "v5e-1", **one)
    yield Case(QWEN, "sft", "v5e-8", **eight)


FEW = Case(QWEN, "rollout", "v5e-1", prompts=16)  # what more answers cost


def quick():
    """Three that compile fast: the kernel's, a rollout, and eight chips' update."""
    kernel = next(long_texts())
    eight = next(x for x in families() if (x.model, x.topology) == (QWEN, "v5e-8"))
    return [kernel, FEW, eight]


def cases():
    """All of them, the presets' first."""
    ours = [*shipped(), FEW, *larger(), *far(), *families(), *long_texts()]
    return [*ours, *seeing(), *students(), *variants(), *teachers()]
