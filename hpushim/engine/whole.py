"""All that was found in a project, kept until one of its files is another: then nothing has to be worked out, and no rule be loaded.

It holds for the files that are found under the same paths, each with its kind and its bytes, what is left out and why, the CUDA sources, the
options, and this hpushim with its matrix. Where anything differs, answers are looked for file by file, see :mod:`hpushim.engine.cache`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import msgspec

from hpushim.engine.base.kind import Kind
from hpushim.engine.files.discover import File, Found, discover
from hpushim.engine.files.source import read
from hpushim.engine.store import Store
from hpushim.matrix import Matrix
from hpushim.model import Kernels, Report


class _Kept(msgspec.Struct, array_like=True):
    """A report without the bytes of its files, and what it holds for."""

    #: The kinds of file that some rule may read.
    kinds: frozenset[Kind]
    #: Digests of what else is there, and of each file.
    around: bytes
    files: list[bytes]
    #: Of each result that carries the bytes of its file: where it is, and where the file is.
    before: list[tuple[int, int]]
    report: msgspec.Raw


class Whole:
    """What is kept of the folders at ``paths`` for some options; raises OSError where the user has no folder for it."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path,
        exclude: Sequence[str],
        options: object,
        matrix: Matrix,
        head: bytes,
    ) -> None:
        self._paths, self._root, self._exclude = paths, root, exclude
        identity = [*map(os.path.realpath, paths)], tuple(exclude), options
        self._store = Store(root, identity, matrix, head, ".whole")
        #: The digest of each file as it was when it was assessed.
        self.seen: list[bytes] = []

    @cached_property
    def _kept(self) -> _Kept | None:
        with suppress(msgspec.DecodeError, RecursionError):
            data = self._store.read()
            return msgspec.msgpack.decode(data, type=_Kept) if data else None
        return None

    @cached_property
    def _kinds(self) -> frozenset[Kind]:
        if self._kept:
            return self._kept.kinds  # the same rules have the same
        from hpushim.engine.assess import wanted_kinds

        return wanted_kinds()

    @cached_property
    def found(self) -> Found:
        """What lies under the paths."""
        return discover(self._paths, self._root, self._kinds, self._exclude)

    def report(self) -> Report | None:
        """What was found; None where something is not as it was then."""
        kept, files = self._kept, self.found.files
        if kept is None or len(files) != len(kept.files) or kept.around != self._around:
            return None
        needed = {of for _, of in kept.before}
        texts: dict[int, bytes] = {}
        for at, file in enumerate(files):
            data = read(file.path)
            if isinstance(data, str) or key(file, data) != kept.files[at]:
                return None
            if at in needed:
                texts[at] = data
        with suppress(msgspec.DecodeError, RecursionError):
            report = msgspec.msgpack.decode(kept.report, type=Report)
            results = [*report.files]
            for place, of in kept.before:
                results[place] = msgspec.structs.replace(results[place], before=texts[of])
            self._store.used()
            return msgspec.structs.replace(report, files=tuple(results))
        return None

    def keep(self, report: Report) -> None:
        """Keeps what was found. What failed is tried again: the next run may have more time."""
        places = {file.shown: at for at, file in enumerate(self.found.files)}
        reported = {each.shown for each in self.found.passed}
        if len(places) != len(self.seen) or any(each.status == "failed" and each.path not in reported for each in report.files):  # fmt: skip
            return
        before = [(at, places[each.path]) for at, each in enumerate(report.files) if each.before is not None]  # fmt: skip
        results = tuple(msgspec.structs.replace(each, before=None) for each in report.files)
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            data = msgspec.msgpack.encode(msgspec.structs.replace(report, files=results))
            kept = _Kept(self._kinds, self._around, self.seen, before, msgspec.Raw(data))
            self._store.write(msgspec.msgpack.encode(kept))

    @cached_property
    def _around(self) -> bytes:
        """A digest of what is left out, and of the CUDA sources."""
        around = msgspec.msgpack.encode((self.found.passed, counted(self.found.kernels)))
        return blake2b(around, digest_size=16).digest()


def key(file: File, data: bytes) -> bytes:
    """A digest of a file: its name, its kind and its bytes."""
    named = f"{file.shown}\0{file.kind}\0{file.explicit}\0".encode("utf-8", "surrogatepass")
    return blake2b(named + data, digest_size=16).digest()


def counted(sources: Iterable[tuple[Path, str]]) -> tuple[Kernels, ...]:
    """CUDA sources with the lines that people wrote, without those of which Cython made all."""
    return tuple(filter(None, map(_counted, sources)))


def _counted(item: tuple[Path, str]) -> Kernels | None:
    path, shown = item
    data = read(path)
    if not isinstance(data, bytes):
        return Kernels(shown, 0)
    written, made, _ = data.partition(b"/* Generated by Cython")
    return None if made and not written.strip() else Kernels(shown, written.count(b"\n"))
