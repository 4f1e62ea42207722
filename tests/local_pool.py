"""A pool of workers in this process, for what needs no Ray: each a thread of its own.

What may happen to real workers happens here on request, by piece and attempt.
"""

import concurrent.futures
import time

from helpers.scale.workers import Worker, WorkerLost


class LocalPool:
    """Workers of this process.

    Args:
      make: as for `Worker`.
      count: of workers.
      fate: `fate(worker, how_many_requests, piece) -> piece`: may change what is sent
        back, sleep, raise WorkerLost or hang on an event.
    """

    def __init__(self, make, count=1, fate=lambda worker, count, piece: piece):
        self.make, self.fate = make, fate
        self.members = {number: Worker(make) for number in range(count)}
        self.threads = concurrent.futures.ThreadPoolExecutor(16)
        self.requests, self.replaced = 0, []

    def require_running(self):
        """Threads run as long as this process does."""

    def workers(self):
        return sorted(self.members)

    def publish(self, version, arrays):
        self.newest = version, arrays

    def submit(self, worker, request):
        self.requests += 1  # by one thread
        member, newest, count = self.members[worker], self.newest, self.requests
        return self.threads.submit(self._answer, worker, member, newest, request, count)

    def _answer(self, worker, member, newest, request, count):
        if member.version != newest[0]:
            member.load(*newest)
        return self.fate(worker, count, member.answer(request))

    def finished(self, handles, seconds):
        if not handles:
            time.sleep(seconds / 10)
            return []
        wait = concurrent.futures.wait
        return wait(handles, seconds, concurrent.futures.FIRST_COMPLETED).done

    def result(self, handle):
        try:
            return handle.result()
        except WorkerLost:
            raise
        except Exception as error:
            raise WorkerLost(f"{type(error).__name__}: {error}") from None

    def replace(self, worker):
        self.replaced.append(worker)
        self.members[worker] = Worker(self.make)
