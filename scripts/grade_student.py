"""The student's process of `make grade`: runs one notebook's cells, locked in.

It is asked by its judge (scripts/grade_judge.py) over a socket: to run a cell, to call
what the cell made. What it says is taken for answers, and never for a verdict.
"""

import ast
import json
import os
import socket
import sys

from scripts import grade_sandbox
from scripts.grade_wire import Peer


class Remote:
    """Stands for something of the judge's that an answer is called with."""

    def __init__(self, peer, number, name=None):
        self._peer, self._number_there, self._name = peer, number, name

    def __call__(self, *args, **named):
        reply = self._peer.ask(
            what="call",
            of=self._number_there,
            name=self._name,
            args=self._peer.encode(args),
            named=self._peer.encode(named),
        )
        return self._peer.decode(reply["value"])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Remote(self._peer, self._number_there, name)


class Student:
    """What the judge may ask for; `names` are those of the notebook."""

    def __init__(self):
        self.names = {"__name__": "__main__", "display": lambda *_: None}

    def __call__(self, peer, request):
        return getattr(self, f"do_{request['what']}")(peer, request)

    def do_imports(self, peer, request):
        """Runs an import cell."""
        exec(compile(request["source"], "imports", "exec"), self.names)
        return {}

    def do_run(self, peer, request):
        """Runs an exercise's cell; gives the values of the names that are asked for."""
        exec(compile(request["source"], "your cell", "exec"), self.names)
        return {name: peer.encode(self.names[name]) for name in request["names"]}

    def do_call(self, peer, request):
        """Calls what is kept under a number; also says how that left its arguments."""
        target = peer.own[request["of"]]
        if request["name"] is not None:
            target = getattr(target, request["name"])
        args = peer.decode(request["args"])
        value = target(*args, **peer.decode(request["named"]))
        return {"value": peer.encode(value), "args": peer.encode(args)}

    def do_get(self, peer, request):
        return {"value": peer.encode(getattr(peer.own[request["of"]], request["name"]))}

    def do_slope(self, peer, request):
        """The derivative of a function, for checks that take a gradient of it."""
        import jax

        args = peer.decode(request["args"])
        _, back = jax.vjp(peer.own[request["of"]], *args)
        slopes = back(peer.decode(request["slope"]))
        whole = jax.dtypes.float0  # of arguments that are whole numbers: no slope
        slopes = tuple(None if s.dtype == whole else s for s in slopes)
        return {"value": peer.encode(slopes)}

    def do_check(self, peer, request):
        """Runs the check here, for an answer that only JAX itself can call."""
        call = ast.parse(request["source"], mode="eval")
        verdict = eval(compile(call, "check", "eval"), self.names)
        return {"passed": bool(verdict.passed), "message": str(verdict.message)}


def main() -> None:
    """Arguments: the socket's number, and what `grade_sandbox.lock` takes, as JSON."""
    number, limits = int(sys.argv[1]), json.loads(sys.argv[2])
    line = socket.socket(fileno=number)
    os.chdir(limits["folder"])
    left_open = grade_sandbox.lock(**limits)
    peer = Peer(line, Student(), Remote)
    peer.ask(what="ready", left_open=left_open)
    peer.listen()


if __name__ == "__main__":
    main()
