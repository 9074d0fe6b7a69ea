"""Iterators over a pipeline."""

from __future__ import annotations

from habana_frameworks.mediapipe import ADVICE
from habana_frameworks.torch._not_modelled import not_modelled


class HPUResnetPytorchIterator:
    """Not available."""

    def __init__(self, *args, **kwargs):
        raise not_modelled("mediapipe iterators", ADVICE)
