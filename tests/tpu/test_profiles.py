"""Profiles: recordings written by hand, and recordings of programs that are known."""

import collections
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def test_self_time_is_without_what_the_same_thread_ran_meanwhile(tmp_path):
    one = [("while.1", 10, 100, True), ("dot.2", 20, 30, True), ("add", 60, 10, True)]
    one += [("inner", 25, 5, True), ("end: dot.2", 50, 1, False)]
    other = [("dot.2", 20, 40, True)]
    profile = profiles.read(
        written(tmp_path, ("tf_XLAEigen/1", one), ("tf_XLAEigen/2", other))
    )
    alone = collections.Counter()
    for operation in profile.operations:
        alone[operation.name] += round(operation.self_seconds * 1e6)
        assert operation.program == "jit_f(7)"
    assert alone == {"while.1": 100 - 30 - 10, "dot.2": 25 + 40, "inner": 5, "add": 10}
    assert profile.spans == []  # marks of XLA are nobody's span


def test_a_folder_without_a_recording_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"jax\.profiler\.trace"):
        profiles.read(tmp_path)


@given(
    st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 12)), max_size=8),
    st.integers(0, 10),
    st.integers(11, 40),
)
def test_the_longest_gap_is_that_of_a_walk_over_every_tick(operations, start, end):
    busy = np.zeros(100, bool)
    for begin, length in operations:
        busy[max(begin, 0) : max(begin + length, 0)] = True
    best = run = 0
    for tick in range(start, end):
        run = 0 if busy[tick] else run + 1
        best = max(best, run)
    worked = [(b, s) for b, s in operations if s > 0]
    begin, length = profiles.longest_gap(worked, start, end)
    assert max(length, 0) == best
    assert not best or not busy[begin : begin + length].any()


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
                time.sleep(0.02)
    return folder, chain.lower(a).compile().as_text()


def test_a_known_program_ran_as_often_as_it_was_called(recorded):
    folder, text = recorded
    profile = profiles.read(folder)
    kinds = hlo.operation_kinds(text)
    ran = collections.Counter(
        x.name for x in profile.operations if x.program.startswith("jit_chain(")
    )
    products = {name: n for name, n in ran.items() if kinds[name] == "product"}
    assert list(products.values()) == [CALLS] * PRODUCTS
    spans = [span for span in profile.spans if span.name == "step"]
    assert len(spans) == CALLS
    for span in spans:
        inside = [x for x in profile.within(span).operations if x.name in products]
        assert len(inside) == PRODUCTS
        work = [(x.start, x.seconds) for x in profile.operations]
        assert (
            profiles.longest_gap(work, span.start, span.start + span.seconds)[1] > 0.02
        )


def test_xprof_reads_the_very_programs_that_jax_compiled(recorded):
    pytest.importorskip("xprof")
    folder, text = recorded
    texts = profiles.programs(folder)
    (same,) = (texts[name] for name in texts if "chain" in name)
    mine, theirs = hlo.operation_kinds(text), hlo.operation_kinds(same)
    ran = {x.name for x in profiles.read(folder).operations if "chain" in x.program}
    assert ran and {x: mine[x] for x in ran} == {x: theirs[x] for x in ran}


def test_a_program_from_the_cache_is_known_by_its_operations(recorded, monkeypatch):
    """It runs under the number of the process that compiled it."""
    pytest.importorskip("xprof")
    folder, _ = recorded
    profile = profiles.read(folder)
    (chain,) = {x.program for x in profile.operations if "chain" in x.program}
    moved = [x._replace(program=x.program[:-1] + "99)") for x in profile.operations]
    monkeypatch.setattr(profiles, "read", lambda _: profile._replace(operations=moved))
    texts = profiles.programs(folder)
    assert chain not in texts and "tanh" in texts[chain[:-1] + "99)"]
    lost = [x._replace(name="dot.77") for x in moved]
    monkeypatch.setattr(profiles, "read", lambda _: profile._replace(operations=lost))
    assert profiles.programs(folder) == {}
