"""What `make tpu-check` compiles: programs of presets, of each family, and far ones."""

import dataclasses

from helpers.model.known import KNOWN, SEES
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

    `rank` 0 trains all weights; answers are those of a frozen model. A batch has
    `prompts` questions with `group` answers each, or `prompts` packed rows of both
    budgets together for SFT. `chunk`: tokens of a chip whose logits exist at once.
    """

    model: str
    program: str  # sft, rollout, grpo, gspo, evaluation, distillation, or answers
    topology: str
    rank: int = 32
    prompts: int = 32
    group: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256
    pieces: int = 1
    chunk: int = 1024
    preset: str = ""
    stored = ""  # how the frozen base is, if not in bfloat16: int8 or NF4
    pictures = 0  # in every prompt
    teacher = TEACHER
    table_on_host = False  # Gemma 4's per-layer table
    teacher_stored = ""  # how the teacher is, as above
    teacher_table_on_host = False
    beside_teacher = False  # whether it stays on the chips while answers are sampled
    cut = 1  # chips that share each matrix, the axis "model" of the mesh

    @property
    def config(self):
        """The model's shape."""
        return KNOWN[self.model]

    @property
    def teacher_config(self):
        """The shape of the teacher, who sees what its student does."""
        tower = SEES[self.teacher] if self.pictures else None
        return dataclasses.replace(KNOWN[self.teacher], vision=tower)

    @property
    def remat(self):
        """What its backward pass computes again: as its preset says."""
        return PRESETS[self.preset].remat if self.preset else "layer"

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
        mesh, vision = compiler.mesh(self.topology, self.cut), self.config.vision
        sizes = (self.answers, self.prompt_tokens, self.completion_tokens)
        if self.program == "answers":
            model = programs.frozen_model(self.config, stored=self.stored)
            return *programs.rollout(model, self.prompts, *sizes, mesh), 0.0
        model = programs.abstract_model(
            self.config,
            rank=self.rank,
            stored=self.stored,
            table_on_host=self.table_on_host,
        )
        model.remat = self.remat
        if self.program in ("rollout", "evaluation"):
            greedy = self.program == "evaluation"
            job = programs.rollout(model, self.prompts, *sizes, mesh, greedy=greedy)
            resident = programs.moments_gb(model, ADAMW, mesh)
            if self.beside_teacher:
                resident += programs.held_gb(self.frozen_teacher(), mesh)
            return *job, resident
        batch = programs.group_batch(self.prompts, *sizes, vision)
        if self.program == "sft":
            batch = programs.packed_batch(self.prompts, sum(sizes[1:]), vision)
        objective, frozen = self.objective(mesh.shape["data"])
        split = {"accumulate": self.pieces, "frozen": frozen}
        return *programs.update(model, objective, ADAMW, batch, mesh, **split), 0.0

    def objective(self, chips):
        """The lesson's objective, and the frozen modules it is given."""
        chunk = self.chunk * chips
        if self.program == "distillation":
            return objectives.distillation(chunk=chunk), (self.frozen_teacher(),)
        makers = {"sft": objectives.sft, "gspo": objectives.gspo}
        make = makers.get(self.program, objectives.policy_gradient)
        return make(chunk=chunk), ()

    def frozen_teacher(self):
        """The teacher as shapes."""
        return programs.frozen_model(
            self.teacher_config,
            stored=self.teacher_stored,
            table_on_host=self.teacher_table_on_host,
        )

    def flops(self, asked=None):
        """Useful FLOPs of one call on all chips (`helpers.tpu.roofline`).

        Packed rows are scored whole, as one text each; of groups the answers are. A
        teacher is asked once, and so are towers, which are frozen.

        Args:
          asked: of a prompt, so many last tokens are walked through all layers, and
            answers alone are scored. None: the last; packed rows whole.
        """
        config, vision = self.config, self.config.vision
        rows = self.prompts * self.answers
        rows_whole = self.program == "sft" and asked is None
        if asked is None:
            asked = self.prompt_tokens if rows_whole else 1
        texts = [
            roofline.Texts(self.prompts, 0, self.prompt_tokens, asked),
            roofline.Texts(rows, self.prompt_tokens, self.completion_tokens),
        ]
        scored = self.tokens if rows_whole else rows * self.completion_tokens
        forward = roofline.forward_flops(config, texts, scored, self.rank)
        total = roofline.vision_flops(vision, self.prompts) if vision else 0
        if self.program in ("rollout", "evaluation", "answers"):
            return total + sum(forward)
        total += roofline.update_flops(forward, trains_base=not self.rank)
        if self.program == "distillation":
            teacher = self.teacher_config
            total += sum(roofline.forward_flops(teacher, texts, scored))
            if teacher.vision:
                total += roofline.vision_flops(teacher.vision, self.prompts)
        return total


