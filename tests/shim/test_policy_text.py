"""What the shim finds in the matrix's file without parsing it is what the parsed policy says."""

from __future__ import annotations

import types

import pytest

from hpushim import matrix
from hpushim.matrix import load
from hpushim.shim import policy


def test_every_package_of_the_policy_is_found_in_the_text() -> None:
    lists = load().policy
    for entry in (*lists.nvidia_only, *lists.knows_hpu, *lists.compares_devices):
        assert policy._is_mentioned(entry.partition("<")[0]), entry
    for name in lists.without_cuda:
        assert policy.is_named(name), name
    assert not policy._is_mentioned("a_package_of_the_users")


@pytest.mark.parametrize(
    ("package", "mentioned", "expected", "said"),
    [
        ("__main__", True, True, []), ("__mp_main__", True, True, []), ("mine", False, True, []), ("fused", False, True, []), ("other", True, True, []),
        ("fused", True, False, ["HPU905"]), ("knowing", True, False, []), ("versioned", True, False, []),
    ],
)  # fmt: skip
def test_whose_code_a_package_is(monkeypatch: pytest.MonkeyPatch, package: str, mentioned: bool, expected: bool, said: list[str]) -> None:  # fmt: skip
    lists = types.SimpleNamespace(nvidia_only=("fused",), knows_hpu=("knowing", "versioned"))
    monkeypatch.setattr(policy, "_is_mentioned", lambda name: mentioned)
    monkeypatch.setattr(matrix, "load", lambda: types.SimpleNamespace(policy=lists))
    monkeypatch.setattr(policy, "_names", lambda entry, name: entry == name)
    notes: list[str] = []
    monkeypatch.setattr(policy.log, "note", lambda code, text: notes.append(code))
    for silently in (True, False):
        notes.clear()
        assert policy.is_users(package, silently=silently) is expected
        assert notes == said * (not silently)
