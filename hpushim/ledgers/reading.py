"""The files of a ledger, read and checked: that of the run's first process, and those beside it of its further ones."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hpushim import safe_files, showing
from hpushim.errors import HpushimError
from hpushim.ledgers.model import SCHEMA_VERSION, Ledger, Process, Records
from hpushim.ledgers.together import Together

_LIMIT = 64 << 20  # bytes of one file
_MOST_PROCESSES = 16384
_HOW = "hpushim run --ledger FILE train.py writes one"


def read(path: Path) -> Ledger:
    """The ledger of a run, one file in memory at a time.

    Raises HpushimError for what is missing, no ledger, or of a run that has not ended.
    """
    files = _parts(path)
    if path.is_file():
        files.insert(0, ("", path))
    if not files:
        raise HpushimError(f"{_quoted(path)}: no such ledger; {_HOW}")
    if len(files) > _MOST_PROCESSES:
        raise HpushimError(f"{_quoted(path)}: files of {len(files):,} processes lie there, more than the {_MOST_PROCESSES:,} of one run; move those of other runs away")  # fmt: skip
    together, unfinished, written = Together(), [], 0.0
    for name, file in files:
        records = _records(file)
        if records.complete:
            together.add(Process(name, records))
            written = max(written, file.stat().st_mtime)
        else:
            unfinished.append(str(file))
    if not together.names:
        raise HpushimError(
            f"{_quoted(path)}: the run has not ended, or was killed before it could write its ledger; run it again to its end"
        )
    return together.ledger(str(path), unfinished, written)


def _parts(path: Path) -> list[tuple[str, Path]]:
    part = re.compile(re.escape(path.name) + r"\.(rank\d+(\.pid\d+)?|pid\d+)")
    try:
        found = [
            (match.group(1), file)
            for file in path.parent.iterdir()
            if (match := part.fullmatch(file.name)) and file.is_file()
        ]
    except OSError:
        return []
    return sorted(found, key=lambda one: [int(n) for n in re.findall(r"\d+", one[0])])


def _records(file: Path) -> Records:
    try:
        data = safe_files.read(file, _LIMIT)
    except OSError as error:
        raise HpushimError(
            f"{_quoted(file)}: cannot be read: {error.strerror or error}; {_HOW}"
        ) from None
    try:
        records = msgspec.json.decode(data, type=Records)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HpushimError(f"{_quoted(file)}: no ledger ({error}); {_HOW}") from None
    if records.schema_version != SCHEMA_VERSION:
        raise HpushimError(
            f"{_quoted(file)}: a ledger of version {records.schema_version}; this hpushim reads version {SCHEMA_VERSION}; "
            "read it with the hpushim that wrote it, or run the program again"
        )
    return records


def _quoted(path: Path) -> str:
    return showing.quoted(showing.path(path))
