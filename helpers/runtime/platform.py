"""The platform this runs on: where files go, tokens, and how programs are compiled."""

import functools
import os
import pathlib
import sys
import tempfile

import jax

ROOT = pathlib.Path(__file__).resolve().parents[2]


def where() -> str:
    """The platform this runs on: "colab", "kaggle" or "laptop" (anything else)."""
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        return "colab"
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    return "laptop"


def build_folder() -> pathlib.Path:
    """Where everything made goes: COURSE_BUILD, else build/ beside helpers/."""
    return pathlib.Path(os.environ.get("COURSE_BUILD") or ROOT / "build").resolve()


def run_folder(name: str) -> pathlib.Path:
    """The folder of the training run `name`: its checkpoints, logs and final model."""
    return build_folder() / "runs" / name


def numbered(folder) -> list:
    """Paths of a folder that are named by a number, as checkpoints are, lowest first.

    Not "7.backup", nor "00000009 (1)", as Google Drive calls a copy.

    Args:
      folder: need not be there.
    """
    paths = folder.iterdir() if folder.is_dir() else ()
    named = [path for path in paths if path.name.isascii() and path.name.isdigit()]
    return sorted(named, key=lambda path: int(path.name))


def seed() -> int:
    """The seed of this run of the course: COURSE_SEED, else 0.

    Raises:
      ValueError: it is not a whole number from 0 to 999,999; the notebooks make the
        seeds of their parts from it.
    """
    text = os.environ.get("COURSE_SEED") or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError(
            f"COURSE_SEED is {text!r}: unset it, or set a whole number up to 999999."
        )
    return int(text)


def model_folder(name: str) -> pathlib.Path:
    """Where the run `name` saves its finished model, for `weights.save`."""
    return run_folder(name) / "model"


DRIVE = pathlib.Path("/content/drive")
OUTPUT = pathlib.Path("/kaggle/working")
NAME = "llm-post-training-course"


def use_persistent_storage() -> pathlib.Path:
    """Sends everything made from here on to storage that outlives this machine.

    A free machine is taken away within hours, and its disk with it. On Colab this
    mounts Google Drive, which asks for permission; on Kaggle it uses the output folder.
    Elsewhere, and where COURSE_BUILD is set, nothing changes. Call it in each session
    before the first run; it prints the runs that are already there.

    Returns:
      `runtime.build_folder()` from now on.
    Raises:
      OSError: nothing can be written there.
    """
    place = None if os.environ.get("COURSE_BUILD") else _PLACES[where()]()
    require_writable(place or build_folder())
    if place:
        os.environ["COURSE_BUILD"] = str(place)
    folder = build_folder()
    print(f"runs are kept in {folder}")
    runs = folder / "runs"
    for run in sorted([*runs.glob("*"), *runs.glob("*/*")]):  # 15's have two stages
        if (progress := _progress(run)) and not run.name.startswith("earlier-"):
            print(f"  found there: {run.relative_to(runs)}, {progress}")
    return folder


def require_writable(folder: pathlib.Path) -> None:
    """Makes a folder, and writes a temporary byte there.

    Raises:
      OSError: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
    except OSError as error:
        raise OSError(
            f"Nothing can be written to {folder}: {error.strerror or error}. Make room "
            "there, or set COURSE_BUILD to a place where you may write."
        ) from None


def _on_drive():
    from google.colab import drive

    try:
        drive.mount(str(DRIVE))
    except Exception as error:  # Colab's own kinds: leave was not given, or no answer
        print(
            f"Google Drive could not be mounted ({error}): runs stay on this machine "
            "and are lost with it. Run this cell again and allow it."
        )
        return None
    return DRIVE / "MyDrive" / NAME


def _on_kaggle():
    print(
        "Kaggle keeps the output folder if Session options → Persistence is set to "
        "'Files only', or when a version is saved."
    )
    return OUTPUT / NAME


_PLACES = {"colab": _on_drive, "kaggle": _on_kaggle, "laptop": lambda: None}


def _progress(run):
    """How far a run has come, in words; "" for a folder without a run."""
    if (run / "model").is_dir():
        return "finished"
    saved = numbered(run / "checkpoints")
    return f"to step {int(saved[-1].name)}" if saved else ""


class TokenMissing(LookupError):
    """There is no token of this name; the message says where to put one."""


def token(name: str = "HF_TOKEN") -> str:
    """A secret by name: Colab's secrets, then Kaggle's, then the environment.

    Raises:
      TokenMissing: it is nowhere.
    """
    # With a pasted line break, a client's error would print the token.
    secret = (_platform_secret(name) or os.environ.get(name) or "").strip()
    if secret:
        return secret
    raise TokenMissing(
        f"No token {name} was found. Make one at huggingface.co/settings/tokens, and "
        "set it in the environment or as a secret: the key in Colab's left bar, or "
        "Add-ons → Secrets on Kaggle. Gated models (Gemma 3 and Llama) need one."
    )


def _platform_secret(name: str) -> str | None:
    """The platform's secret of this name, or None."""
    try:
        if where() == "colab":
            from google.colab import userdata

            return userdata.get(name)
        if where() == "kaggle":
            from kaggle_secrets import UserSecretsClient

            return UserSecretsClient().get_secret(name)
    except Exception:  # of their own kinds: not there, not granted, no net
        pass
    return None


