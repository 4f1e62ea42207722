"""What is known of TPUs, and what their compiler says."""

from helpers.tpu import chips, hlo, profiles, roofline, topology, where_time_goes
from helpers.tpu.ahead_of_time import compile_for, mesh
from helpers.tpu.find_libtpu import find_compiler
from helpers.tpu.generations import GENERATIONS

__all__ = [
    "GENERATIONS",  # published facts
    "chips",  # memory and load, now
    "compile_for",  # compile for chips that are not here
    "find_compiler",  # is libtpu installed
    "hlo",  # what stands in a compiled program: operations, messages between chips
    "mesh",  # chips of a topology
    "profiles",  # what ran when
    "roofline",  # what a machine can reach
    "topology",  # how chips are linked
    "where_time_goes",  # in a compiled program, by its compiler's reckoning
]
