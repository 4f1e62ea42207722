"""The package of the course: twenty rooms, each with a door.

    from helpers.training import Trainer, objectives

A room's `__init__.py` is its door: the names that others use. Rooms stand in the order
in which data flows through them, and each may import those before it, never after.
Nothing is imported here, so `import helpers` is quick and touches no network.
"""

__version__ = "0.1.0"

ROOMS = (
    "runtime text batches losses model tools rewards training generation serving tasks "
    "evaluation tpu plots scale handover recipes course app exercises"
).split()
