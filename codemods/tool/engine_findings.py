"""The codes that the engine gives about files and rewrites: this class only gives them a page."""

from __future__ import annotations

from hpushim.engine.base.diagnostics import CODES
from hpushim.engine.rules.rule import Rule, Wants

from ..analysis.launches import LAUNCHED, LAUNCHED_HERE
from ..analysis.project_facts import COMMAND_OPTIONS, FRAMEWORKS_USED, OFF_HERE
from ..analysis.training_facts import TRAINS_HERE


class EngineFindings(Rule):
    """Finds nothing itself; :mod:`hpushim.engine` does."""

    codes = CODES
    #: A directive is assessed even where nothing else is to be found.
    wants = Wants(
        texts=("hpushim:",),
        facts=(COMMAND_OPTIONS, FRAMEWORKS_USED, OFF_HERE, TRAINS_HERE, LAUNCHED, LAUNCHED_HERE),
    )
