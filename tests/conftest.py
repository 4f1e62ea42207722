"""Set before anything imports JAX: tests run on the CPU and share one compile cache."""

import gc
import itertools
import os
import pathlib

import pytest
from hypothesis import HealthCheck, settings
from xla_flags import QUICK

ROOT = pathlib.Path(__file__).resolve().parents[1]

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()
# Processes that tests start look for garbage less often, as this one does.
PATHS = [str(ROOT / "tests" / "quick"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, PATHS))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

# One profile for everybody: nothing depends on how fast the machine is, and a commit's
# verdict does not depend on luck.
settings.register_profile(
    "course",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("course")


MOST_GB = 3  # in a worker, before it forgets its compiled programs
# A compiled program takes some 13 of the 65,530 mappings that Linux grants a process;
# the one for which none is left crashes while it is loaded.
MOST_MAPPINGS = 30_000
TESTS = itertools.count()  # that this process has run
# These take minutes, and come first, so that no worker ends alone with one of them.
LONGEST = ("test_distributed.py", "test_sharding_equal.py", "test_disconnect.py")


def pytest_collection_finish(session):
    """Thousands of tests stay: to look for garbage among them took long in tracing."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_do_not_pile_up():
    """What JAX keeps of one file's programs helps the next little, and grew to 7 GB."""
    yield
    if memory_gb() > MOST_GB:
        forget_programs()


@pytest.fixture(autouse=True)
def _no_process_runs_out_of_mappings():
    """Counted after every eighth test: a long file alone can make thousands."""
    yield
    if next(TESTS) % 8 == 7 and mappings() > MOST_MAPPINGS:
        forget_programs()


def forget_programs():
    """Those that JAX keeps, in case they are called again."""
    import jax

    jax.clear_caches()
    gc.collect()


def mappings():
    """How many stretches of memory this process has mapped; 0 where /proc is not."""
    maps = pathlib.Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


def memory_gb():
    """What this process holds in memory, in GB; 0 where Linux does not tell it."""
    statm = pathlib.Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def families(tmp_path_factory):
    """A small tokenizer of each family, loaded from a folder without a template."""
    import family_tokenizers

    from helpers.text import chat

    def load(name):
        folder = tmp_path_factory.mktemp(name)
        return chat.load_tokenizer(family_tokenizers.save(folder, name))

    return {name: load(name) for name in family_tokenizers.SPECIAL}
