"""TPUs: published facts, what their compiler says without one, and profiles of runs."""

from helpers.tpu import profiles, where_time_goes
from helpers.tpu.compiler import compile_for, find_compiler, mesh
from helpers.tpu.hlo import collectives
from helpers.tpu.topology import GENERATIONS

__all__ = [
    "GENERATIONS",  # published facts
    "collectives",  # messages between chips in a compiled program
    "compile_for",  # compile for chips that are not here
    "find_compiler",  # is libtpu installed
    "mesh",  # chips of a slice
    "profiles",  # what ran when
    "where_time_goes",  # in a compiled program, by the compiler's estimates
]
