"""The pipeline class that users derive from."""

from __future__ import annotations

from habana_frameworks.mediapipe import ADVICE
from habana_frameworks.torch._not_modelled import not_modelled


class MediaPipe:
    """Can be derived from; making one raises."""

    def __init__(self, *args, **kwargs):
        raise not_modelled("mediapipe.MediaPipe", ADVICE)
