"""Reading the matrix: the shipped file, and the rows that a project adds or overrides."""

from __future__ import annotations

import ast
import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hpushim import safe_files
from hpushim.errors import MatrixError
from hpushim.kept import Kept
from hpushim.matrix import locate, schema, version
from hpushim.matrix.query import Matrix
from hpushim.matrix.schema import FORMAT, MatrixFile, Row

FILE_NAME = "compat_matrix.toml"
# msgspec works out a type when it first meets it, and crashes the process when two threads do so at once.
_one_at_a_time = threading.RLock()
_RULE = re.compile(r"HPU\d{3}\Z")
_TORCH = re.compile(r"(?:(?:>=|<)\d+(?:\.\d+)*)(?:,(?:>=|<)\d+(?:\.\d+)*)*\Z")
_PLACE = re.compile(r"\$(?:\.(\w+))?(?:\[(\d+|\.\.\.)\])?(?:\.(\w+))?")


def default_path() -> Path:
    """The shipped matrix: beside the package when installed, at the root of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for path in (package / "data" / FILE_NAME, package.parent / FILE_NAME):
        if path.is_file():
            return path
    raise MatrixError(f"{FILE_NAME} not found beside {package}; reinstall hpushim")


def load(path: str | Path | None = None, extra: Iterable[str | Path] = ()) -> Matrix:
    """The matrix of ``path`` (None: the shipped one) with the rows of the ``extra`` files over it.

    Loaded once for each combination. Raises MatrixError, one line, for anything wrong in a file.
    """
    with _one_at_a_time:
        return _load(str(path or default_path()), tuple(str(item) for item in extra))


@lru_cache(maxsize=16)
def _load(path: str, extra: tuple[str, ...]) -> Matrix:
    base = _shipped(path) if path == str(default_path()) else read_file(Path(path))
    rows = {(row.kind, row.name): row for row in base.row}
    sources = dict(base.sources)
    for name in extra:
        added = read_file(Path(name), known_sources=frozenset(sources), origin=name)
        sources |= added.sources
        rows |= {(row.kind, row.name): row for row in added.row}
    return Matrix(base, tuple(rows.values()), sources, path)


def _shipped(path: str) -> MatrixFile:
    """The shipped matrix, from what was kept when it was last read: reading TOML is most of what loading it takes."""
    kept = Kept(__file__, "matrix", (path, schema.__file__))
    if data := kept.read():
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(data, type=MatrixFile)
    content = read_file(Path(path))
    kept.write(msgspec.json.encode(content))
    return content


def read_file(
    path: Path, known_sources: frozenset[str] = frozenset(), origin: str = ""
) -> MatrixFile:
    """One file, validated; ``origin`` is written into its rows."""
    text = _read(path)
    raw = _parse(path, text)
    if origin and isinstance(raw.get("row"), list):
        for row in raw["row"]:
            if isinstance(row, dict) and "origin" not in row:
                row["origin"] = origin
    try:
        content = msgspec.convert(raw, MatrixFile)
    except msgspec.ValidationError as error:
        raise _invalid(path, text, raw, str(error)) from None
    _check(path, text, content, known_sources, origin)
    return content


def _read(path: Path) -> str:
    try:
        return safe_files.read(path).decode("utf-8")
    except FileNotFoundError:
        raise MatrixError(f"{path} does not exist; expected a TOML file: check the path") from None
    except OSError as error:
        raise MatrixError(
            f"{path} cannot be read ({error.strerror}); expected a readable TOML file"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = error.object[error.start]
        raise MatrixError(
            f"{path}:{line}: byte 0x{found:02x} is not UTF-8; expected a TOML file in UTF-8: save it so"
        ) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    import tomli

    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, too long a number, nested too deeply
        line = getattr(error, "lineno", 1)
        reason = str(error).split(" (at ")[0]
        raise MatrixError(
            f"{path}:{line}: not TOML: {reason}; expected tables such as [[row]]: correct that line"
        ) from None


def _invalid(path: Path, text: str, raw: dict[str, Any], message: str) -> MatrixError:
    """msgspec's message, with file, row, field, line and what to do."""
    problem, _, place = message.partition(" - at `")
    match = _PLACE.match(place)
    table, index, field = match.groups() if match else (None, None, None)
    unknown = re.search(r"unknown field `(\w+)`", problem)
    missing = re.search(r"missing required field `(\w+)`", problem)
    if unknown and not (match and place.rstrip("`").count(".") > 1):
        field = unknown[1]
    remedy = "correct the value"
    if unknown:
        remedy = f"remove `{unknown[1]}` or correct its spelling"
    elif missing:
        remedy = f"add `{missing[1]} = …`"
    elif "enum value" in problem:
        remedy = f"use one of: {', '.join(_choices(field))}" if _choices(field) else remedy
    if table == "row" and index is not None and index.isdigit():
        line = locate.row_line(text, int(index), field or "")
        row = raw["row"][int(index)]
        name = row.get("name") if isinstance(row, dict) else None
        name = f"number {int(index) + 1}" if name is None else name
        where = f"row {name!r}" + (f", field `{field}`" if field else "")
    else:
        line = locate.table_line(text, table or "", field or "")
        where = ".".join(part for part in (table, field) if part) or "the file"
    return MatrixError(f"{path}:{line}: {where}: {problem}; {remedy}")


