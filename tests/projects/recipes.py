"""The recipes of real.toml, and where repositories, data and interpreter are."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli
from running import Way

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Workload:
    """One recipe of real.toml; the fields are explained there."""

    name: str
    repo: str
    words: str
    loss: str
    folder: str = "."
    cwd: str = "."
    path: str = ""
    cpu: str = ""
    hpu: str = ""
    native: str | None = None
    links: dict[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    seed: tuple[str, ...] = ()
    within: float = 1e-4
    why: str = ""
    device: bool = True
    as_on_cuda: tuple[str, ...] = ()
    switchable: bool = True
    cuda_only: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    make: dict[str, str] = field(default_factory=dict)
    devices: int = 1
    needs: tuple[str, ...] = ()
    marks: int | None = None
    only: str = ""
    refused: str = ""
    warned: str = ""

    @property
    def has_cpu_switch(self) -> bool:
        """Whether an option decides between CPU and CUDA; without one only the machine decides."""
        return self.switchable and bool(self.cpu or self.hpu)

    def switch(self, way: Way) -> str:
        """The device option for this way."""
        if way == "native":
            # a device named as a value becomes hpu; an option called --cuda keeps its name
            return (
                self.native
                if self.native is not None
                else re.sub(r"(?<=[ =])cuda\b", "hpu", self.hpu)
            )
        return self.hpu if way == "shim" else self.cpu


@dataclass(frozen=True)
class Place:
    """Where repositories, data and interpreter are."""

    corpora: Path
    data: Path
    python: str

    @classmethod
    def from_environment(cls) -> Place | None:
        """The place that the environment names, or None when it names none."""
        corpora, data = os.environ.get("HPUSHIM_CORPORA"), os.environ.get("HPUSHIM_CORPORA_DATA")
        if not corpora or not data:
            return None
        return cls(
            Path(corpora), Path(data), os.environ.get("HPUSHIM_CORPORA_PYTHON", sys.executable)
        )

    def repositories(self) -> list[str]:
        """The repositories at hand, by the names of their folders."""
        return sorted(path.name for path in self.corpora.iterdir() if path.is_dir())


RECIPES = HERE / "real.toml"


def absent(file: Path = RECIPES) -> dict[str, str]:
    """Repositories that are not run here, or not wholly, each with what it would need."""
    return dict(tomli.loads(file.read_text()).get("absent", {}))


def workloads(file: Path = RECIPES) -> list[Workload]:
    """All recipes, in the order of the file."""
    rows: list[dict[str, Any]] = tomli.loads(file.read_text())["workload"]
    return [
        Workload(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()})
        for row in rows
    ]
