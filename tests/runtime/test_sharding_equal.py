"""Eight simulated devices and one give the same lessons, samples and files."""

import pytest
import simulated_devices

LESSONS = "sampling mixed dpo distillation adapters cut".split()


@pytest.fixture(scope="module")
def lessons():
    """The output of a process that runs them all; it goes on after one that fails."""
    return simulated_devices.run("sharded_lessons.py", *LESSONS)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_eight_devices_are_one(lesson, lessons):
    assert f"{lesson}: all the same\n" in lessons, lessons


@pytest.mark.slow
def test_eight_devices_save_as_one():
    output = simulated_devices.run("sharded_saving.py")
    assert output.strip().endswith("all the same")
