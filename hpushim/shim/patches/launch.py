"""Launchers that start scripts with a bare Python: under ``hpushim run`` their workers run the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from hpushim.shim.loading import ROOT_VARIABLE
from hpushim.shim.patch import EXACT, patch


@patch("torch.distributed.launcher.api:launch_agent", row="torch.distributed.run", level=EXACT)
def launch_agent(
    original: Callable[..., Any], config: Any, entrypoint: Any, args: Any, *rest: Any, **kwargs: Any
) -> Any:
    """torchrun's workers: ``python -u train.py`` becomes ``python -u -m hpushim run train.py``."""
    if os.environ.get(ROOT_VARIABLE) and entrypoint == sys.executable:
        args = through_run(list(args))
    return original(config, entrypoint, args, *rest, **kwargs)


def through_run(arguments: list[str]) -> list[str]:
    """The arguments of a Python command line with its script or module run by hpushim; flags stay in front."""
    flags: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        flags.append(rest.pop(0))
    if not rest or rest[0] in ("-c", "-"):
        return list(arguments)
    return [*flags, "-m", "hpushim", "run", *rest]
