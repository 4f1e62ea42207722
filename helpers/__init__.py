"""Helpers of the course: one room per concern, imported by name.

    from helpers import runtime, chat, losses

Nothing is imported here, so `import helpers` is quick and touches no network.
"""

__version__ = "0.1.0"
