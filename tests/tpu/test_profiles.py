"""Profiles: recordings written by hand, and recordings of programs that are known."""

import collections

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

from helpers.tpu import hlo, profiles


def written(folder, *lines):
    """A recording with these lines; a line is its name and its events.

    An event is (name, start and duration in microseconds, whether XLA's operation).
    """
    names = sorted({event[0] for _, events in lines for event in events})
    stats = ["hlo_op", "hlo_module", "program_id"]
    text = "".join(
        f'{kind}_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }}\n'
        for kind, known in (("stat", stats), ("event", names))
        for i, name in enumerate(known, 1)
    )
    for line, events in lines:
        text += f'lines {{ name: "{line}"\n'
        for name, start, duration, ran in events:
            text += f"events {{ metadata_id: {names.index(name) + 1} "
            text += f"offset_ps: {start}000000 duration_ps: {duration}000000\n"
            if ran:
                text += f'stats {{ metadata_id: 1 str_value: "{name}" }}\n'
                text += 'stats { metadata_id: 2 str_value: "jit_f" }\n'
                text += "stats { metadata_id: 3 int64_value: 7 }\n"
            text += "}\n"
        text += "}\n"
    place = folder / "plugins" / "profile" / "now"
    place.mkdir(parents=True)
    text = f'planes {{ name: "/host:CPU"\n{text}}}'
    made = ProfileData.text_proto_to_serialized_xspace(text)
    (place / "host.xplane.pb").write_bytes(made)
    return folder


def test_operations_and_spans_come_by_their_start(tmp_path):
    one = [("while.1", 10, 100, True), ("dot.2", 20, 30, True)]
    one += [("end: dot.2", 50, 1, False)]  # a mark of XLA is nobody's span
    python = [("step", 5, 120, False)]
    profile = profiles.read(
        written(
            tmp_path,
            ("tf_XLAEigen/1", one),
            ("tf_XLAEigen/2", [("add", 15, 40, True)]),
            ("python", python),
        )
    )
    assert [x.name for x in profile.operations] == ["while.1", "add", "dot.2"]
    assert {x.program for x in profile.operations} == {"jit_f(7)"}
    assert [round(x.seconds * 1e6) for x in profile.operations] == [100, 40, 30]
    assert [x.name for x in profile.spans] == ["step"]


def test_a_folder_without_a_recording_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"jax\.profiler\.trace"):
        profiles.read(tmp_path)


PRODUCTS, CALLS = 3, 5


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Three products in a row and a transposed copy, run five times under one name."""

    @jax.jit
    def chain(a):
        for _ in range(PRODUCTS):
            a = jnp.tanh(a @ a)
        return a, jax.lax.optimization_barrier(a).T.reshape(-1)

    a = jnp.full((192, 192), 0.01)
    jax.block_until_ready(chain(a))
    folder = tmp_path_factory.mktemp("run")
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(folder, profiler_options=options):
        for _ in range(CALLS):
            with jax.profiler.TraceAnnotation("step"):
                jax.block_until_ready(chain(a))
    return folder, chain.lower(a).compile().as_text()


def test_a_known_program_ran_as_often_as_it_was_called(recorded):
    folder, text = recorded
    profile = profiles.read(folder)
    program = hlo.Program(text)
    ran = collections.Counter(
        x.name for x in profile.operations if x.program.startswith("jit_chain(")
    )

    def is_product(name):
        part = program.named[name]  # on some CPUs a call of a library
        return part.opcode == "custom-call" or hlo.kind(program, part) == "product"

    products = {name: n for name, n in ran.items() if is_product(name)}
    assert list(products.values()) == [CALLS] * PRODUCTS
    spans = [span for span in profile.spans if span.name == "step"]
    assert len(spans) == CALLS
    for span in spans:
        inside = [x for x in profile.within(span) if x.name in products]
        assert len(inside) == PRODUCTS