def _choices(field: str | None) -> tuple[str, ...]:
    from typing import get_args, get_type_hints

    for table in (Row, schema.Limit, schema.Argument, schema.Release):
        hint = get_type_hints(table).get(field or "")
        for option in (hint, *get_args(hint)):
            values = get_args(option)
            if values and all(isinstance(value, str) for value in values):
                return values
    return ()


def _check(
    path: Path, text: str, content: MatrixFile, known_sources: frozenset[str], origin: str
) -> None:
    """What types alone cannot say: no doubles, ranges that hold something, sources that exist."""
    if content.format != FORMAT:
        raise MatrixError(
            f"{path}:{locate.table_line(text, '', 'format')}: format is {content.format}; "
            f"expected {FORMAT}: use the hpushim that the file was written for"
        )
    sources = known_sources | content.sources.keys()
    seen: dict[tuple[str, str], int] = {}
    for index, row in enumerate(content.row):
        for name in row.names:
            if (other := seen.setdefault((row.kind, name), index)) != index:
                first = locate.row_line(text, other)
                raise _row_error(
                    path, text, index, row, "name",
                    f"{row.kind} {name!r} is already in line {first}", "merge the two rows or remove one",
                )  # fmt: skip
        for field, problem, remedy in _problems(row, sources, origin):
            raise _row_error(path, text, index, row, field, problem, remedy)


def _problems(row: Row, sources: frozenset[str], origin: str) -> Iterator[tuple[str, str, str]]:
    """Field, what is wrong, what to do."""
    if not row.note.strip() or "\n" in row.note:
        yield "note", "it is empty or has several lines", "write one sentence for the user"
    if row.rule and not _RULE.match(row.rule):
        yield "rule", f"{row.rule!r} is not a code", "write HPU and three digits, or leave it out"
    if row.torch and not _TORCH.match(row.torch):
        yield "torch", f"{row.torch!r} is not a range", 'write it as ">=2.9" or "<2.10"'
    if row.runtime == "alias" and not row.target:
        yield "runtime", "alias without a target", "add `target = …`"
    if row.runtime == "constant" and not _is_literal(row.value):
        yield (
            "value",
            f"{row.value!r} is not a Python literal",
            'write the value to return, as in "[]"',
        )
    if row.origin != origin:
        yield "origin", "unknown field `origin`", "remove it: the loader sets it"
    for citation in row.source:
        key = citation.partition(":")[0]
        if key not in sources and key not in ("http", "https"):
            yield (
                "source",
                f"{citation!r} names no entry of [sources]",
                "write a full address, or `key:place` with a key of [sources]",
            )
    for limit in row.limits:
        if problem := _range_problem(limit.since, limit.until, bool(limit.package)):
            yield "limits", problem, 'write releases as "1.20", the earlier one in `since`'


def _range_problem(since: str, until: str, of_package: bool) -> str:
    try:
        first, last = (version.parse(text) if text else () for text in (since, until))
    except ValueError:
        if of_package:
            return ""
        return f"bad version range {since!r} … {until!r}"
    if first and last and first[: len(last)] > last:
        return f"version range {since!r} … {until!r} is empty"
    return ""


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _row_error(
    path: Path, text: str, index: int, row: Row, field: str, problem: str, remedy: str
) -> MatrixError:
    line = locate.row_line(text, index, field)
    return MatrixError(f"{path}:{line}: row {row.name!r}, field `{field}`: {problem}; {remedy}")
