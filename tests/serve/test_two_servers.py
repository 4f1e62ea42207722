"""Teacher and student behind two servers, each a process: swapped, killed, back."""

import engines
import pytest

from helpers.app.chat import converse, portions
from helpers.app.server import OpenAIServer
from helpers.tasks.food import food_pictures, food_traces
from helpers.tools import nutrition
from helpers.tools.tool import Tool

NAMES = ("food_grpo", "food_sft")
TINY = engines.ROOT / "data" / "tiny"
TOOLS = [nutrition.TOOL]


@pytest.fixture(scope="module")
def rows():
    shown = food_pictures.generate(8, seed=3, split="test")
    return list(food_traces.ask(shown, seed=3))


def asked(backend, row, tools=TOOLS):
    return list(converse(backend, row["text"], row["image"], tools))


def served(address, name):
    return OpenAIServer(f"{address}/v1", name, tools=TOOLS, timeout=300)


@pytest.mark.slow
def test_a_server_killed_in_the_middle_is_said_and_back_when_it_is_back(rows, tmp_path):
    """It dies while the tool runs, between the two turns of one conversation."""
    log, folder = tmp_path / "log", TINY / NAMES[0]
    with engines.own(folder, log) as (process, address):
        backend = served(address, NAMES[0])
        row, before = next(
            (row, events)
            for row in rows
            if portions(events := asked(backend, row)) and events[-1].kind == "answer"
        )

        def dying(**arguments):
            process.kill()
            process.wait()
            return nutrition.lookup_nutrition(**arguments)

        events = asked(backend, row, [Tool(nutrition.SCHEMA, dying)])
        assert events[:-1] == before[:-1], "what came before it died stays"
        assert events[-1].kind == "error"
        assert f"Nothing answers at {address}/v1" in events[-1].text
        assert "Start the server" in events[-1].text
        assert asked(backend, row)[-1] == asked(backend, row)[-1]
        assert asked(backend, row)[-1].kind == "error"
    with engines.own(folder, log, int(address.rpartition(":")[2])):
        assert asked(backend, row) == before
