"""The kinds of file that hpushim reads."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "python",
    "notebook",
    "yaml",
    "json",
    "toml",
    "ini",
    "shell",
    "dockerfile",
    "requirements",
    "makefile",
    "markdown",
]
