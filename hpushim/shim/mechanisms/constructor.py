"""Mechanism A: change what calling a C type does, on the type itself, so that it stays the same type.

``torch.device`` cannot be subclassed and its attributes are frozen, yet every holder of it must see
``torch.device("cuda:3")`` become ``hpu:0`` while ``isinstance``, ``|``, pickle, TorchScript, custom operators and
torch.compile keep meeting the type they know. CPython lets a type's ``tp_new`` slot point at its own
``slot_tp_new``, which looks ``__new__`` up in the type's dictionary; that is the one word of memory written here.
It is written only after a trial on a type made for the purpose.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable
from typing import Any

from hpushim.shim.mechanisms.in_place import HookUnavailable, Undo, set_attribute

_plain = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
_with_keywords = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.py_object
)


def hook(cls: type, replacement: Callable[..., Any], *, factory: bool = False) -> Undo:
    """Makes ``cls(...)`` call ``replacement(original, cls, *args, **kwargs)``; returns how to undo it.

    ``original(cls, *args, **kwargs)`` constructs as before. With ``factory``, ``replacement(original)`` is called once and what it
    returns is called with ``(cls, *args, **kwargs)``. Raises HookUnavailable where the self-check fails.
    """
    offset = _slot_offset()
    return _install(cls, replacement, offset, factory=factory)


@functools.lru_cache(maxsize=1)
def _slot_offset() -> int:
    """Byte offset of ``tp_new`` in a type object, found on throwaway types and tried out."""
    if sys.implementation.name != "cpython":
        raise HookUnavailable(f"the interpreter is {sys.implementation.name}, not CPython")
    if "t" in getattr(sys, "abiflags", ""):
        raise HookUnavailable("this is the free-threaded build of CPython")
    if struct.calcsize("P") != 8:
        raise HookUnavailable("pointers are not 64 bits wide")
    offset = _find_offset()
    _try_out(offset)
    return offset


def _find_offset() -> int:
    """Where a class with ``__new__`` differs from one without and agrees with a second one with it."""

    class Plain:
        pass

    class First:
        def __new__(cls) -> Any:
            return object.__new__(cls)

    class Second:
        def __new__(cls) -> Any:
            return object.__new__(cls)

    size = 408  # of the part that static types have as well
    words = [
        struct.unpack_from(f"{size // 8}Q", ctypes.string_at(id(cls), size))
        for cls in (object, Plain, First, Second)
    ]
    found = [
        8 * index
        for index, (base, plain, first, second) in enumerate(zip(*words, strict=True))
        if base == plain != first == second and base and first and index > 2
    ]
    if len(found) != 1:
        raise HookUnavailable(
            f"tp_new was looked for in the type layout and found {len(found)} times"
        )
    return found[0]


def _try_out(offset: int) -> None:
    """Hooks and unhooks a throwaway class; a wrong offset shows here, not on torch."""
    probe = type("Probe", (), {})
    seen: list[Any] = []

    def replacement(original: Callable[..., Any], cls: type, *args: Any) -> Any:
        seen.append(args)
        return original(cls)

    undo = _install(probe, replacement, offset)
    made = probe(1)
    undo()
    if type(made) is not probe or seen != [(1,)] or type(probe()) is not probe or len(seen) != 1:
        raise HookUnavailable("a trial of the constructor hook on a class of its own went wrong")


def _install(
    cls: type, replacement: Callable[..., Any], offset: int, *, factory: bool = False
) -> Undo:
    class Donor:
        def __new__(cls) -> Any:
            return object.__new__(cls)

    slot = ctypes.c_void_p.from_address(id(cls) + offset)
    slot_tp_new = ctypes.c_void_p.from_address(id(Donor) + offset).value
    old = slot.value
    if old is None or old == slot_tp_new:
        raise HookUnavailable(f"{cls.__qualname__} already has a constructor written in Python")
    call_plain, call_keywords = _plain(old), _with_keywords(old)

    def original(cls: type, *args: Any, **kwargs: Any) -> Any:
        return call_keywords(cls, args, kwargs) if kwargs else call_plain(cls, args, None)

    # A closure, so that the type's dictionary holds one plain function and no global state.
    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, cls, *args, **kwargs)

    dictionary = _type_dictionary(cls)
    before = dictionary.get("__new__")
    mine = staticmethod(replacement(original) if factory else __new__)
    dictionary["__new__"] = mine
    slot.value = slot_tp_new
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))

    def undo() -> bool:
        if dictionary.get("__new__") is not mine:
            return False
        slot.value = old
        if before is None:
            del dictionary["__new__"]
        else:
            dictionary["__new__"] = before
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
        return True

    return undo


def stand_in(
    module: Any, name: str, replacement: Callable[..., Any], *, factory: bool = False
) -> Undo:
    """The fallback: replaces the name by a class whose calls go to ``replacement``; isinstance keeps working.

    Modules that hold the type by value, TorchScript and torch.compile do not see it.
    """
    cls = getattr(module, name)

    def construct(real: type, *args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs)

    made = replacement(construct) if factory else functools.partial(replacement, construct)

    class Meta(type):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return made(cls, *args, **kwargs)

        def __instancecheck__(self, instance: Any) -> bool:
            return isinstance(instance, cls)

        def __subclasscheck__(self, subclass: type) -> bool:
            return issubclass(subclass, cls)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(cls, attribute)

    proxy = Meta(cls.__name__, (), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    return set_attribute(module, name, proxy)


def set_in_type(cls: type, name: str, value: Any) -> Undo:
    """Sets an attribute of a type whose attributes are frozen; the undo restores or removes it."""
    dictionary = _type_dictionary(cls)
    before = dictionary.get(name)
    dictionary[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))

    def undo() -> bool:
        if dictionary.get(name) is not value:
            return False
        if before is None:
            del dictionary[name]
        else:
            dictionary[name] = before
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
        return True

    return undo


def _type_dictionary(cls: type) -> dict[str, Any]:
    """The mutable dictionary behind ``cls.__dict__``; a static C type offers only a read-only view of it."""
    import gc

    found = [one for one in gc.get_referents(cls.__dict__) if isinstance(one, dict)]
    if len(found) != 1:
        raise HookUnavailable(f"the dictionary of {cls.__qualname__} could not be reached")
    return found[0]
