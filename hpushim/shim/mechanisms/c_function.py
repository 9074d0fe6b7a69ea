"""Mechanism B for what is written in C: functions, methods and getters stay the same objects and do something else.

``torch.zeros`` is a built-in function. Tables are keyed by it, ``__torch_function__`` is handed it, TorchScript and
torch.compile know it by identity, and modules hold it by value; so it must not be replaced by name, and neither must
``torch.Tensor.to``. CPython calls such an object through a pointer in it (``vectorcall``, PEP 590; for a method that was
bound before, through its definition), and that word is written here. Name, hash, equality, pickling and signature stay
those of the object, since none of them looks at that word.

The layout is tried out on objects made for the purpose; where it, the processor or the system is another one,
:class:`HookUnavailable` says so.
"""

from __future__ import annotations

import ctypes
import functools
import math
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from hpushim.shim.mechanisms import thunks
from hpushim.shim.mechanisms.in_place import HookUnavailable, Undo

_ORDINARY = 0x1 | 0x2  # METH_VARARGS | METH_KEYWORDS
_CALLING = 0x1 | 0x2 | 0x4 | 0x8 | 0x80  # every flag that says how a function is called

Target = types.BuiltinFunctionType | types.MethodDescriptorType | types.GetSetDescriptorType
KINDS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.GetSetDescriptorType)


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Accessors(ctypes.Structure):
    """PyGetSetDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


_HEAD = (("references", ctypes.c_ssize_t), ("type", ctypes.c_void_p))
_DESCRIPTOR = (*_HEAD, ("owner", ctypes.c_void_p), ("text", ctypes.c_void_p), ("path", ctypes.c_void_p))  # fmt: skip


class _Function(ctypes.Structure):
    """PyCFunctionObject."""

    _fields_ = (
        *_HEAD,
        ("definition", ctypes.c_void_p),
        ("self", ctypes.c_void_p),
        ("module", ctypes.c_void_p),
        ("weak", ctypes.c_void_p),
        ("vectorcall", ctypes.c_void_p),
    )


class _Method(ctypes.Structure):
    """PyMethodDescrObject."""

    _fields_ = (
        *_DESCRIPTOR,
        ("definition", ctypes.c_void_p),
        ("vectorcall", ctypes.c_void_p),
    )


class _Getter(ctypes.Structure):
    """PyGetSetDescrObject."""

    _fields_ = (*_DESCRIPTOR, ("definition", ctypes.c_void_p))


_LAYOUTS: dict[type, Any] = {
    types.BuiltinFunctionType: _Function,
    types.MethodDescriptorType: _Method,
    types.GetSetDescriptorType: _Getter,
}


class Straight(NamedTuple):
    """Which calls of a method need no Python: with one argument, of exactly this type, that holds another byte at this place."""

    kind: type
    at: int
    byte: int


def exchange(target: Target, replacement: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:  # fmt: skip
    """Makes ``target`` do what ``replacement(original)`` does, whoever holds it; returns how to undo it.

    A method's and a getter's replacement is called with the instance first. ``original`` is called the same way and does
    what ``target`` did. A method's replacement may have a ``Straight`` as ``__hpushim_straight__``: such calls of the method do what
    they did. Raises HookUnavailable.
    """
    _try_out()
    now = _calls.get(id(target))
    call = replacement(now[-1] if now else _original(target))
    straight: Straight | None = getattr(call, "__hpushim_straight__", None)
    past = _past(target, straight) if straight and not now else None
    return _exchange(target, call, past)


@functools.cache  # for good, as all such code
def _past(target: types.MethodDescriptorType, straight: Straight) -> int:
    original: Any = _original(target)
    vectorcall = _words(original).vectorcall
    return thunks.past(thunks.for_object(target), *straight, original, vectorcall)


def is_exchanged(target: Target) -> bool:
    """Whether a function or method does something else at the moment."""
    return bool(_calls.get(id(target)))


def _exchange(target: Target, call: Callable[..., Any], past: int | None = None) -> Undo:
    words = _words(target)
    if isinstance(words, _Getter):
        return _exchange_getter(words, call)
    thunk = thunks.for_object(target)
    before, definition = words.vectorcall, words.definition
    # A copy that says "any arguments": for other flags the interpreter may call the C function past the pointer.
    own = _Definition.from_buffer_copy(_Definition.from_address(definition))
    own.flags = own.flags & ~_CALLING | _ORDINARY
    if isinstance(words, _Method):
        own.function = thunk.bound  # a function's stays: its hash is made of it
    calls = _calls.setdefault(id(target), [])
    calls.append(call)
    thunks.keep(target, own, call)  # another thread may be about to use them
    thunk.word.value = id(call)
    words.definition = mine = ctypes.addressof(own)
    words.vectorcall = past or thunk.call

    def undo() -> bool:
        if not calls or calls[-1] is not call or words.definition != mine:
            return False
        calls.pop()
        if calls:
            thunk.word.value = id(calls[-1])
        words.vectorcall = before
        words.definition = definition
        return True

    return undo


def _exchange_getter(words: _Getter, call: Callable[..., Any]) -> Undo:
    definition = words.definition
    own = _Accessors.from_buffer_copy(_Accessors.from_address(definition))
    own.get, own.closure = thunks.getter(), id(call)
    mine = ctypes.addressof(own)
    thunks.keep(own, call)
    words.definition = mine

    def undo() -> bool:
        if words.definition != mine:
            return False
        words.definition = definition
        return True

    return undo


_calls: dict[int, list[Callable[..., Any]]] = {}
"""What each function and method does at the moment, by identity; the last one counts."""


def _words(target: Target) -> Any:
    """The object's memory, if it is laid out as expected."""
    layout = _LAYOUTS[type(target)]
    words = layout.from_address(id(target))
    if (
        type(target).__basicsize__ != ctypes.sizeof(layout)
        or words.type != id(type(target))
        or _Definition.from_address(words.definition).name != target.__name__.encode()
    ):
        raise HookUnavailable(f"{target.__name__} is laid out in another way than CPython's")
    return words


