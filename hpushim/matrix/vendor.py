"""Texts that name a vendor's device: what the agnostic style may not write, and what its messages need not say."""

from __future__ import annotations

import re

#: Words of Gaudi, and the dual style's constant.
_NAMED = re.compile(r"\b(hpu|hccl|ht)|habana|ACCELERATOR\b|mark_step|force_sum_reduction")
_IN_MESSAGE = re.compile(r"Gaudi|\b(hpu|hccl)\b")


def is_named(text: str) -> bool:
    """Does code name one vendor's device?"""
    return _NAMED.search(text) is not None


def neutral_message(message: str, shown: str, new: str) -> str:
    """The message of a finding whose fix is a form for every device: it says that form, and nothing about Gaudi."""
    if not _IN_MESSAGE.search(message):
        return message
    use = f"use `{new}`" if new else "`migrate --style agnostic` writes the form for every device"
    return f"`{shown}` works on CUDA only; {use}"


def kept_message(message: str, shown: str) -> str:
    """The message of a finding whose place stays, for what would be written names a vendor."""
    if not _IN_MESSAGE.search(message):
        return message
    return f"`{shown}` works on CUDA only and has no neutral form here; it is not changed"
