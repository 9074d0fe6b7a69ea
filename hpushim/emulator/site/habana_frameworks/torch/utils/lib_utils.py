"""Folders of the package."""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch as _package


def get_include_dir():
    """Folder of the C++ headers: named as in the vendor's package, empty here (no C++ interface is emulated)."""
    return str(Path(_package.__path__[0]) / "include")


def get_lib_dir():
    """Folder of the libraries: named as in the vendor's package, empty here."""
    return str(Path(_package.__path__[0]) / "lib")
