"""Mechanism B: change what existing functions, methods and properties do, and put it all back.

No name is replaced where one can be kept: a function keeps its identity and gets another
``__code__``, so modules that imported it by value see the patch as well. Nothing here knows a torch
signature; wrappers take and hand on whatever comes.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import itertools
import marshal
import types
from collections.abc import Callable
from typing import Any

from hpushim.kept import Kept
from hpushim.shim import log
from hpushim.shim.patch import MISSING, Patch

Undo = Callable[[], bool]
"""Puts back what was changed. False: somebody else has changed it since, so it was left alone."""

_serial = itertools.count(1)


class HookUnavailable(Exception):
    """This interpreter or system is not one whose objects a mechanism knows; the message says why."""


class MissingTarget(Exception):
    """The target does not exist in the running torch."""


def apply(patch: Patch, module: types.ModuleType) -> Undo:
    """Applies a function, method, getter or value patch to its loaded module; returns how to undo it.

    Raises MissingTarget when the attribute is not there.
    """
    owner, name = _resolve(patch, module)
    if patch.how == "value":
        return _apply_value(patch, owner, name)
    current = stored(patch, module)
    if patch.how == "getter":
        read = getattr(current, "fget", None)
        if isinstance(read, types.FunctionType):
            return exchange_code(read, bound(patch, clone(read)))
        return _apply_getter(patch, owner, name)
    function = plain_function(_own(owner, name))
    if function is not None:
        return exchange_code(function, bound(patch, clone(function)), cache=current)
    return _apply_attribute(patch, owner, name)


def stored(patch: Patch, module: types.ModuleType) -> Any:
    """What is stored under the target's name, descriptors unopened, inherited or not. Raises MissingTarget."""
    owner, name = _resolve(patch, module)
    for place in getattr(owner, "__mro__", (owner,)):
        if name in vars(place):
            return vars(place)[name]
    if patch.how == "value":
        return MISSING
    found = getattr(owner, name, MISSING)
    if found is MISSING:
        raise MissingTarget
    return found


def find(patch: Patch, module: types.ModuleType) -> Any:
    """The current value of a patch's target. Raises MissingTarget."""
    owner, name = _resolve(patch, module)
    value = getattr(owner, name, MISSING)
    if value is MISSING:
        raise MissingTarget
    return value


def clone(function: types.FunctionType) -> types.FunctionType:
    """A second function with the same body, globals, defaults and closure: the original to call."""
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(function.__dict__)
    return copy


def exchange_code(
    function: types.FunctionType,
    replacement: Callable[..., Any],
    *,
    cache: object = None,
    wider: bool = False,
) -> Undo:
    """Makes ``function`` call ``replacement`` with all its arguments; every holder of it sees that.

    Its parameters stay what they were, so code that inspects the function meets torch's; ``wider`` says that the
    replacement takes more. It gets what has a default by name, and only where it is another value. It is found through
    a name of its own in the function's globals, which torch.compile can guard.
    """
    saved = function.__code__
    namespace = function.__globals__
    key = f"__hpushim_{next(_serial)}__"
    defaults = {} if wider else _by_name(function)
    namespace[key] = _without(defaults, replacement) if defaults else replacement
    code = _trampoline(_ANYTHING if wider else saved, saved, defaults, key)
    function.__code__ = code
    _clear_cache(cache)

    def undo() -> bool:
        if function.__code__ is not code:
            return False
        function.__code__ = saved
        namespace.pop(key, None)
        _clear_cache(cache)
        return True

    return undo


def is_exchanged(function: types.FunctionType) -> bool:
    """Whether the function's code is a trampoline of ours."""
    return any(name.startswith("__hpushim_") for name in function.__code__.co_names)


def set_attribute(owner: Any, name: str, value: Any) -> Undo:
    """Sets an attribute of a module or class; the undo restores or removes it."""
    before = _own(owner, name)
    setattr(owner, name, value)
    after = _own(owner, name)

    def undo() -> bool:
        if _own(owner, name) is not after:
            return False
        if before is MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
        return True

    return undo


