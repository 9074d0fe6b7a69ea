"""Shared weights: torch keeps them shared on the emulated device, so nothing has to be wrapped."""

from __future__ import annotations

from typing import ClassVar

from torch.nn import Parameter


class HabanaParameterWrapper(Parameter):
    """A plain parameter; the vendor's lazy mode wraps parameters to keep shared ones shared."""

    db: ClassVar[dict[object, object]] = {}


def enable_weight_sharing():
    """Nothing to do on the emulated HPU."""
