"""Asking the matrix: rows by name, rule or action, and the verdict on a name for one target."""

from __future__ import annotations

import fnmatch
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import msgspec

from hpushim.matrix import version
from hpushim.matrix.operators import Operators
from hpushim.matrix.schema import (
    Autocast,
    Collective,
    Confidence,
    ExecutionMode,
    Generation,
    GenerationInfo,
    Limit,
    MatrixFile,
    Policy,
    Release,
    Row,
    Source,
    Status,
    Witness,
)
from hpushim.matrix.written import appears, written_for
from hpushim.model import Target

#: Which row answers when a name has several: what Python resolves comes first.
_KINDS = ("python", "argument", "string", "env", "package", "command", "flag", "config", "image", "concept")  # fmt: skip

#: What holds for every name of a module or package when it holds for the whole.
WHOLE = ("unsupported", "noop", "emulated")


class Verdict(msgspec.Struct, frozen=True):
    """What the matrix says about a name for one target. ``row`` is None for a name that it lacks."""

    name: str
    status: Status
    target: str
    note: str
    row: Row | None
    limits: tuple[Limit, ...]  #: the limits that apply to the target
    confidence: Confidence | None
    inherited: bool = False  #: the row is that of a module or package that the name belongs to

    @property
    def known(self) -> bool:
        """Does the matrix hold an answer? False for a missing row and for the status ``unknown``."""
        return self.row is not None and self.status != "unknown"