def _original(target: Target) -> Callable[..., Any]:
    """A second object over the same C function, which is called as the first one was."""
    words = _words(target)
    definition = words.definition
    if isinstance(words, _Function):
        made: Any = _api("PyCMethod_New", 4)(definition, words.self, words.module, None)
        return made  # type: ignore[no-any-return]
    maker = "PyDescr_NewMethod" if isinstance(words, _Method) else "PyDescr_NewGetSet"
    made = _api(maker, 2)(words.owner, definition)
    return made if isinstance(words, _Method) else made.__get__  # type: ignore[no-any-return]


@functools.cache  # each prototype is a class of its own
def _api(name: str, arguments: int) -> Any:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * arguments)
    return prototype((name, ctypes.pythonapi))


@functools.cache
def _try_out() -> None:
    """Exchanges objects of its own and puts them back. Raises HookUnavailable where anything is not as expected."""
    thunks.check()
    for kind, layout in ((types.BuiltinFunctionType, _Function), (types.MethodDescriptorType, _Method)):  # fmt: skip
        # tp_vectorcall_offset of the type
        if ctypes.c_ssize_t.from_address(id(kind) + 56).value != layout.vectorcall.offset:
            raise HookUnavailable("built-in functions are laid out in another way than CPython's")
    for target, arguments in (
        (math.hypot, (3.0, 4.0)),
        (math.floor, (2.5,)),
        (str.split, ("a b",)),
        (str.upper, ("a",)),
        (list.append, ([], 1)),
        (list.sort, ([2, 1],)),
    ):
        _try(target, arguments)  # type: ignore[arg-type]
    probe = _api("PyDescr_NewGetSet", 2)(
        id(types.FunctionType), _words(types.FunctionType.__code__).definition  # type: ignore[arg-type]
    )  # fmt: skip
    undo = _exchange(probe, lambda function: function.__name__)
    found = probe.__get__(_words)
    if not undo() or found != "_words" or probe.__get__(_words) is not _words.__code__:
        raise HookUnavailable("a trial on a getter of its own went wrong")


def _try(target: Target, arguments: tuple[Any, ...]) -> None:
    """One object: called directly, bound and with a keyword, before, during and after."""
    probe: Any = _original(target)
    seen: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return "called"

    calls: list[Callable[[], Any]] = [lambda: probe(*arguments), lambda: probe(*arguments, more=1)]
    expected: list[Any] = [(arguments, {}), (arguments, {"more": 1})]
    if isinstance(target, types.MethodDescriptorType):
        calls.append(lambda: probe.__get__(arguments[0])(*arguments[1:], more=2))
        expected.append((arguments, {"more": 2}))
    undo = _exchange(probe, call)
    found = [one() for one in calls]
    if not undo() or found != ["called"] * len(calls) or seen != expected:
        raise HookUnavailable("a trial on functions of its own went wrong")
    calls[0]()
    if seen != expected:
        raise HookUnavailable("a trial on functions of its own could not be undone")
