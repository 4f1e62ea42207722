"""What is known of TPUs, and what their compiler says."""

from helpers.tpu import chips, profiles, roofline, topology
from helpers.tpu.ahead_of_time import compile_for, mesh
from helpers.tpu.find_libtpu import find_compiler
from helpers.tpu.generations import GENERATIONS
from helpers.tpu.hlo import collectives, operation_kinds

__all__ = [
    "GENERATIONS",  # published facts
    "chips",  # memory and load, now
    "collectives",  # what chips tell each other
    "compile_for",  # compile for chips that are not here
    "find_compiler",  # is libtpu installed
    "mesh",  # chips of a topology
    "operation_kinds",  # products, and what only moves numbers
    "profiles",  # what ran when
    "roofline",  # what a machine can reach
    "topology",  # how chips are linked
]
