"""The vendor's media pipeline: its names are there for libraries that import them, using one is a clear error."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import not_modelled

ADVICE = "load with torch.utils.data.DataLoader"


class _Operators:
    """Operator constructors: each raises."""

    def __getattr__(self, name):
        raise not_modelled(f"mediapipe.fn.{name}", ADVICE)


fn = _Operators()
