"""``python -m hpushim``: the same as the ``hpushim`` command."""

from __future__ import annotations

import sys

from hpushim.cli import script

sys.exit(script())
