"""Google's storage, emulated, with the generations that the emulator leaves out.

Google tells with every answer which generation of an object it is of, and refuses
what was asked for or written under a condition on it that does not hold. TensorStore
goes by both: without them it takes what it has got for an object that has changed
under its hands ("Malformed StorageGeneration"), if another thread was faster.
"""

import sys

from gcp_storage_emulator import __main__ as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import HTTPStatus


def generation(storage, request, name):
    """Of the object as it is now, 0 where there is none."""
    try:
        there = storage.get_file_obj(request.params["bucket_name"], name)
    except NotFound:
        return 0
    return int(there["generation"])


def asked(request, condition):
    """The generation in the query, None without one."""
    value = request.query.get(condition)
    return int(value[0]) if value else None


def conditional(handler, failed):
    """A handler that answers with a generation, or refuses if conditions fail."""

    def handle(request, response, storage):
        name = request.params.get("object_id") or request.query["name"][0]
        now = generation(storage, request, name)
        if asked(request, "ifGenerationMatch") not in (None, now):
            response.status = HTTPStatus.PRECONDITION_FAILED
        elif now and asked(request, "ifGenerationNotMatch") == now:
            response.status = failed
        else:
            handler(request, response, storage)
            response["X-Goog-Generation"] = str(generation(storage, request, name))

    return handle


if __name__ == "__main__":
    objects.download = conditional(objects.download, HTTPStatus.NOT_MODIFIED)
    objects._media_upload = conditional(
        objects._media_upload, HTTPStatus.PRECONDITION_FAILED
    )
    emulator.main(sys.argv[1:])
