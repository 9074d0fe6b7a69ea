"""What rules may say of places of which no other rule has spoken."""

from __future__ import annotations

import pytest
import toys

from hpushim.engine.one_file import examine, settle


def found(text: str) -> list[tuple[str, int, str]]:
    return [(f.code, f.line, f.safety) for f in examine(text, "python", "a.py", toys.context())]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("odd\n", [1]),
        ("bomb(odd)\n", [1]),
        ("wrap(odd)\n", []),
        ("wrap(1); odd\n", [1]),  # that one goes, and tells of no more than it touches
        ("old_name = 1\nodd\n", [2]),
    ],
)
def test_the_rest_is_what_no_finding_tells_of(
    monkeypatch: pytest.MonkeyPatch, text: str, lines: list[int]
) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest, toys.Swap)
    assert [line for code, line, _ in found(text) if code == "HPU912"] == lines


def test_what_a_rewrite_leaves_behind_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest)
    settled = settle("x = 1\ny = wrap(odd)\n", "python", "a.py", toys.context())
    assert settled.text == "x = 1\ny = odd\n"
    assert [(f.code, f.line, f.applied) for f in settled.findings] == [
        ("HPU911", 2, True),
        ("HPU912", 2, False),
    ]


def test_a_finding_of_the_first_text_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest, toys.Swap)
    settled = settle("odd(old_name)\nz = wrap(1)\n", "python", "a.py", toys.context())
    assert [f.code for f in settled.findings] == ["HPU912", "HPU901", "HPU911"]


def test_what_is_kept_is_not_told_but_for_what_is_open_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toys.use(monkeypatch, toys.Keeps, toys.Rest, toys.Swap)
    text = "keep\nodd\nold_name\nopen_(odd, old_name)\n"
    assert found(text) == [("HPU912", 4, "manual"), ("HPU901", 4, "unsafe")]
    assert settle(text, "python", "a.py", toys.context()).text == text
    daring = settle(text, "python", "a.py", toys.context(unsafe=True))
    assert daring.text == "keep\nodd\nold_name\nopen_(odd, new_name)\n"


def test_a_rule_that_fails_at_the_rest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(toys.Rest):
        def on_rest(self, *_: object) -> object:  # type: ignore[override]
            raise KeyError("rest")

    toys.use(monkeypatch, Fails, toys.Swap)
    assert [code for code, _, _ in found("odd(old_name)\n")] == ["HPU004", "HPU901"]