def _apply_attribute(patch: Patch, owner: Any, name: str) -> Undo:
    raw = _own(owner, name)
    original = getattr(owner, name) if raw is MISSING else raw
    wrapper: Any
    if isinstance(original, staticmethod | classmethod):
        inner = _as_function(bound(patch, original.__func__), original.__func__)
        wrapper = type(original)(inner)
    else:
        wrapper = _as_function(bound(patch, original), original)
    if isinstance(owner, types.ModuleType):
        # Pickled by reference to where it is, as the original was.
        wrapper.__module__, wrapper.__qualname__ = owner.__name__, name
    return set_attribute(owner, name, wrapper)


def _apply_value(patch: Patch, owner: Any, name: str) -> Undo:
    current = _own(owner, name)
    if current is MISSING:
        current = getattr(owner, name, MISSING)
    value = patch.replacement(current)
    return set_attribute(owner, name, value) if value is not current else (lambda: True)


def _apply_getter(patch: Patch, owner: Any, name: str) -> Undo:
    current: Any = getattr(owner, name)
    read = bound(patch, current.__get__)
    write = getattr(current, "__set__", None)
    return set_attribute(
        owner, name, property(read, write, None, getattr(current, "__doc__", None))
    )


def bound(patch: Patch, original: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement with its original filled in."""
    if patch.factory:
        call = patch.replacement(original)
    else:
        call = _closed_over(patch.replacement, original)
    call = _reporting(patch, call)
    call.__hpushim_original__ = original
    return call  # type: ignore[no-any-return]


def _closed_over(replacement: Callable[..., Any], original: Callable[..., Any]) -> Any:
    # A plain closure, not functools.partial: it can carry attributes and torch.compile reads it.
    def call(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    return call


def _reporting(patch: Patch, call: Callable[..., Any]) -> Any:
    if not patch.note:
        return call
    say = log.warn if patch.level in ("warn", "error") else log.note

    def report(*args: Any, **kwargs: Any) -> Any:
        say(patch.code, f"{patch.row}: {patch.note}")
        return call(*args, **kwargs)

    return report


def _as_function(call: Any, original: Any) -> Any:
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(original, attribute, None)
        if value is not None:
            setattr(call, attribute, value)
    call.__wrapped__ = original
    return call


def _resolve(patch: Patch, module: types.ModuleType) -> tuple[Any, str]:
    owner: Any = module
    *parents, name = patch.path.split(".")
    for parent in parents:
        owner = getattr(owner, parent, MISSING)
        if owner is MISSING:
            raise MissingTarget
    return owner, name


def _own(owner: Any, name: str) -> Any:
    """The attribute as stored on the owner itself, descriptors unopened; MISSING when inherited."""
    return vars(owner).get(name, MISSING)


def plain_function(value: Any) -> types.FunctionType | None:
    """The Python function behind a stored attribute, through static methods and caches."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if hasattr(value, "cache_clear"):
        value = getattr(value, "__wrapped__", value)
    return value if isinstance(value, types.FunctionType) else None


def _clear_cache(value: Any) -> None:
    clear = getattr(value, "cache_clear", None)
    if clear is not None:
        clear()


def _by_name(function: types.FunctionType) -> dict[str, Any]:
    """The parameters that are handed on by name, each with its default."""
    code = function.__code__
    first = code.co_argcount - len(function.__defaults__ or ())
    if code.co_flags & inspect.CO_VARARGS:
        first = code.co_argcount  # what more was given follows them
    first = max(first, code.co_posonlyargcount)
    names = code.co_varnames[first : code.co_argcount]
    plain = zip(reversed(names), reversed(function.__defaults__ or ()), strict=False)
    return {**dict(plain), **(function.__kwdefaults__ or {})}


def _without(defaults: dict[str, Any], replacement: Callable[..., Any]) -> Any:
    """``replacement``, called as if nobody had filled in the defaults."""

    def call(*args: Any, **kwargs: Any) -> Any:
        given = {k: v for k, v in kwargs.items() if k not in defaults or v is not defaults[k]}
        return replacement(*args, **given)

    return call


_HOLE = "__hpushim_hole__"
_PARAMETER = "__hpushim_parameter_{}__"


_Shape = tuple[tuple[str, ...], int, int, int, int, int]
_made: dict[_Shape, types.CodeType] = {}
"""The templates that were compiled since they were last kept."""


def keep_templates() -> None:
    """Keeps what was compiled for the next process: that is a tenth of an activation."""
    if _made:
        _found().update(_made)
        _kept().write(importlib.util.MAGIC_NUMBER + marshal.dumps(_found()))
        _made.clear()


def _kept() -> Kept:
    return Kept(__file__, "templates", ())


@functools.cache
def _found() -> dict[_Shape, types.CodeType]:
    data, magic = _kept().read() or b"", importlib.util.MAGIC_NUMBER
    return marshal.loads(data[len(magic) :]) if data.startswith(magic) else {}


def _template(shape: _Shape) -> types.CodeType:
    """Code that hands all arguments to a global, for the arguments of ``_compiled``."""
    code = _found().get(shape) or _made.get(shape)
    if code is None:
        code = _made[shape] = _compiled(*shape)
    return code


def _compiled(
    freevars: tuple[str, ...], positional: int, only: int, named: int, by_name: int, flags: int
) -> types.CodeType:
    """Code that hands all arguments to a global; it names the free variables that it must carry.

    It takes ``positional`` parameters, the first ``only`` of them by position alone, and ``named`` by name alone; the last
    ``by_name`` positional ones are handed on by name. ``flags`` are those for ``*args`` and ``**kwargs``.
    """
    names = [_PARAMETER.format(number) for number in range(positional + named + 2)]
    plain, keywords = names[:positional], names[positional : positional + named]
    several, rest = names[positional + named :]
    taken = [*plain[:only], *(["/"] if only else []), *plain[only:]]
    given = plain[: positional - by_name]
    if flags & inspect.CO_VARARGS:
        taken.append(f"*{several}")
        given.append(f"*{several}")
    elif keywords:
        taken.append("*")
    taken += keywords
    given += [f"{one}={one}" for one in (*plain[positional - by_name :], *keywords)]
    if flags & inspect.CO_VARKEYWORDS:
        taken.append(f"**{rest}")
        given.append(f"**{rest}")
    call = f"lambda {', '.join(taken)}: {_HOLE}({', '.join(given)})"
    if freevars:  # never evaluated, but carried
        carried = ", ".join(freevars)
        call = f"lambda {carried}: {call} if 1 else ({carried})"
    code: types.CodeType = compile(call, "", "eval")
    for _ in range(2 if freevars else 1):
        code = next(one for one in code.co_consts if isinstance(one, types.CodeType))
    return code


def _anything(*args: Any, **kwargs: Any) -> None: ...


_ANYTHING = _anything.__code__


def _trampoline(
    taking: types.CodeType, original: types.CodeType, defaults: dict[str, Any], key: str
) -> types.CodeType:
    shape = (
        original.co_freevars,
        taking.co_argcount,
        taking.co_posonlyargcount,
        taking.co_kwonlyargcount,
        sum(name in defaults for name in taking.co_varnames[: taking.co_argcount]),
        taking.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
    code = _template(shape)
    # A code's own variables begin with its parameters.
    spelled = dict(zip(code.co_varnames, taking.co_varnames, strict=False))

    def respelled(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(respelled, value))
        return spelled.get(value, value) if isinstance(value, str) else value

    qualified = getattr(original, "co_qualname", None)  # from Python 3.11 on
    more = {"co_qualname": qualified} if qualified else {}
    # File and line of the original: torch.compile decides by file which functions are torch's own.
    return code.replace(
        **more,
        co_names=tuple(key if name == _HOLE else name for name in code.co_names),
        co_consts=respelled(code.co_consts),
        co_varnames=respelled(code.co_varnames),
        co_name=original.co_name,
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
    )
