"""Where the TPU's compiler is: libtpu, installed aside of the environment.

In the environment itself JAX would look for a TPU at every start. `make tpu-check` puts
the release that this jax names into build/tpu.
"""

import pathlib
import sys
from importlib import metadata, util

from helpers.runtime.platform import ROOT


def requirement() -> str:
    """The libtpu that the installed jax names, such as "libtpu==0.0.42.*"."""
    needed = metadata.requires("jax") or []
    named = next(x for x in needed if x.startswith("libtpu"))
    return named.split(";")[0].strip()


def folder() -> pathlib.Path:
    """Where `make tpu-check` installs it."""
    return ROOT / "build" / "tpu" / requirement().replace("*", "x")


def find_compiler() -> bool:
    """Whether programs can be compiled for TPUs here; makes libtpu importable if so.

    A libtpu of the environment, as on Colab and Kaggle, comes first.
    """
    if util.find_spec("libtpu") is None and (folder() / "libtpu").is_dir():
        sys.path.append(str(folder()))
    return util.find_spec("libtpu") is not None
