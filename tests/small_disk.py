"""A disk that is full, for tests."""

import contextlib
import resource


@contextlib.contextmanager
def disk_of(bytes_per_file):
    """No file grows beyond this: writing raises EFBIG where a full disk has ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_per_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
