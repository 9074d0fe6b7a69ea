"""The mechanisms that apply a patch, and the choice among them by what the target is. No name is replaced where the
object behind it can be changed.
"""

from __future__ import annotations

import functools
import types

from hpushim.shim import log
from hpushim.shim.mechanisms import c_function, constructor, in_place
from hpushim.shim.mechanisms.in_place import HookUnavailable, Undo
from hpushim.shim.patch import Patch


def apply(patch: Patch, module: types.ModuleType) -> Undo | None:
    """Applies a patch to its loaded module; returns how to undo it, None where there is nothing to undo.

    Raises in_place.MissingTarget when the target is not there.
    """
    if patch.how == "hook":
        undo = patch.replacement()
        return (lambda: undo() is not False) if undo is not None else None
    if patch.how == "constructor":
        return _constructor(patch, module)
    target = in_place.stored(patch, module)
    if patch.how != "value" and isinstance(target, c_function.KINDS):
        try:
            return c_function.exchange(target, functools.partial(in_place.bound, patch))
        except HookUnavailable as error:
            log.warn(
                "HPU909",
                f"{error}; hpushim replaces C functions of torch by name, so references taken earlier "
                "stay unpatched",
            )
    return in_place.apply(patch, module)


def _constructor(patch: Patch, module: types.ModuleType) -> Undo | None:
    cls = in_place.find(patch, module)
    if not isinstance(cls, type):
        log.warn(
            "HPU909", f"{patch.row}: another library replaced it by {cls!r}, which hpushim keeps"
        )
        return None
    try:
        return constructor.hook(cls, patch.replacement, factory=patch.factory)
    except HookUnavailable as error:
        log.warn(
            "HPU909", f"{patch.row}: {error}; a substitute class is used, isinstance still works"
        )
        return constructor.stand_in(module, patch.path, patch.replacement, factory=patch.factory)
