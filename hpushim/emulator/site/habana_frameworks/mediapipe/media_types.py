"""Names of media types."""

from __future__ import annotations


class _Names:
    """Each attribute is its own name."""

    def __init__(self, kind):
        self._kind = kind

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{self._kind}.{name}"


decoderStage = _Names("decoderStage")
dtype = _Names("dtype")
ftype = _Names("ftype")
imgtype = _Names("imgtype")
randomCropType = _Names("randomCropType")
