"""What is worked out of files that seldom change, kept beside the byte code of the module that works it out.

As with byte code: it holds as long as the files have their sizes and times, is written where that folder can be written to and
``PYTHONDONTWRITEBYTECODE`` does not forbid it, and is never needed. Whoever can write there can write the byte code as well.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import zlib
from collections.abc import Iterable


class Kept:
    """Bytes worked out of ``files`` by the module in ``module``, a path; one place for each ``name``."""

    def __init__(self, module: str, name: str, files: Iterable[str]) -> None:
        self._path = ""
        with contextlib.suppress(OSError, NotImplementedError):
            stated = [(file, os.stat(file)) for file in (module, *files)]  # noqa: PTH116
            self._key = repr([(file, s.st_size, s.st_mtime_ns) for file, s in stated]).encode()
            self._path = f"{importlib.util.cache_from_source(module)}.{name}"

    def read(self) -> bytes | None:
        """The bytes; None where there are none, or the files have changed."""
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123  (pathlib costs a part of what this saves)
                head, data = file.readline(), file.read()
        except OSError:
            return None
        return data if head == self._head(data) else None

    def write(self, data: bytes) -> None:
        """Keeps the bytes, or does not."""
        if sys.dont_write_bytecode or not self._path:
            return
        passing = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)  # noqa: PTH103, PTH120
            try:
                with open(passing, "xb") as file:  # noqa: PTH123
                    file.write(self._head(data) + data)
                os.replace(passing, self._path)  # noqa: PTH105
            except OSError:
                os.unlink(passing)  # noqa: PTH108

    def _head(self, data: bytes) -> bytes:
        return b"%x %x\n" % (zlib.crc32(self._key), zlib.crc32(data))
