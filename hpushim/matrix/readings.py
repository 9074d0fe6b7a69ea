"""What the rows of the matrix rest on: ``compat_matrix.readings.toml`` beside the matrix.

Read by ``hpushim matrix check`` and ``hpushim api`` alone; loading the matrix does not touch it.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import tomli

from hpushim.errors import MatrixError
from hpushim.matrix.query import Matrix
from hpushim.matrix.reader import default_path
from hpushim.matrix.schema import Kind, Strict

FILE_NAME = "compat_matrix.readings.toml"
FORMAT = 1
_LINES = re.compile(r"#L(\d+)(?:-L(\d+))?\Z")


class Reading(Strict, frozen=True, kw_only=True):
    """One place that a row rests on."""

    at: str  #: the citation, as the row's ``source`` has it: ``key:place#L10-L20`` or an address
    says: str  #: what is to be read there, in our own words
    read: datetime.date
    #: ``collected``: read by the first collection, as a rule in an excerpt, and not to be opened again
    seen: Literal["opened", "collected"] = "opened"
    print: str = ""  #: fingerprint of the cited lines, or of the whole file; "" for a document


class RowReadings(Strict, frozen=True, kw_only=True):
    """The places that one row rests on, in the order of its ``source``."""

    name: str
    kind: Kind | Literal["witness"] = "python"  #: witness: of the first name of a [[witness]]
    readings: tuple[Reading, ...]


class ReadingsFile(Strict, frozen=True, kw_only=True):
    """The whole file."""

    format: int
    row: tuple[RowReadings, ...]


def readings_path(matrix: Path | None = None) -> Path:
    """The readings that belong to a matrix file (None: the shipped one)."""
    return (matrix or default_path()).with_name(FILE_NAME)


def load_readings(path: Path | None = None) -> dict[tuple[str, str], tuple[Reading, ...]]:
    """Readings by kind and name of the row. Raises MatrixError when the file cannot be used."""
    path = path or readings_path()
    try:
        content = msgspec.convert(tomli.loads(path.read_text("utf-8")), ReadingsFile)
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError, msgspec.ValidationError) as error:
        raise MatrixError(
            f"{path}: {error}; expected the readings of the matrix: reinstall hpushim"
        ) from None
    if content.format != FORMAT:
        raise MatrixError(
            f"{path}: format is {content.format}; expected {FORMAT}: use the hpushim that the file was written for"
        )
    return {(item.kind, item.name): item.readings for item in content.row}


@lru_cache(maxsize=1)
def _shipped() -> dict[tuple[str, str], tuple[Reading, ...]]:
    return load_readings()


def readings_of(kind: str, name: str) -> tuple[Reading, ...]:
    """What one shipped row rests on; loaded once."""
    return _shipped().get((kind, name), ())


def flaws(
    matrix: Matrix, found: dict[tuple[str, str], tuple[Reading, ...]]
) -> Iterator[tuple[str, str]]:
    """Name of a row and complaint, where rows and readings do not belong together."""
    cited: dict[tuple[str, str], tuple[str, ...]] = {
        (row.kind, row.name): row.source for row in matrix.rows if not row.origin
    }
    cited |= {("witness", item.names[0]): item.source for item in matrix.seen if item.source}
    notes = {(row.kind, row.name): _plain(row.note) for row in matrix.rows}
    for key in found.keys() - cited.keys():
        yield key[1], "has readings and no row: rename or remove them"
    for key, source in cited.items():
        places = tuple(item.at for item in found.get(key, ()))
        if places != source:
            yield (
                key[1],
                f"cites {', '.join(source)} and has readings of {', '.join(places) or 'nothing'}: read again and make them one list",
            )
        for item in found.get(key, ()):
            if not item.says.strip():
                yield key[1], f"says nothing of what is at {item.at}: add it"
            if key in notes and _plain(item.says) == notes[key]:
                yield key[1], f"repeats its note for {item.at}: write what the place says"
            if item.print and item.seen == "collected":
                yield (
                    key[1],
                    f"has a fingerprint of {item.at}, which nobody opened: open it, or take the fingerprint out",
                )


def _plain(text: str) -> str:
    """The words of a text, for comparing."""
    return " ".join(re.findall(r"\w+", text.lower()))


def span(place: str) -> tuple[int, int] | None:
    """First and last line (1-based) of a citation; None when it names a whole file."""
    match = _LINES.search(place)
    return (int(match[1]), int(match[2] or match[1])) if match else None


def fingerprint(lines: Sequence[str], lines_of: tuple[int, int] | None = None) -> str:
    """Eight hex digits of the cited lines, whatever their indentation and blank lines between them."""
    first, last = lines_of or (1, len(lines))
    kept = [stripped for line in lines[first - 1 : last] if (stripped := line.strip())]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:8]
