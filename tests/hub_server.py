"""A model hub on this machine, for tests: it answers what huggingface_hub asks for."""

import contextlib
import hashlib
import http.server
import json
import re
import threading
import time
import types
import urllib.parse

from huggingface_hub import constants
from huggingface_hub.utils import _http

MODEL, COMMIT = "team/small", "a" * 40


class Hub(http.server.ThreadingHTTPServer):
    """Serves one model.

    Args:
      files: {name: content}.
    Attributes:
      downloads: names of the files that were sent.
      tokens: what stood in the Authorization headers.
      refused: {part of a path: (status, headers, body)}, answered while it is here.
    """

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.refused = files, {}
        self.downloads, self.tokens = [], set()
        self.address = f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def alone(monkeypatch, cache, files):
    """A Hub that is the only one huggingface_hub knows; the cache is empty."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    hasty = types.SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
    monkeypatch.setattr(_http, "time", hasty)  # no pause between two tries
    hub = Hub(files)
    # Its loop looks twice a second by default whether it is to end.
    threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        self.server.tokens.add(self.headers.get("Authorization"))
        for part, (status, headers, body) in self.server.refused.items():
            if part in path:
                return self.reply(status, body, headers)
        resolve = re.fullmatch(rf"/{MODEL}/resolve/[^/]+/(.+)", path)
        if resolve and resolve[1] in self.server.files:
            return self.file(resolve[1])
        page, files = f"/api/models/{MODEL}", self.server.files.items()
        if path in (page, f"{page}/revision/main", f"{page}/revision/{COMMIT}"):
            siblings = [{"rfilename": name} for name, _ in files]
            content = {"id": MODEL, "sha": COMMIT, "siblings": siblings}
            return self.reply(200, json.dumps(content).encode(), {})
        if path == f"{page}/tree/{COMMIT}":
            listed = [
                {"type": "file", "path": name, "size": len(x), "oid": git_id(x)}
                for name, x in files
            ]
            return self.reply(200, json.dumps(listed).encode(), {})
        return self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def file(self, name):
        content = self.server.files[name]
        if self.command == "GET":
            self.server.downloads.append(name)
        headers = {"ETag": f'"{git_id(content)}"', "X-Repo-Commit": COMMIT}
        self.reply(200, content, headers)

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def git_id(content):
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
