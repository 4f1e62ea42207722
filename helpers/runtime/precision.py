"""How exactly an accelerator multiplies float32: as written, or as fast as it can.

TPUs, and newer GPUs, round the factors of float32 products (to bfloat16, to TF32)
unless told otherwise. A lesson's small model is held to equations at 1e-3 and finer, so
it is multiplied as written; real weights are bfloat16 anyway, and want the speed.
"""

import jax

_OWN = jax.config.values["jax_default_matmul_precision"]  # the environment's, or None


def multiply_as_written(wanted: bool = True) -> None:
    """Has products of float32 computed in float32, from here on; False: as before.

    Nothing changes on CPUs, which do so anyway.
    """
    if jax.default_backend() != "cpu":
        value = "highest" if wanted else _OWN
        jax.config.update("jax_default_matmul_precision", value)
