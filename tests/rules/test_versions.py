"""Which version specifiers lie within the versions that a limit of the matrix is about."""

from __future__ import annotations

import pytest

from hpushim.codemods.analysis.versions import within


@pytest.mark.parametrize(
    ("specifier", "until"),
    [
        ("==2.5.5", "2.5.5"),
        ("===2.5.5", "2.5.5"),
        ("==2.5", "2.5.5"),
        ("==2.5.5.1", "2.5.5"),
        ("==2.5.5.post1", "2.5.5"),
        ("==2.5.9", "2.5"),
        ("==2.5.*", "2.5"),
        ("==2.5.3.*", "2.5"),
        ("<=2.5.5", "2.5.5"),
        ("<=2.5.*", "2.5"),
        ("<2.5.6", "2.5.5"),
        ("<1.7.0", "1.6"),
        ("<2.6", "2.5"),
        ("~=2.5.1", "2.5"),
        (">=1.5, <2", "2.5.5"),
        ("!=2.5,<2.0", "2.5.5"),
        ("==1.8.0+cu111", "1.8"),
        ("==v1.6", "1.6"),
        (">=5", ""),
    ],
)
def test_within_an_end(specifier: str, until: str) -> None:
    assert within(specifier, "", until)


@pytest.mark.parametrize(
    ("specifier", "until"),
    [
        ("==2.5.6", "2.5.5"),
        ("==2.5.*", "2.5.5"),
        ("==1.*", "1.6"),
        ("<=1.*", "1.6"),
        ("<=2.5.6rc1", "2.5.5"),
        ("<2.6", "2.5.5"),
        ("<2", "1.6"),
        ("~=2.5", "2.5"),
        (">=1.5", "2.5.5"),
        (">1.5", "2.5.5"),
        ("!=2.5.6", "2.5.5"),
        ("~=2", "2.5.5"),
        ("===latest", "2.5.5"),
        ("$VERSION", "2.5.5"),
        ("", "2.5.5"),
    ],
)
def test_not_within_an_end(specifier: str, until: str) -> None:
    assert not within(specifier, "", until)


@pytest.mark.parametrize(
    ("specifier", "since", "inside"),
    [
        ("==2.5.6", "2.5.6", True),
        (">=2.5.6", "2.5.6", True),
        (">=2.6.*", "2.5.6", True),
        (">=2.6+cu121", "2.5.6", True),
        ("~=2.5.7", "2.5.6", True),
        ("==2.6.*", "2.5.6", True),
        ("==2.5", "2.5.0", True),
        ("==2.5.5", "2.5.6", False),
        (">2.5.5", "2.5.6", False),
        ("<3", "2.5.6", False),
        ("!=2.5.7", "2.5.6", False),
        ("", "2.5.6", False),
    ],
)
def test_from_a_start(specifier: str, since: str, inside: bool) -> None:
    assert within(specifier, since, "") is inside


def test_both_ends_hold() -> None:
    assert within(">=1.5,<2.0", "1.5", "1")
    assert not within(">=1.4,<2.0", "1.5", "1")
    assert not within(">=1.5,<2.1", "1.5", "1")
