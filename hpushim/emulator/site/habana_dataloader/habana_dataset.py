"""Data sets of the vendor's data loader."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import not_modelled


class ImageFolderWithManifest:
    """Not available: hardware-assisted loading is not emulated."""

    def __init__(self, *args, **kwargs):
        raise not_modelled("ImageFolderWithManifest", "use torchvision.datasets.ImageFolder")
