"""stub"""

from __future__ import annotations

from hpushim.engine.run import Context
from hpushim.engine.text import Text
from hpushim.model import Finding


def findings(text: Text, context: Context) -> list[Finding]:
    """stub"""
    return []
