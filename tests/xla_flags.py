"""How XLA compiles tests and notebooks: sooner, for most of their time is its own.

`python tests/xla_flags.py` prints the flags for notebooks. Compilers before jaxlib 0.11
write loops in two ways, the older one sooner; newer ones stop at that flag.
"""

from importlib import metadata

JAXLIB = tuple(map(int, metadata.version("jaxlib").split(".")[:2]))
LOOPS = " --xla_cpu_use_fusion_emitters=false" if JAXLIB < (0, 11) else ""
# Tests: by LLVM's level 0, an update in a quarter of the time.
QUICK = f"--xla_backend_optimization_level=0{LOOPS}"
# Notebooks train for minutes: two thirds of the time, and as fast. Their last digits
# are others, as they are on another machine, and their assertions must hold there.
SOONER = f"--xla_backend_optimization_level=1{LOOPS}"
SOONER += " --xla_llvm_disable_expensive_passes=true"

if __name__ == "__main__":
    print(SOONER)
