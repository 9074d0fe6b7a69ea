"""The codes that the engine gives about files and rewrites: this class only gives them a page."""

from __future__ import annotations

from typing import ClassVar

from hpushim.engine.base.diagnostics import CODES
from hpushim.engine.rules.rule import Rule
from hpushim.engine.rules.wants import Wants

from ..analysis.project_facts import FRAMEWORKS_USED

_FIRST, *_MORE = CODES


class EngineFindings(Rule):
    """Finds nothing itself; :mod:`hpushim.engine` does."""

    code = _FIRST
    name = CODES[_FIRST][0]
    severity = "error"
    safety = "manual"
    #: A directive is judged even where nothing else is to be found.
    wants = Wants(texts=("hpushim:",), facts=(FRAMEWORKS_USED,))
    also: ClassVar[dict[str, str]] = {code: CODES[code][0] for code in _MORE}
