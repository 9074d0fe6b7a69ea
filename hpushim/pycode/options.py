"""Options that programs declare: ``add_argument("--device", default="cuda")`` is read as ``args.device``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.places import Function, Part, Way, last_name

if TYPE_CHECKING:
    from hpushim.pycode.source import Source

#: Calls that declare an option; those of absl give the default by place.
_DECLARE = ("add_argument", "add_option", "add_flag", "option", "argument", "Option")
_DEFINE = ("DEFINE_string", "DEFINE_enum", "DEFINE_integer", "DEFINE_bool", "DEFINE_boolean", "DEFINE_float", "DEFINE_list")  # fmt: skip
_VALUES = ("default", "const", "choices", "flag_value")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Options:
    """The options that one file declares, by the names that they are read by."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._declared: dict[str, list[ast.Call]] | None = None

    def declared(self, name: str) -> list[ast.Call]:
        """The calls that declare an option which is read by this name."""
        return self._all().get(name, [])

    def values(self, name: str) -> Iterator[tuple[ast.expr, Way]]:
        """What an option of this name may be, as its declarations say: the default, one of the choices."""
        for call in self.declared(name):
            yield from _values(call)

    def of_parameter(self, function: Function, name: str) -> Iterator[tuple[ast.expr, Way]]:
        """The same for a parameter of a function that decorators give options to."""
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and self.name(call) == name:
                yield from _values(call)

    def names(self, call: ast.Call, part: ast.AST) -> list[str]:
        """The name that the option is read by where ``part``, an argument or a keyword, says what it may be."""
        name = self.name(call)
        return [name] if name and any(part is each for each in _parts(call)) else []

    def name(self, call: ast.Call) -> str:
        """The name that the option which a call declares is read by; empty where it declares none."""
        called = last_name(call.func)
        if called not in _DECLARE and called not in _DEFINE:
            return ""
        for keyword in call.keywords:
            if keyword.arg == "dest":
                return str(self._source.constant(keyword.value) or "")
        texts = [value for arg in call.args if isinstance(value := self._source.constant(arg), str)]
        if called in _DEFINE:
            texts = texts[:1]
        long = [text for text in texts if text.startswith("--")] or texts
        plain = [text for text in long if not text.startswith("-")]
        chosen = (plain if called == "option" and plain else long)[:1]
        name = chosen[0].lstrip("-").partition("/")[0].replace("-", "_") if chosen else ""
        return name if set(name) <= _LETTERS else ""

    def _all(self) -> dict[str, list[ast.Call]]:
        if self._declared is None:
            self._declared = {}
            for word in (*_DECLARE, *_DEFINE):
                for call in self._source.index.calls(word):
                    name = self.name(call)
                    if name:
                        self._declared.setdefault(name, []).append(call)
        return self._declared


def _parts(call: ast.Call) -> Iterator[ast.AST]:
    """The arguments and keywords that say what an option may be."""
    if last_name(call.func) in _DEFINE:
        yield from call.args[1:2]
    yield from (keyword for keyword in call.keywords if keyword.arg in _VALUES)


def _values(call: ast.Call) -> Iterator[tuple[ast.expr, Way]]:
    for part in _parts(call):
        if isinstance(part, ast.keyword):
            yield part.value, ((Part.ITEM,) if part.arg == "choices" else ())
        elif isinstance(part, ast.expr):
            yield part, ()
