"""The files that TensorBoard reads: one for each start of a run."""

import time
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary


class TensorBoard:
    """A `training.Logger` that writes event files into a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def start(self, step: int) -> None:
        """Begins a file of its own, which hides what others say of later steps."""
        # The plain event writer: SummaryWriter's thread dies silently on a full disk.
        self.board = EventsWriter(str(self.folder / "events"), f".{step:08d}")
        started = SessionLog(status=SessionLog.START)  # hides events from step + 1 on
        self.board.write_event(Event(step=step + 1, session_log=started))

    def write(self, row: dict[str, float], samples: list[dict]) -> None:
        """Writes the numbers of one step, to the disk at once."""
        values = [Summary.Value(tag=k, simple_value=v) for k, v in row.items()]
        event = {"step": row["step"], "summary": Summary(value=values)}
        self.board.write_event(Event(wall_time=time.time(), **event))
        self.board.flush()