@dataclasses.dataclass(frozen=True)
class LargeCase(Case):
    """All weights of 70 billion parameters trained on 64 chips of v5p.

    The compiler gathers along two axes of the slice at most: over all three it adds up
    arrays that are zero but for a chip's own part, at more than twice the messages. So
    every matrix lies over some chips and stays cut there.
    """

    rank: int = 0
    prompts: int = 64
    cut: int = 4
    remat = "cheap"


@dataclasses.dataclass(frozen=True)
class SeeingCase(Case):
    """A program of a model that looks at one picture in every prompt.

    Its tower is frozen and asked once per prompt. Of a prompt's tokens 256 are the
    picture's; an answer's are two turns, with a tool's result between.
    """

    prompt_tokens: int = 384
    completion_tokens: int = 128
    int8: bool = False
    pictures = 1

    @property
    def remat(self):
        """As the preset of its machine says."""
        return FOOD[f"{self.topology}-gemma3-4b"].remat

    @property
    def stored(self):
        """How the frozen base is stored; "": in bfloat16."""
        return "int8" if self.int8 else ""

    @property
    def config(self):
        """The model's shape, with the tower that it sees with."""
        return dataclasses.replace(KNOWN[self.model], vision=SEES[self.model])


@dataclasses.dataclass(frozen=True)
class Gemma4Case(Case):
    """A program of Gemma 4, with one picture in every prompt or none.

    Of a prompt's tokens 282 are the picture's and about 150 tell of the tool; answers
    are those of SeeingCase.
    """

    prompt_tokens: int = 448
    completion_tokens: int = 128
    pictures: int = 1
    stored: str = ""
    table_on_host: bool = False
    teacher: str = E4B
    cut: int = 1

    @property
    def remat(self):
        """As the preset of its machine says, if it is that preset's model."""
        sizes = FOOD.get(self.topology)
        return sizes.remat if sizes and sizes.model == self.model else "layer"

    @property
    def config(self):
        """The model's shape, with the tower if it is given pictures."""
        tower = SEES[self.model] if self.pictures else None
        return dataclasses.replace(KNOWN[self.model], vision=tower)


@dataclasses.dataclass(frozen=True)
class TaughtCase(Gemma4Case):
    """A student that is distilled: what it samples, and learns, beside its teacher."""

    beside_teacher = True


@dataclasses.dataclass(frozen=True)
class OneChipCase(TaughtCase):
    """Both on one chip: in int8, and their per-layer tables on the host."""

    stored: str = "int8"
    table_on_host: bool = True
    teacher_stored = "int8"
    teacher_table_on_host = True


@dataclasses.dataclass(frozen=True)
class OfLargestCase(TaughtCase):
    """A student of the largest model, which lies in int8 on the eight chips of v5e."""

    teacher: str = LARGEST
    teacher_stored = "int8"


@dataclasses.dataclass(frozen=True)
class FourBitCase(SeeingCase):
    """The same with the frozen base in NF4, the scales of its blocks in 8 bits."""

    stored = "nf4 double"


def of_preset(name, topology, programs):
    """A preset's own programs, with its sizes; each must leave room to spare."""
    preset = PRESETS[name]
    sizes = ("prompts", "group", "prompt_tokens", "completion_tokens", "chunk")
    sizes = {size: getattr(preset, size) for size in sizes}
    sizes |= {"rank": preset.lora_rank, "preset": name}
    own = {"evaluation": {"prompts": preset.prompts * preset.group}}
    own |= {"sft": {"prompts": preset.rows}}
    own |= dict.fromkeys(("grpo", "distillation"), {"pieces": preset.pieces})
    return [
        Case(preset.model, program, topology, **sizes | own.get(program, {}))
        for program in programs
    ]


def shipped():
    """The programs of the presets that are chosen where none is asked for."""
    for name in SLICES:
        yield from of_preset(name, name, (*PROGRAMS, "distillation"))


def larger():
    """Those of the presets with another model, asked for by name."""
    for name in LARGER:
        yield from of_preset(name, name[: len("v5e-1")], PROGRAMS)


def families():
    """GRPO of every model on both free machines; at most 36,864 tokens at once."""
    for topology, pieces in zip(SLICES, (2, 1), strict=True):
        yield Case(QWEN, "grpo", topology, rank=0, pieces=4)
        for model in (QWEN3, *GEMMAS):
            yield Case(model, "grpo", topology, pieces=pieces)
    yield Case(GEMMA4B, "grpo", "v5e-8", prompts=64)


def choices():
    """GRPO of the models that notebook 15 offers and no preset has."""
    for topology, prompts in (("v5e-1", 16), ("v5e-8", 64)):
        yield Case(SMOL, "grpo", topology, prompts=prompts)
        pieces = 2 if topology == "v5e-1" else 1
        yield Case(TEACHER, "grpo", topology, prompts=prompts, pieces=pieces)


def few_rows():
    """The preset's rollout with a quarter of its answers: what more of them cost."""
    yield Case(QWEN, "rollout", "v5e-1", prompts=16)


