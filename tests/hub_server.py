"""A model hub on this machine, for tests: what huggingface_hub asks for, and faults.

It speaks HTTP over a real socket: a cut is a connection that is closed, and a silent
hub one that stays open. Only what a test names goes wrong, once for each time named.
"""

import contextlib
import hashlib
import http.server
import json
import re
import threading
import time
import types
import urllib.parse

from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

MODEL, COMMIT = "team/small", "a" * 40
PATIENCE = 5  # seconds that a silent hub is silent, for clients that wait for ever


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def cut(at):
    """Closes the connection after so many bytes of those that were asked for."""
    return lambda handler, content: handler.send(content, content[:at])


def stalled(at):
    """Sends so many bytes, and then nothing, with the connection open."""

    def answer(handler, content):
        handler.send(content, content[:at])
        handler.server.released.wait(PATIENCE)

    return answer


def slow(parts, pause):
    """Sends all, but in so many parts with a pause between (seconds)."""

    def answer(handler, content):
        handler.send(content, b"")
        step = -(-len(content) // parts)
        for start in range(0, len(content), step):
            handler.server.released.wait(pause)
            handler.wfile.write(content[start : start + step])

    return answer


def other(change):
    """Sends another content, with headers that fit it; the hub states the old one."""

    def answer(handler, content):
        handler.send(change(content), change(content))

    return answer


class Hub(http.server.ThreadingHTTPServer):
    """Serves one model.

    Args:
      files: {name: content}; safetensors are in LFS, as on the real hub.
    Attributes:
      asked: ("GET", "config.json", Range header or None) for each request of a file,
        and ("GET", "/api/…", None) for each of the hub's API.
      tokens: what stood in the Authorization headers.
      refused: {part of a path: (status, headers, body)}, answered while it is here.
      silent: parts of paths that are never answered, with the connection open.
      faults: {file: [what goes wrong with a GET of it, in turn]}: `cut` and so on.
      etag: makes the ETag header of a file's content.
      links: whether files in LFS have the header with their SHA-256, too.
    """

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.refused, self.silent, self.faults = files, {}, [], {}
        self.asked, self.tokens = [], set()
        self.etag, self.links = lambda content: f'"{git_sha1(content)}"', True
        self.released = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def downloads(self, name):
        """The Range headers of the GETs of a file, in turn."""
        return [
            range_ for verb, path, range_ in self.asked if (verb, path) == ("GET", name)
        ]

    def handle_error(self, request, client_address):
        pass  # a client that hung up


@contextlib.contextmanager
def running(files):
    """A Hub that answers; afterwards its port is closed."""
    hub = Hub(files)
    # Its loop looks twice a second by default whether it is to end.
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        hub.shutdown()
        hub.server_close()


@contextlib.contextmanager
def alone(monkeypatch, cache, files):
    """A Hub that is the only one known to huggingface_hub; the cache is empty.

    Between two tries there is no pause, and 1 kB of a file is written at a time.
    """
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1_000)
    hasty = types.SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
    for module in (file_download, _http):
        monkeypatch.setattr(module, "time", hasty)
    with running(files) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        _, _, path, query, _ = urllib.parse.urlsplit(self.path)
        self.server.tokens.add(self.headers.get("Authorization"))
        resolve = re.fullmatch(rf"/{MODEL}/resolve/[^/]+/(.+)", path)
        name = resolve[1] if resolve else path
        self.server.asked.append((self.command, name, self.headers.get("Range")))
        if any(part in path for part in self.server.silent):
            self.server.released.wait(PATIENCE)
        for part, (status, headers, body) in self.server.refused.items():
            if part in path:
                return self.reply(status, body, headers)
        if resolve and name in self.server.files:
            return self.file(name)
        page = f"/api/models/{MODEL}"
        if path in (page, f"{page}/revision/main", f"{page}/revision/{COMMIT}"):
            siblings = [
                {"rfilename": name}
                | (stated(name, content) if "blobs=" in query else {})
                for name, content in self.server.files.items()
            ]
            return self.json({"id": MODEL, "sha": COMMIT, "siblings": siblings})
        if path == f"{page}/tree/{COMMIT}":
            return self.json([entry(*item) for item in self.server.files.items()])
        return self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def file(self, name):
        content = self.server.files[name]
        self.headers_of_file = {
            "ETag": self.server.etag(content),
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        if in_lfs(name) and self.server.links:
            self.headers_of_file |= {
                "X-Linked-ETag": f'"{sha256(content)}"',
                "X-Linked-Size": str(len(content)),
            }
        if self.command == "HEAD":
            return self.send(content, b"")
        faults = self.server.faults.get(name)
        answer = faults.pop(0) if faults else cut(None)
        return answer(self, content)

    def send(self, content, sent):
        """The headers of a file's content, or of the part asked for, and some bytes."""
        headers, status = self.headers_of_file, 200
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(asked[1]), 206
            headers["Content-Range"] = (
                f"bytes {start}-{len(content) - 1}/{len(content)}"
            )
            content, sent = content[start:], content[start:][: len(sent)]
        self.reply(status, sent, headers | {"Content-Length": str(len(content))})

    def json(self, content):
        self.reply(200, json.dumps(content).encode(), {})

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def in_lfs(name):
    return name.endswith(".safetensors")


def stated(name, content):
    """What the hub's page of a model says of a file if it is asked to; git's id of a
    file in LFS is that of its pointer."""
    size = len(content)
    if in_lfs(name):
        lfs = {"sha256": sha256(content), "size": size, "pointerSize": 134}
        return {"size": size, "blobId": "d" * 40, "lfs": lfs}
    return {"size": size, "blobId": git_sha1(content)}


def entry(name, content):
    """A file as the hub's listing has it."""
    listed = {
        "type": "file",
        "path": name,
        "size": len(content),
        "oid": git_sha1(content),
    }
    if in_lfs(name):
        lfs = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
        listed["lfs"] = lfs
    return listed
