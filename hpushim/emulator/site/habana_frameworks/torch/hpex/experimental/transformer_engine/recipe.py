"""Settings of 8-bit training, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Format(Enum):
    """Which 8-bit floats forward and backward use."""

    E4M3 = "E4M3"
    E5M2 = "E5M2"
    HYBRID = "HYBRID"


@dataclass
class DelayedScaling:
    """Scaling from past maxima."""

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str = "most_recent"
    reduce_amax: bool = True
