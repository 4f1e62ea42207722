"""The default preset's programs, compiled with Colab's jax and its libtpu.

    make tpu-floor

The rows join `data/results/tpu_fit.csv`; their column `versions` tells them apart.
"""

import subprocess
import sys

from scripts import colab_check, tpu_check


def main():
    """Installs the course beside Colab's packages, and compiles there."""
    with colab_check.machine("colab") as colab:
        pins = [f"{name}=={version}" for name, version in colab.packages().items()]
        keep = colab.home / "keep.txt"
        keep.write_text("\n".join(pins))
        pip = [colab.python, "-m", "pip", "install", "-q", "-c", keep, "-e"]
        clean = colab_check.clean_environment()
        colab_check.run([*pip, tpu_check.ROOT], colab_check.Failed, env=clean)
        command = [colab.python, "-m", "scripts.tpu_check", "--preset", "v5e-1"]
        return subprocess.run(command, cwd=tpu_check.ROOT, env=clean).returncode


if __name__ == "__main__":
    sys.exit(main())
