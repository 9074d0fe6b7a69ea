"""``python -m hpushim``: the same as the ``hpushim`` command."""

from __future__ import annotations

import sys

import hpushim

if hpushim._leaves_later:
    del sys.path[0]

from hpushim.cli import script

sys.exit(script())