# --- how programs are compiled, and how exactly an accelerator multiplies ---

# On CPUs LLVM optimises at its level 1 instead of 3. Updates and sampling then compile
# in four fifths of the time and run as fast, because most of their time goes into
# matrix products, which come from a library. Accelerators are not affected.
CPU_OPTIONS = {"xla_backend_optimization_level": 1}


def keep_programs(folder, least_seconds: float = 0.3) -> None:
    """Stores compiled programs in a folder, and reuses those of an earlier run.

    A second trainer of the same shapes, and a notebook that is run again, then start
    at once. A folder in JAX_COMPILATION_CACHE_DIR goes before this one.

    Args:
      folder: on this machine's disk, because programs are compiled for its processor.
      least_seconds: programs that compile faster are not stored.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)


def cpu_options() -> dict[str, int]:
    """CPU_OPTIONS without those that XLA_FLAGS in the environment set."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in CPU_OPTIONS.items() if name not in flags}


def jit(function, **settings):
    """`jax.jit(function, **settings)`, compiled with `cpu_options` on a CPU.

    Inside another `jax.jit`, whose options decide, call the result's attribute `plain`:
    `jax.jit(function, **settings)` and nothing else.
    """
    plain = jax.jit(function, **settings)
    quick = jax.jit(function, compiler_options=cpu_options(), **settings)

    @functools.wraps(function)
    def run(*args, **kwargs):
        # Looked up here and not at import, because it starts the backend.
        return (quick if jax.default_backend() == "cpu" else plain)(*args, **kwargs)

    run.plain = plain  # type: ignore[attr-defined]
    return run


# The environment's, or None.
_PRECISION = jax.config.values["jax_default_matmul_precision"]


def multiply_as_written(wanted: bool = True) -> None:
    """Computes products of float32 in float32 from here on; False undoes it.

    TPUs and newer GPUs round the factors to bfloat16 or TF32 otherwise, which is too
    coarse for a lesson's small model. Real weights are bfloat16 anyway. CPUs always
    compute in float32.
    """
    if jax.default_backend() != "cpu":
        value = "highest" if wanted else _PRECISION
        jax.config.update("jax_default_matmul_precision", value)


CPUINFO = pathlib.Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # AMD since 2022, Intel since 2023


def multiplies_bfloat16() -> bool:
    """Whether this processor or GPU has instructions for bfloat16 products.

    With them a product of bfloat16s takes half the time of a float32 one; without them
    it takes longer. GPUs have them from compute capability 8 on (A100, L4; not T4).
    False where it is unknown (only Linux lists them in a file), and with jaxlib 0.7,
    which has no such product on processors.
    """
    if jax.default_backend() == "gpu":
        capability = getattr(jax.devices()[0], "compute_capability", "")
        major = str(capability).partition(".")[0]
        return major.isdigit() and int(major) >= 8  # AMD's have names
    if jax.default_backend() != "cpu" or jax.__version_info__ < (0, 8):
        return False
    if not CPUINFO.is_file():
        return False
    lines = CPUINFO.read_text("utf-8", errors="replace").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not INSTRUCTIONS.isdisjoint(flags.split())