def seeing():
    """Food-101's programs; the last repeats GRPO's with a picture for every answer."""
    for program in ("sft", "rollout", "grpo"):
        yield SeeingCase(GEMMA4B, program, "v5e-8", prompts=16)
        pieces = 1 if program == "rollout" else 2
        yield SeeingCase(GEMMA4B, program, "v5e-1", prompts=8, pieces=pieces, int8=True)
    yield SeeingCase(GEMMA4B, "grpo", "v5e-8", prompts=128, group=1)


def four_bits():
    """GRPO of Food-101 once more, as on one chip, with a frozen base of four bits."""
    yield FourBitCase(GEMMA4B, "grpo", "v5e-1", prompts=8, pieces=2)


def students():
    """Gemma 4's small models with a photo in every prompt, and without.

    On one chip E2B is in bfloat16. Of E4B the matrices are int8 there, the per-layer
    table is in the host's memory. On eight chips two share each of its matrices: what
    samples holds them whole else, which fits, and takes half as long again.
    """
    for pictures in (1, 0):
        for program in ("sft", "rollout", "grpo"):
            pieces = 1 if program == "rollout" else 4
            one = {"pictures": pictures, "prompts": 8, "pieces": pieces}
            small = {"stored": "int8", "table_on_host": True}
            yield Gemma4Case(E2B, program, "v5e-1", **one)
            yield Gemma4Case(E4B, program, "v5e-1", **one | small)
            for model, cut in ((E2B, 1), (E4B, 2)):
                eight = {"prompts": 16, "pictures": pictures, "cut": cut}
                yield Gemma4Case(model, program, "v5e-8", **eight)
    yield Gemma4Case(E2B, "evaluation", "v5e-1", prompts=64, pictures=0)


def on_host():
    """GRPO of E2B with photos once more: its table in the host's memory.

    Notebook 01 sets it beside the same with the table on the chip.
    """
    yield Gemma4Case(E2B, "grpo", "v5e-1", prompts=8, pieces=4, table_on_host=True)


def teachers():
    """The largest Gemma 4 answers on eight chips, and is distilled into small ones.

    On v5e it is in int8, beside a student whose matrices two chips share. E2B answers
    as many photos on one chip, to tell what it saves.
    """
    rows = {"rank": 0, "prompts": 64, "group": 1}
    yield Gemma4Case(E2B, "answers", "v5e-1", **rows)
    yield Gemma4Case(LARGEST, "answers", "v6e:2x4", **rows, cut=8)
    yield Gemma4Case(LARGEST, "answers", "v5e-8", stored="int8", **rows, cut=8)
    for topology, teacher in (
        ("v5e-8", E4B),
        ("v6e:2x4", LARGEST),
        ("v5p:4x4x1", LARGEST),
    ):
        yield Gemma4Case(E2B, "distillation", topology, prompts=16, teacher=teacher)
    for topology, teacher in (("v5e-8", E4B), ("v6e:2x4", LARGEST)):
        yield TaughtCase(E2B, "rollout", topology, prompts=16, teacher=teacher)
    yield Gemma4Case(E2B, "distillation", "v5e-8", prompts=16, pictures=0)
    for program in ("distillation", "rollout"):
        for student in (E2B, E4B):
            yield OfLargestCase(student, program, "v5e-8", prompts=16, cut=2)
    text = {"prompts": 16, "cut": 2, "pictures": 0}
    yield OfLargestCase(E4B, "distillation", "v5e-8", **text)
    for pictures in (1, 0):
        cut = {"prompts": 8, "pieces": 8, "pictures": pictures}
        yield OneChipCase(E2B, "distillation", "v5e-1", **cut)
    yield OneChipCase(E2B, "rollout", "v5e-1", prompts=8)


def far():
    """Past this machine: 70 billion parameters on 64 chips, one model on 1 to 256.

    The first is also compiled with its matrices whole where they are used.
    """
    for program in ("grpo", "gspo"):
        yield LargeCase(LARGE, program, "v5p:4x4x4")
    yield LargeCase(LARGE, "grpo", "v5p:4x4x4", cut=1)
    for topology, chips in zip(SWEEP, (1, 8, 64, 256), strict=True):
        pieces = 4 if chips == 1 else 1  # alone, it holds all of the optimizer's state
        yield Case(QWEN3, "grpo", topology, rank=0, prompts=16 * chips, pieces=pieces)


def long_texts():
    """SFT on rows that are long enough to look at themselves through a kernel."""
    one = {"prompts": 4, "prompt_tokens": 1024, "completion_tokens": 1024}
    eight = {"prompts": 8, "prompt_tokens": 4096, "completion_tokens": 4096}
    ours = [Case(model, "sft", "v5e-1", **one) for model in (QWEN, GEMMAS[1])]
    return [*ours, Case(QWEN, "sft", "v5e-8", **eight)]


def cases():
    """All of them, the presets' first."""
    ours = [*shipped(), *few_rows(), *larger(), *far(), *families(), *choices()]
    ours += long_texts()
    return [*ours, *seeing(), *four_bits(), *students(), *on_host(), *teachers()]
