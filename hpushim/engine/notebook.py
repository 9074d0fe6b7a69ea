"""stub"""

from __future__ import annotations

from hpushim.engine.run import Context
from hpushim.engine.text import Text
from hpushim.engine.words import Script
from hpushim.model import Finding


def findings(text: Text, context: Context) -> list[Finding]:
    """stub"""
    return []


def script(text: Text) -> Script:
    """stub"""
    return Script()
