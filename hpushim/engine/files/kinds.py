"""What kind of file a path is, by its name and, without a telling name, by its first line."""

from __future__ import annotations

import re
from pathlib import PurePath

from hpushim.engine.base.kind import Kind
from hpushim.patterns import lazily

_BY_SUFFIX: dict[str, Kind] = {
    ".py": "python",
    ".pyw": "python",
    ".ipynb": "notebook",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".jsonc": "json",
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".ksh": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".pbs": "shell",
    ".dockerfile": "dockerfile",
    ".mk": "makefile",
    ".md": "markdown",
}
#: CUDA sources: no rule reads them, and the report counts them.
KERNELS = frozenset((".cu", ".cuh"))
_DOCKERFILE = lazily(r"(?:docker|container)file(?:[.\-_].*)?$", re.IGNORECASE)
_REQUIREMENTS = lazily(r"(?:.*[-_.])?(?:requirements?|constraints?)(?:[-_.].*)?\.(?:txt|in|lock)$")
_MAKEFILE = lazily(r"(?:GNUm|[mM])akefile$")
_SHEBANG = lazily(rb"#!.*?\b(?:(python)|((?:ba|z|k|da)?sh)\b)")


def by_name(path: PurePath) -> Kind | None:
    """The kind by the file's name, None when the name says nothing."""
    name = path.name
    suffix = path.suffix.lower()
    if suffix in (".txt", ".in", ".lock"):
        if _REQUIREMENTS.match(name.lower()) or path.parent.name.lower() == "requirements":
            return "requirements"
        return None
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if _DOCKERFILE.match(name):
        return "dockerfile"
    if _MAKEFILE.match(name):
        return "makefile"
    return None


def by_first_line(head: bytes) -> Kind | None:
    """The kind by a ``#!`` line."""
    found = _SHEBANG.match(head)
    if not found:
        return None
    return "python" if found.group(1) else "shell"
