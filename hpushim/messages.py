"""How a line of hpushim's reaches a person at run time: the logger ``hpushim``, to standard error unless the program gave
it a handler. Shim and emulator both log through it. Standard library only.
"""

from __future__ import annotations

import logging
import os
import sys

logger = logging.getLogger("hpushim")

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def emit(level: int, text: str) -> None:
    """Says a line, whatever ``HPUSHIM_LOG`` says and whichever rank this is."""
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("hpushim: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.log(level, text)


def verbosity() -> str:
    """What ``HPUSHIM_LOG`` requests: ``quiet``, ``summary``, ``sites``, ``trace`` or nothing."""
    return os.environ.get("HPUSHIM_LOG", "").strip().lower()


def reports_here() -> bool:
    """Whether this process is the one of its run that reports: rank 0, or one outside a distributed run."""
    for variable in _RANKS:
        if os.environ.get(variable):
            return os.environ[variable] == "0"
    # mp.spawn hands its rank over as an argument.
    distributed = sys.modules.get("torch.distributed")
    started = getattr(distributed, "is_initialized", None)
    return started is None or not started() or distributed.get_rank() == 0  # type: ignore[union-attr]
