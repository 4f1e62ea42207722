"""A deadline for a whole request: connections are shut when it is over.

The timeouts of HTTP clients begin again with every byte that comes. A server that sends
one now and then, as a head without end say, would hold a conversation for ever.
"""

import contextlib
import socket
import threading


class Deadline:
    """Shuts the connections it was told of after so many seconds; a context.

    Whoever reads from one then finds its end, or an error.
    """

    def __init__(self, seconds):
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True
        self._over, self._lock = False, threading.Lock()
        self._connections: list[socket.socket] = []

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    @property
    def is_over(self) -> bool:
        return self._over

    def trace(self, event, info):
        """What httpx calls with all that happens, as a request's extension "trace"."""
        if not event.endswith(
            (".connect_tcp.complete", ".connect_unix_socket.complete")
        ):
            return
        # A handle of its own: the client's becomes another object under TLS.
        connection = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            self._connections.append(connection)
        if self._over:
            self._shut()

    def _shut(self):
        self._over = True
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):  # it has ended already
                    connection.shutdown(socket.SHUT_RDWR)
