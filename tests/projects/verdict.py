"""What the checks of one real repository gave, kept on disk so that a long proof can be taken up again, and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

COLUMNS = (
    "reference",
    "loss",
    "shim",
    "shim on hpu",
    "shim marks",
    "files",
    "native",
    "native on hpu",
    "native marks",
    "cpu",
    "unhandled",
)
CODE = re.compile(r"HPU\d{3}")


@dataclass
class Verdict:
    """Cells of one line of the table, what is wrong, why it was not run, and the seconds that it took."""

    name: str
    cells: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    skipped: str = ""
    refused: str = ""
    seconds: float = 0.0

    def check(self, fine: bool, text: str) -> None:
        """Notes a failure unless ``fine``."""
        if not fine:
            self.wrong.append(text)

    @property
    def outcome(self) -> str:
        """``ok``, ``refused HPUnnn`` (as it must be), ``FAILED`` or ``skipped: reason``."""
        if self.wrong:
            return "FAILED"
        if self.skipped:
            return f"skipped: {self.skipped}"
        return f"refused {self.refused}" if self.refused else "ok"

    def keep(self, path: Path, key: str) -> None:
        """Writes this verdict; ``key`` says of what (commit and recipe)."""
        path.write_text(json.dumps({"key": key, **asdict(self)}, indent=1))

    @classmethod
    def kept(cls, path: Path, key: str) -> Verdict | None:
        """The verdict that an earlier run wrote there for the same key, or None; failures are tried again."""
        if not path.is_file():
            return None
        data = json.loads(path.read_text())
        if data.pop("key") != key or data["wrong"]:
            return None
        return cls(**data)


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a Markdown table."""
    head = ("workload", *COLUMNS, "seconds", "verdict")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for verdict in verdicts:
        cells = [verdict.cells.get(column, "–") for column in COLUMNS]
        words = [verdict.name, *cells, f"{verdict.seconds:.0f}", verdict.outcome]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def sums(verdicts: Sequence[Verdict]) -> str:
    """How many came out how, the largest difference and the smallest share on hpu, in one line."""
    outcomes = [verdict.outcome.split()[0].rstrip(":") for verdict in verdicts]
    counts = ", ".join(
        f"{outcomes.count(word)} {word}" for word in ("ok", "refused", "FAILED", "skipped")
    )
    shares = numbers(verdicts, ("shim on hpu", "native on hpu"))
    apart = numbers(verdicts, ("shim", "native"))
    unhandled = sum(numbers(verdicts, ("unhandled",)))
    return (
        f"{len(verdicts)} workloads: {counts}; largest difference {max(apart, default=0):.1e}, "
        f"smallest share on hpu {min(shares, default=0):.1f}%, unhandled CUDA calls {unhandled:.0f}"
    )


def numbers(verdicts: Iterable[Verdict], columns: Sequence[str]) -> list[float]:
    """The cells of these columns that are numbers."""
    found = []
    for verdict in verdicts:
        for column in columns:
            text = verdict.cells.get(column, "").rstrip("%")
            if re.fullmatch(r"[-+.\de]*\d[-+.\de]*", text):
                found.append(float(text))
    return found


def coverage(
    folders: Iterable[str], recipes: Iterable[tuple[str, str]], absent: dict[str, str]
) -> str:
    """For every repository at hand its recipes, or why it has none, as a Markdown table.

    ``recipes`` are pairs of repository and workload, ``absent`` says why a repository, or a part of it, is not run.
    """
    pairs = list(recipes)
    lines = ["| repository | recipes | not run here |", "|---|---|---|"]
    for folder in folders:
        names = [name for repo, name in pairs if repo == folder]
        lines.append(
            f"| {folder.replace('+', '/')} | {', '.join(names) or '–'} | {absent.get(folder, '–')} |"
        )
    return "\n".join(lines)
