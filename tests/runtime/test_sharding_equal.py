"""Eight simulated devices give the lessons, samples and files of one."""

import pytest
import simulated_devices
from tiny_models import needs_bfloat16

# "cut" comes last: it makes small products go together, in what follows as well.
CHECKS = "blocks sampling saving trainer on_policy pictures mixed dpo cut".split()


@pytest.fixture(scope="module")
def output():
    """What a process says that runs them all; it goes on after one that fails."""
    return simulated_devices.run("sharded.py", *CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_eight_devices_are_one(name, output):
    if name == "on_policy":
        needs_bfloat16()
    assert f"{name}: all the same\n" in output, output
