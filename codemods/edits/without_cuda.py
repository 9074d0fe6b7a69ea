"""Whether a project does without CUDA, as far as the bytes of its files show."""

from __future__ import annotations

from collections.abc import Iterable

from hpushim.patterns import lazily

_MOVES = lazily(rb"\.cuda\(|(?:device|to)[(=][ \t]*[\"']cuda")
_WITHOUT = lazily(
    rb"(?<!accelerator\.)\bis_available\b|\bdevice_count\(\)[ \t]*(?:>|==|!=)[ \t]*0|\bis_cuda\b|[\"']cpu[\"']\)?[ \t]+if\b"
    rb"|\b(?:else|return)\b[ \t(]*(?:[\w.]*device\()?[\"']cpu|[\"']cpu[\"'],|,[ \t]*[\"']cpu[\"'][\])]|default=[\"']cpu|device[ \t]*=[ \t]*[\"']cpu"
)


def cuda_or_not(data: bytes) -> Iterable[bytes]:
    """``b"moves"`` where tensors go to CUDA, which fails without it; ``b"without"`` where the CPU may take its place."""
    if b"cuda" in data and _MOVES.search(data):
        yield b"moves"
    if (b"cpu" in data or b"cuda" in data) and _WITHOUT.search(data):
        yield b"without"


#: The project's fact: whether any file moves to CUDA, and whether any checks if it is there, or names the CPU in its place.
CUDA_OR_NOT = "cuda or not"


def needs_accelerator(data: bytes, said: frozenset[str]) -> bool:
    """Does the program of the file at hand fail without CUDA, as far as that and what the project's files ``said`` show?"""
    own = {each.decode() for each in cuda_or_not(data)}
    return "moves" in own and "without" not in own | said
