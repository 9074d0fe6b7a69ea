"""The vendor's data loader package: importable, since libraries import it, and a clear error when used."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import not_modelled


class HabanaDataLoader:
    """Not available: hardware-assisted loading is not emulated."""

    def __init__(self, *args, **kwargs):
        raise not_modelled("HabanaDataLoader", "use torch.utils.data.DataLoader")
