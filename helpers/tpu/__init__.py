"""TPUs: published facts, what their compiler says without one, and profiles of runs."""

from helpers.tpu import (
    profiles,  # what ran when
    where_time_goes,  # in a compiled program, by the compiler's estimates
)
from helpers.tpu.compiler import (
    compile_for,  # compile for chips that are not here
    find_compiler,  # is libtpu installed
    mesh,  # chips of a slice
)
from helpers.tpu.hlo import collectives  # messages between chips in a compiled program
from helpers.tpu.topology import GENERATIONS  # published facts
