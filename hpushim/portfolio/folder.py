"""The folder of a portfolio: what was made of each repository, kept at once, and at the end the page and the tables.

::

    index.html  portfolio.csv  portfolio.json       of all
    repositories/NAME.html  NAME.json               of each; links of the page lead here
    repositories/NAME.key                           what the two were made from; written last
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import hpushim
from hpushim import safe_files
from hpushim.errors import HpushimError
from hpushim.model import Target
from hpushim.portfolio import rows
from hpushim.portfolio.assessing import Done
from hpushim.portfolio.page import render_html


class Folder:
    """Made if it is not there. Raises HpushimError where nothing can be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._each = path / "repositories"
        try:
            self._each.mkdir(parents=True, exist_ok=True)
            (self._each / ".lock").touch()
        except OSError as error:
            raise HpushimError(f"--output {path}: no portfolio can be written there: {error.strerror}; nothing was done") from None  # fmt: skip
        self._failed: dict[str, str] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second run out of the folder. Raises HpushimError where one is in it."""
        with (self._each / ".lock").open("w") as lock:
            try:
                # Of this process alone: children that outlive it for a moment do not hold it.
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HpushimError(f"--output {self.path}: another run writes there; wait for it, or give another folder") from None  # fmt: skip
            yield

    def key(self, name: str) -> str:
        """What the results of a repository were made from; empty where there are none."""
        if not all(self._file(name, kind).is_file() for kind in ("json", "html")):
            return ""
        return self._text(name, "key")

    def keep(self, done: Done) -> None:
        """Keeps the results of a repository; those that were known already stay."""
        if done.failed:
            self._file(done.name, "key").unlink(missing_ok=True)
            self._write(done.name, "failed", done.failed.encode("utf-8", "backslashreplace"))
        elif done.report:
            self._file(done.name, "key").unlink(missing_ok=True)
            self._write(done.name, "json", done.report)
            self._write(done.name, "html", done.page)
            self._write(done.name, "key", done.key.encode())
        if not done.failed:
            self._file(done.name, "failed").unlink(missing_ok=True)

    def portfolio(
        self, names: Sequence[str], failed: Sequence[rows.Row], target: Target
    ) -> rows.Portfolio:
        """All rows, from what was kept."""
        reads, without = [], list(failed)
        for name in names:
            why = self._text(name, "failed")
            try:
                if not why:
                    page = quote(f"repositories/{name}.html")
                    reads.append(rows.read(name, safe_files.read(self._file(name, "json")), page))
            except OSError as error:
                why = f"its report cannot be read: {error.strerror}"
            if why:
                without.append(rows.without(name, why))
        return rows.gather(reads, without, target, f"hpushim {hpushim.__version__}")

    def finish(self, portfolio: rows.Portfolio) -> None:
        """Writes the page and the tables."""
        texts = {
            "portfolio.json": rows.render_json(portfolio),
            "portfolio.csv": rows.render_csv(portfolio),
            "index.html": render_html(portfolio),
        }
        for name, text in texts.items():
            safe_files.write(self.path / name, text.encode("utf-8", "backslashreplace"))

    def _file(self, name: str, kind: str) -> Path:
        return self._each / f"{name}.{kind}"

    def _text(self, name: str, kind: str) -> str:
        with suppress(OSError):
            return safe_files.read(self._file(name, kind)).decode("utf-8", "replace")
        return ""

    def _write(self, name: str, kind: str, data: bytes) -> None:
        safe_files.write(self._file(name, kind), data)
