"""The ``hpushim`` command."""

from __future__ import annotations


def main() -> int:
    raise SystemExit("hpushim: the command line is not built yet")
