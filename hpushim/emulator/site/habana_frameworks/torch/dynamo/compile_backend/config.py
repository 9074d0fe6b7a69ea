"""Settings of the backend, given as ``torch.compile(..., options={...})``; they change no result when emulated."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any


def _env(name: str, default: str) -> bool:
    return os.environ.get(name, default).lower() in ("1", "true")


configuration_flags: dict[str, Any] = {
    "use_compiled_recipes": _env("PT_HPU_COMPILE_USE_RECIPES", "1"),
    "use_eager_fallback": _env("PT_HPU_USE_EAGER_FALLBACK", "1"),
    "force_static_compile": _env("PT_HPU_FORCE_STATIC_COMPILE", "0"),
    "use_graph_freezing": _env("PT_HPU_COMPILE_GRAPH_FREEZE", "0"),
    "decomposition_mode": os.environ.get("PT_HPU_COMPILE_DECOMPOSITION_MODE", "habana"),
    "keep_input_mutations": False,
    "inference": None,
    "use_boxed_input": True,
    "use_cpp_partitioner": False,
    "use_inplace_allreduce": False,
    "use_inplace_index_copy": False,
    "enable_allreduce_graph_split": False,
    "enable_sfg": False,
    "reassign_copy_": False,
    "reassign_full_copy": False,
    "reinplace_add": False,
    "remove_unnecessary_clones": False,
    "discard_frozen_params": False,
}


def __getattr__(name: str) -> Any:
    try:
        return configuration_flags[name]
    except KeyError:
        raise AttributeError(
            f"hpu_backend has no setting {name!r}; known: {sorted(configuration_flags)}"
        ) from None


@contextlib.contextmanager
def patch(options: dict[str, Any] | None) -> Iterator[None]:
    """Settings for the length of a block; an unknown name is a ValueError."""
    changes = options or {}
    unknown = sorted(set(changes) - set(configuration_flags))
    if unknown:
        raise ValueError(
            f"hpu_backend has no option {unknown[0]!r}; known: {', '.join(sorted(configuration_flags))}"
        )
    before = dict(configuration_flags)
    configuration_flags.update(changes)
    try:
        yield
    finally:
        configuration_flags.update(before)
