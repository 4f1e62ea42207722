"""Eight simulated devices and one give the same lessons, samples, sight and files."""

import pytest
import simulated_devices

LESSONS = "sampling mixed distillation adapters cut".split()


@pytest.fixture(scope="module")
def lessons():
    """The output of a process that runs them all; it goes on after one that fails."""
    return simulated_devices.run("sharded_lessons.py", *LESSONS)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_eight_devices_are_one(lesson, lessons):
    assert f"{lesson}: all the same\n" in lessons, lessons


@pytest.mark.slow
@pytest.mark.parametrize("what", ["vision", "saving"])
def test_eight_devices_see_and_save_as_one(what):
    output = simulated_devices.run(f"sharded_{what}.py", what)
    assert output.strip().endswith("all the same")
