"""What the shim finds in the matrix's file without parsing it is what the parsed policy says."""

from __future__ import annotations

from hpushim.matrix import load
from hpushim.shim import policy


def test_every_package_of_the_policy_is_found_in_the_text() -> None:
    lists = load().policy
    for entry in (*lists.nvidia_only, *lists.knows_hpu, *lists.compares_devices):
        assert policy._is_mentioned(entry.partition("<")[0]), entry
    for name in lists.without_cuda:
        assert policy.is_named(name), name
    assert not policy._is_mentioned("a_package_of_the_users")