class Matrix:
    """The compatibility matrix, indexed. Make one with :func:`hpushim.matrix.load`."""

    def __init__(
        self, content: MatrixFile, rows: tuple[Row, ...], sources: Mapping[str, Source], path: str
    ) -> None:
        self.rows = rows
        self.sources = sources
        self.path = path
        self.policy: Policy = content.policy
        self.autocast: Autocast = content.autocast
        self.generations: Mapping[Generation, GenerationInfo] = content.generation
        self.releases: Mapping[str, Release] = {item.stack: item for item in content.release}
        self.operators = Operators(content.operators)
        self.collectives: tuple[Collective, ...] = content.collective
        self.seen: tuple[Witness, ...] = content.witness
        self._witnesses = {name: item.source for item in content.witness for name in item.names}
        self._by_name: dict[str, Row] = {}
        self._by_kind: dict[tuple[str, str], Row] = {}
        order = {kind: place for place, kind in enumerate(_KINDS)}
        for row in rows:
            for name in row.names:
                self._by_kind[row.kind, name] = row
                other = self._by_name.get(name)
                if other is None or order[row.kind] < order[other.kind]:
                    self._by_name[name] = row
        #: Names of a project's own rows, with the file that each came from.
        self.own: dict[str, str] = {
            name: row.origin for row in rows if row.origin for name in row.names
        }
        self._families = [name for name in self._by_name if name.endswith("*")]

    @cached_property
    def edition(self) -> str:
        """Which table this is, for a report to name: the newest release it mentions, its rows, a digest of what they say."""
        own = sum(bool(row.origin) for row in self.rows)
        digest = zlib.crc32(msgspec.json.encode(self.rows))
        newest = max(self.releases, key=version.parse)
        more = f" and {own} of the project" if own else ""
        return f"up to release {newest}, {len(self.rows) - own} rows{more}, digest {digest:08x}"

    def row(self, name: str, kind: str = "") -> Row | None:
        """The row of exactly this name (or of one that it lists under ``also``), None without one."""
        return self._by_kind.get((kind, name)) if kind else self._by_name.get(name)

    def covering(self, name: str) -> Row | None:
        """The row of the name itself, or else of the nearest module, package or family that it lies in."""
        whole = name
        while name:
            if row := self._by_name.get(name):
                return row
            name = name.rpartition(".")[0]
        fits = [family for family in self._families if whole.startswith(family[:-1])]
        return self._by_name[max(fits, key=len)] if fits else None

    def unread(self, variable: str) -> Row | None:
        """The row of an environment variable that means something else on Gaudi than it does on CUDA, or nothing."""
        row = self.covering(variable)
        return row if row is not None and row.kind == "env" and row.status != "native" else None

    def by_rule(self, code: str) -> tuple[Row, ...]:
        """The rows that one rule finds in source."""
        return self._rules.get(code, ())

    def by_runtime(self, action: str) -> tuple[Row, ...]:
        """The rows with one run-time action (``"alias"``, ``"patch"``, ``"noop"`` …)."""
        return tuple(row for row in self.rows if row.runtime == action)

    def by_kind(self, kind: str) -> tuple[Row, ...]:
        """The rows of one kind (``"env"``, ``"package"`` …)."""
        return tuple(row for row in self.rows if row.kind == kind)

    def arguments(self, name: str) -> tuple[Row, ...]:
        """The rows on single arguments of a callable: ``torch.load`` gives ``torch.load(map_location=)``."""
        return self._arguments.get(name, ())

    def find(self, pattern: str) -> tuple[Row, ...]:
        """Rows whose name matches a shell pattern, or contains the text when it has no ``*?[``."""
        wanted = pattern.lower()
        if not any(sign in wanted for sign in "*?["):
            wanted = f"*{wanted}*"
        return tuple(
            row
            for row in self.rows
            if any(fnmatch.fnmatchcase(name.lower(), wanted) for name in row.names)
        )

    def reverse(self, name: str) -> tuple[Row, ...]:
        """Rows that lead to this Gaudi-side name; a short name matches the end of a dotted one."""
        tail = f".{name}"
        return tuple(
            row
            for row in self.rows
            if row.target == name or row.target.split("(")[0] == name or row.target.endswith(tail)
        )

    def near(self, name: str, limit: int = 5) -> tuple[str, ...]:
        """Names in the matrix that resemble a name that it lacks, best first."""
        import difflib

        same_end = [known for known in self._by_name if known.endswith(f".{name}")]
        found = same_end + difflib.get_close_matches(name, self._by_name, n=limit, cutoff=0.7)
        if len(found) < limit:
            ends: dict[str, str] = {}
            for known in self._by_name:
                ends.setdefault(known.rpartition(".")[2], known)
            last = name.rpartition(".")[2]
            found += [ends[end] for end in difflib.get_close_matches(last, ends, limit, 0.8)]
        return tuple(dict.fromkeys(found))[:limit]

    def verdict(self, name: str, target: Target | None = None) -> Verdict:
        """What Gaudi does with ``name`` on ``target`` (None: the default target)."""
        target = target or Target()
        row = self.covering(name)
        if row is None:
            note = f"the matrix has no row for {name}"
            return Verdict(name, "unknown", "", note, None, (), None)
        return self.assess(row, target, name)

    def unwitnessed(self, row: Row) -> tuple[str, ...]:
        """What the row has written of which nobody is known to have run it on a device."""
        return tuple(name for name in written_for(row) if self._witnesses.get(name) == ())

    def doubt(self, name: str, new: str) -> str:
        """A clause for a finding on the row of this name whose rewrite writes, in ``new``, what nobody is known to have run; else ""."""
        row = self.row(name)
        unseen = self.unwitnessed(row) if row is not None else ()
        return "not tried on Gaudi in public, so test it" if any(appears(one, new) for one in unseen) else ""  # fmt: skip

    def witness(self, name: str) -> tuple[str, ...]:
        """Where public code runs this written name on a device; empty where none was found."""
        return self._witnesses.get(name, ())

    def assess(self, row: Row, target: Target, name: str = "") -> Verdict:
        """The verdict on one row; the last limit that applies and has a status decides.

        A name of which only the module is known inherits what holds for the whole module (not
        supported, no effect, emulated); that the module works says nothing of it, so it is unknown.
        """
        limits = tuple(limit for limit in row.limits if self.applies(limit, target))
        status = row.status
        for limit in limits:
            if limit.status and not limit.package:
                status = limit.status
        inherited = bool(name) and not any(_is(name, own) for own in row.names)
        note = row.note
        if inherited and row.kind in ("python", "package") and status not in WHOLE:
            status = "unknown"
            note = f"the matrix has no row for {name}; its parent {row.name}: {note}"
        return Verdict(
            name=name or row.name,
            status=status,
            target="" if inherited else row.target,
            note=note,
            row=row,
            limits=limits,
            confidence=row.confidence,
            inherited=inherited,
        )

    def applies(self, limit: Limit, target: Target) -> bool:
        """Does a limit hold on a target? A portable target runs in its release's default mode."""
        if limit.gaudi and target.gaudi not in limit.gaudi:
            return False
        if limit.mode and self.mode(target) not in limit.mode:
            return False
        if limit.package:
            return True
        return version.within(target.stack, limit.since, limit.until)

    def mode(self, target: Target) -> ExecutionMode:
        """The execution mode that a target runs in."""
        if target.mode != "portable":
            return target.mode
        release = self.release(target.stack)
        return release.default_mode if release else "eager"

    def release(self, stack: str) -> Release | None:
        """The release of this number, or the newest one that it starts (``1.24`` gives 1.24.1)."""
        if stack in self.releases:
            return self.releases[stack]
        fits = [item for name, item in self.releases.items() if name.startswith(f"{stack}.")]
        if fits:
            return max(fits, key=lambda item: version.parse(item.stack))
        wider = [item for name, item in self.releases.items() if stack.startswith(f"{name}.")]
        return wider[0] if wider else None

    def torch_mismatch(self, stack: str, torch_version: str) -> str | None:
        """A warning when this torch is not the one of the stack; None when it is, or nothing is known."""
        release = self.release(stack)
        if release is None:
            known = ", ".join(self.releases)
            return f"release {stack} is not in the matrix; known releases: {known}"
        if not release.torch:
            return None
        minor = torch_version.split("+", maxsplit=1)[0].split(".")[:2]
        if any(known.split(".")[:2] == minor for known in release.torch):
            return None
        fits = [item.stack for item in self.releases.values()
                if any(known.split(".")[:2] == minor for known in item.torch)]  # fmt: skip
        belongs = f"; it belongs to release {', '.join(fits)}" if fits else ""
        wanted = " or ".join(release.torch)
        return (
            f"torch {torch_version} is not the torch of release {stack}, which is {wanted}{belongs}"
        )

    def generation_mismatch(self, target: Target) -> str | None:
        """A warning when the release's support matrix does not name the generation; None when it does."""
        release = self.release(target.stack)
        if release is None or not release.gaudi or target.gaudi in release.gaudi:
            return None
        named = " and ".join(self.generations[item].title for item in release.gaudi)
        title = self.generations[target.gaudi].title
        return f"the support matrix of release {release.stack} names {named}, not {title}"

    def citations(self, row: Row) -> Iterator[tuple[str, str]]:
        """Title and address ("" when it has none) of each source of a row."""
        return self.cited(row.source)

    def cited(self, places: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Title and address of each of some ``key:place``."""
        for item in places:
            key, _, place = item.partition(":")
            if key in ("http", "https"):
                yield item, item
                continue
            source = self.sources[key]
            url = source.url.replace("{}", place)
            yield (f"{source.title}, {place}" if place else source.title), url

    @cached_property
    def _rules(self) -> dict[str, tuple[Row, ...]]:
        return _grouped((row.rule, row) for row in self.rows if row.rule)

    @cached_property
    def _arguments(self) -> dict[str, tuple[Row, ...]]:
        return _grouped(
            (name.split("(")[0], row)
            for row in self.rows
            if row.kind == "argument"
            for name in row.names
        )


def _is(name: str, own: str) -> bool:
    """Is it the name of a row, or one of the family that a row is about?"""
    return name == own or (own.endswith("*") and name.startswith(own[:-1]))


def _grouped(pairs: Iterator[tuple[str, Row]]) -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for key, row in pairs:
        groups.setdefault(key, []).append(row)
    return {key: tuple(rows) for key, rows in groups.items()}
