"""The guard's own classes: what counts as which difference, and what a reviewed list covers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import guard

_FINDING = [3, 5, "HPU102", "error", "safe", "torch.cuda", False, "it moves"]


def _record(*findings: list[Any], after: str = "") -> dict[str, Any]:
    made = guard._rewritten(b"a\nb\nc\n", after.encode()) if after else {}
    return {"files": {"a.py": {"status": "unchanged", "findings": list(findings), **made}}}


def _with(number: int, value: object) -> list[Any]:
    return [*_FINDING[:number], value, *_FINDING[number + 1 :]]


def _kinds(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(d.kind, d.code, d.place) for d in guard.differences("i/a", before, after)]


@pytest.mark.parametrize(
    ("before", "after", "kind", "code"),
    [
        (_record(), _record(_FINDING), "new", "HPU102"),
        (_record(_FINDING), _record(), "gone", "HPU102"),
        (_record(_FINDING), _record(_with(2, "HPU105")), "code", "HPU102 → HPU105"),
        (_record(_FINDING), _record(_with(3, "note")), "severity", "HPU102"),
        (_record(_FINDING), _record(_with(4, "manual")), "safety", "HPU102"),
        (_record(_FINDING), _record(_with(5, None)), "row", "HPU102"),
        (_record(_FINDING), _record(_with(6, True)), "applied", "HPU102"),
        (_record(_FINDING), _record(_with(7, "other")), "message", "HPU102"),
        (_record(after="a\nb\nx\n"), _record(after="a\nb\ny\n"), "edit", ""),
        (_record(), _record(after="a\nb\ny\n"), "edit", ""),
    ],
)
def test_a_difference_has_its_kind(
    before: dict[str, Any], after: dict[str, Any], kind: str, code: str
) -> None:
    assert _kinds(before, after) == [(kind, code, "a.py:3")]
    assert not _kinds(before, before)


def test_a_finding_that_moved_is_gone_and_new() -> None:
    found = _kinds(_record(_FINDING), _record(_with(0, 4)))
    assert found == [("gone", "HPU102", "a.py:3"), ("new", "HPU102", "a.py:4")]


def test_what_was_reviewed_does_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    was = guard.Item("i/a", lambda: _record(_FINDING)["files"])
    now = guard._found(guard.Item("i/a", lambda: _record(_FINDING, _with(0, 4))["files"]))
    guard.record(tmp_path, [was], 1)
    (listed := tmp_path / "wanted.toml").write_text('[[wanted]]\nkind = "new"\nwhy = "true"\n')
    assert guard.compare(tmp_path, [now], [], 1) == 1
    assert guard.compare(tmp_path, [now], guard.wanted([listed]), 1) == 0
    assert "wanted, 1: true" in capsys.readouterr().out


def test_the_small_items_are_recorded_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPUSHIM_CORPORA", raising=False)
    some = list(guard.items(quick=True))[::40]
    assert {item.name.split("/")[0] for item in some} == {"pages", "forms", "campaign"}
    first, again = ([guard._found(item) for item in some] for _ in range(2))
    assert first == again and not any("error" in str(r["files"].get("")) for _, r in first)
