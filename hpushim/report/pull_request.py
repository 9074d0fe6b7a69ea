"""A migration as patches with messages, and as the description of a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING

from hpushim.model import FileResult, Finding
from hpushim.report.diff import unified

if TYPE_CHECKING:
    from hpushim.model import Report

_CHECKED = "hpushim made these changes. Each file was parsed again, and nothing else in it differs. No program was run."
_WHY = {
    "agnostic": "The code names no vendor where torch has a neutral word, so that it runs on CUDA as before and on other accelerators as well.",
    "dual": "The code runs on Gaudi, and on CUDA and the CPU as before.",
    "native": "The code runs on Gaudi.",
}  # fmt: skip
#: Codes that are listed; the others are counted.
_SHOWN = 15


def patch(
    topic: str,
    files: Sequence[FileResult],
    findings: Sequence[Finding],
    style: str,
    place: tuple[int, int],
) -> str:
    """One patch with its message, as ``git am`` takes it."""
    number, count = place
    subject = f"{topic.capitalize()}: {_files(len(files))} for {_what(style)}"
    lines = [
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001",
        "From: hpushim <hpushim@localhost>",
        f"Date: {formatdate(0)}",
        f"Subject: [PATCH {number}/{count}] {subject}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
        "",
        *(f"- {line}" for line in _kinds(findings)),
        "",
        _WHY[style],
        "",
        _CHECKED,
        "---",
        "",
    ]
    diffs = []
    for file in files:
        assert file.before is not None and file.after is not None
        text = unified(file.path, file.before, file.after)
        diffs.append(f"diff --git a/{file.path} b/{file.path}\n{text}")
    return "\n".join(lines) + "".join(diffs) + "-- \nhpushim\n\n"


def description(report: Report, topics: Sequence[tuple[str, int, int]]) -> str:
    """What a pull request says, as Markdown: scope, before and after, what was checked, what is left."""
    style = report.target.style
    changed = [file for file in report.files if file.after not in (None, file.before)]
    found = [finding for file in report.files for finding in file.findings]
    made = [finding for finding in found if finding.applied]
    left = [(file, f) for file in report.files for f in file.findings if not f.applied]
    rows = [f"| {name} | {files} | {count} |" for name, files, count in topics]
    stays = Counter((f.code, f.name, f.severity) for _, f in left)
    places = {f.code: f"`{file.path}:{f.line}`" for file, f in reversed(left)}
    return "\n".join(
        [
            f"# {_what(style).capitalize()}",
            "",
            _WHY[style],
            "",
            "## Scope",
            "",
            "| topic | files | changes |",
            "|---|---|---|",
            *rows,
            "",
            "## Before and after",
            "",
            f"Of {len(found)} places, {len(made)} are changed in {_files(len(changed))}; {len(left)} stay.",
            "",
            *(f"- {line}" for line in _kinds(made)),
            "",
            "## What was checked",
            "",
            f"{_CHECKED} `hpushim prove SCRIPT` compares a run of the original with a run of the changed copy.",
            "",
            "| device | run |",
            "|---|---|",
            "| CPU | no |",
            "| CUDA | no |",
            "| HPU | no |",
            "",
            "## What is left",
            "",
            "| code | what | severity | places | first |",
            "|---|---|---|---|---|",
            *(
                f"| {code} | {name} | {severity} | {count} | {places[code]} |"
                for (code, name, severity), count in sorted(stays.items())
            ),
            "",
        ]
    )


def _kinds(findings: Sequence[Finding]) -> list[str]:
    """What was changed, the most frequent first."""
    count = Counter((f.name, f.code) for f in findings).most_common()
    lines = [f"{number} of `{name}` ({code})" for (name, code), number in count[:_SHOWN]]
    rest = sum(number for _, number in count[_SHOWN:])
    return [*lines, f"{rest} of other kinds"] if rest else lines


def _what(style: str) -> str:
    return {"agnostic": "any accelerator", "dual": "CUDA and Gaudi", "native": "Gaudi"}[style]


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"
