"""Checks that 8 simulated devices hold and compute what they should, in one process.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/sharded.py NAME …

The names are those of CHECKS. It goes on after a check that fails.
"""

import functools
import sys
import traceback

import jax
import on_policy
import sharded_blocks
import sharded_gemma4_sights
import sharded_lessons
import sharded_run
import sharded_saving

CHECKS = {
    "blocks": sharded_blocks.main,
    "sampling": sharded_lessons.check_what_is_sampled,
    "saving": sharded_saving.main,
    "trainer": sharded_run.main,
    "on_policy": on_policy.main,
    "pictures": sharded_gemma4_sights.main,
}
for name in sharded_lessons.LESSONS:
    CHECKS[name] = functools.partial(sharded_lessons.check_lesson, name)

if __name__ == "__main__":
    assert len(jax.devices()) == 8
    for name in sys.argv[1:]:
        try:
            CHECKS[name]()
            print(f"{name}: all the same", flush=True)
        except Exception:
            print(f"{name}: {traceback.format_exc()}", flush=True)
