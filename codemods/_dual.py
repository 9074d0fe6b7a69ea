"""Code for both kinds of machine: what the ``dual`` style writes instead of Gaudi's own words.

One constant of the file, ``ACCELERATOR``, is ``"hpu"`` where a Gaudi is and ``"cuda"`` elsewhere; the rule
``dual_constant`` defines it in every file that comes to use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

NAME = "ACCELERATOR"
_CHOICES = {"hpu_backend": "inductor"}


def dual(module: Module) -> bool:
    """Is the code to run on CUDA as well?"""
    return module.target.style == "dual"


def word(text: str, mark: str) -> str | None:
    """The expression that stands for one of Gaudi's words; None for any other text."""
    if text == "hpu":
        return NAME
    if text.startswith("hpu:"):
        return f"f{mark}{{{NAME}}}{text.removeprefix('hpu')}{mark}"
    if text in _CHOICES:
        return either(f"{mark}{text}{mark}", f"{mark}{_CHOICES[text]}{mark}", mark)
    if "hccl" in text:
        cuda = text.replace("hccl", "nccl").replace("hpu", "cuda")
        return either(f"{mark}{text}{mark}", f"{mark}{cuda}{mark}", mark)
    return None


def either(gaudi: str, cuda: str, mark: str = '"') -> str:
    """An expression that is one thing on Gaudi and another elsewhere."""
    return f"({gaudi} if {NAME} == {mark}hpu{mark} else {cuda})"
