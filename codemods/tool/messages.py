"""Texts for people that name CUDA where the code beside them requests Gaudi by now."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.names import word
from ..edits.spelling import BACKEND, DEVICE, agnostic, on_gaudi, shared

_LOGS = frozenset(["print", "debug", "info", "warning", "warn", "error", "critical", "exception", "log", "write", "skip", "skipIf", "skipUnless", "skipif", "fail", "exit", "echo"])  # fmt: skip
_OPTIONS = frozenset(["add_argument", "add_option", "option", "Option"])
#: The word as a device or a backend, and no part of a name, a path, an option or a version.
_NAMED = re.compile(r"(?<![\w.\-/])(cuda|CUDA|nccl|NCCL)(?![\w\-/=]|\.\w)(?! ?\(?\d)")
#: A check of a device says nothing of backends.
_DEVICE = re.compile(_NAMED.pattern.replace("|nccl|NCCL", ""))
_OPTION = re.compile(r"(?<![\w-])--[\w-]+")
_ANY = re.compile(r"cuda|nccl|gpu-|https?:", re.I)
_OTHER_THINGS = re.compile(r"(cuda|nccl)\W+(version|toolkit|driver|kernel|extension|runtime|graph|core|stream|event|error|op)", re.I)  # fmt: skip
#: What only NVIDIA GPUs run, whatever the check beside it has become.
_NVIDIA = re.compile(r"triton|bitsandbytes|flash|apex|tilelang|cutlass|quanti[sz]|support|nvidia|a100|h100|fused", re.I)  # fmt: skip
_ARTICLE = re.compile(r"\b([Aa]) (?=(?:HPU|hpu|HCCL|hccl|accelerator)\b)")
#: A device that is named for what it is no more: "a CUDA GPU".
_GPU = re.compile(r"\b(HPU|hpu|accelerator) GPU(?=s?\b)")
#: Where the word is no name of a kind, as in "on accelerator devices", it needs an article.
_ALONE = re.compile(r"(\b(?:on|in|uses?|using|with|without|for|to|requires?|needs?|of) )accelerator(?=[\"'.,;:!?)]|$| (?:is|was|and|or|but)\b)")  # fmt: skip
_ABSENT = re.compile(r"\b([Aa])ccelerator is not (?=available|found|present)")
#: What is before the first word of a sentence.
_BEGINS = re.compile(r"(?:^\w*[\"']+|[.!?] )$")
_GAUDI = re.compile(r"hpu|gaudi|hccl|habana", re.I)


class Message(Rule):
    """``assert torch.hpu.is_available(), "CUDA is not available"``."""

    HPU027 = Code("message-names-cuda", severity="note", fix="safe")
    wants = Wants(
        strings=("cuda", "CUDA", "nccl", "NCCL"), required=(DEVICE, BACKEND, "accel", "cpu")
    )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        whole, text = _whole(module, node)
        # An option keeps its name in this style.
        plain = _OPTION.sub("", text) if agnostic(module) else text
        options = module.view(_neutral_options) if agnostic(module) else {}
        named_so = any(each in options for each in _OPTION.findall(text))
        if whole is None or not (_names_cuda(plain) or named_so):
            return
        if agnostic(module):
            if (_NAMED.search(text) or named_so) and (
                _is_help_of_switch(module, whole) or _says(module, whole)
            ):
                yield self.finding(
                    whole,
                    "the text names CUDA, but its code is for every accelerator",
                    fix=Rewrite(
                        "name the accelerator",
                        "safe",
                        (Replace(whole, _Renamed(_NAMED, "accelerator", options)),),
                    ),
                )
            return
        if shared(module):
            return
        named = _NAMED if _helps(module, whole) else _DEVICE if _says(module, whole) else None
        if named is not None and named.search(text):
            yield self.finding(
                whole,
                "the text names CUDA, but its code is rewritten for Gaudi; update the text",
                fix=Rewrite(
                    "name the device that the code uses",
                    "safe",
                    (Replace(whole, _Renamed(named)),),
                ),
            )


def _whole(module: Module, node: ast.Constant) -> tuple[ast.expr | None, str]:
    """The string that a constant is, or is the first part of an f-string that names CUDA, and its text."""
    above = module.parent(node)
    if not isinstance(above, ast.JoinedStr):
        return node, str(node.value)
    texts = [part for part in above.values if isinstance(part, ast.Constant)]
    first = next((part for part in texts if _ANY.search(str(part.value))), None)
    shown = "".join(str(getattr(part, "value", "")) if part in texts else "{}" for part in above.values)  # fmt: skip
    return (above if first is node else None), shown


class _Renamed:
    """The change of a string literal, an f-string, or of several one behind the other, that keeps their quotes and lines."""

    def __init__(
        self, named: re.Pattern[str], word: str = "", options: Mapping[str, str] | None = None
    ) -> None:
        self._named = named
        self._word = word
        self._options = options or {}

    def __call__(self, node: Any) -> Any:
        if hasattr(node, "parts"):
            return node.with_changes(parts=[self(p) if hasattr(p, "value") else p for p in node.parts])  # fmt: skip
        if hasattr(node, "value"):
            text = _OPTION.sub(lambda found: self._options.get(found[0], found[0]), node.value)
            text = self._named.sub(self._name, text)
            text = _GPU.sub(r"\1", text)
            if self._word:
                text = _ALONE.sub(lambda found: f"{'on ' if found[1] == 'in ' else found[1]}an {self._word}", text)  # fmt: skip
                text = _ABSENT.sub(lambda found: f"{'No' if found[1].isupper() else 'no'} {self._word} is ", text)  # fmt: skip
            return node.with_changes(value=_ARTICLE.sub(r"\1n ", text))
        return node.with_changes(left=self(node.left), right=self(node.right))

    def _name(self, found: re.Match[str]) -> str:
        begins = found.group().isupper() and _BEGINS.search(found.string, 0, found.start())
        word = self._word or on_gaudi(found.group())
        return word.capitalize() if self._word and begins else word


def _neutral_options(module: Module) -> dict[str, str]:
    """For the options of the file that have another name for every accelerator, that name. Request it as a view."""
    found: dict[str, str] = {}
    for call in module.index.calls("add_argument"):
        names = [text for each in call.args if isinstance(text := module.constant(each), str)]
        new = next((name for name in names if "accel" in name), None)
        if new is not None:
            found.update((name, new) for name in names if "cuda" in name.lower())
    return found


def _names_cuda(text: str) -> bool:
    """Is every mention in a text one of the device or of the backend? One that names Gaudi as well was written for both."""
    if any(pattern.search(text) for pattern in (_GAUDI, _OTHER_THINGS, _NVIDIA)) or not re.search(
        r"\s|\W$", text
    ):
        return False
    return len(_ANY.findall(text)) == len(_NAMED.findall(text)) > 0


def _helps(module: Module, node: ast.expr) -> bool:
    """Is it the ``help=`` of an option whose default, or one of whose choices, is Gaudi's?"""
    keyword = module.parent(node)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(call, ast.Call) or getattr(keyword, "arg", "") != "help":
        return False
    if word(call.func) not in _OPTIONS:
        return False
    given = [k.value for k in call.keywords if k.arg in ("default", "choices", "type")]
    return any(_is_gaudi(part) for value in given for part in walk(value))


def _is_help_of_switch(module: Module, node: ast.expr) -> bool:
    """Is it the ``help=`` of an option that has a name for every accelerator beside CUDA's: ``--no-accel``?"""
    keyword = module.parent(node)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(call, ast.Call) or getattr(keyword, "arg", "") != "help" or not call.args:
        return False
    names = " ".join(str(module.constant(given)) for given in call.args)
    return all(re.search(rf"(?<![a-z]){word}(?![a-z])", names) for word in ("accel", "cuda"))


def _says(module: Module, node: ast.expr) -> bool:
    """Is it said to people when a check for Gaudi holds, or fails? In the agnostic style: for an accelerator."""
    said, shown = _filled(module, node)
    above = module.parent(said)
    if isinstance(above, ast.keyword) and above.arg == "reason":
        above = module.parent(above)
    if isinstance(above, ast.Assert) and above.msg is said:
        return _checks_for_gaudi(module, above.test)
    if not isinstance(above, ast.Call):
        return False
    if any(
        _checks_for_gaudi(module, value) for value in (*shown, *above.args) if value is not said
    ):
        return word(above.func) in _LOGS
    statement = module.parent(above)
    logged = isinstance(statement, ast.Expr) and word(above.func) in _LOGS
    if statement is None or not (isinstance(statement, ast.Raise) or logged):
        return False
    if logged and agnostic(module):
        names = (module.qualified(part) for value in shown for part in walk(value) if isinstance(part, ast.Attribute))  # fmt: skip
        if any(name is not None and name.startswith("torch.accelerator.") for name in names):
            return True  # beside what it shows
    guard = module.parent(statement)
    outer = module.parent(guard) if agnostic(module) and isinstance(guard, ast.If) else None
    return any(
        isinstance(each, ast.If) and _checks_for_gaudi(module, each.test) for each in (guard, outer)
    )


def _filled(module: Module, node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """The whole of a text and the values that it shows: those of an f-string, of ``.format(…)`` or behind a ``%``."""
    above = module.parent(node)
    if isinstance(node, ast.JoinedStr):
        return node, [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(above, ast.Attribute) and above.attr == "format":
        call = module.parent(above)
        if isinstance(call, ast.Call) and call.func is above:
            return call, [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mod) and above.left is node:
        return above, [above.right]
    return node, []


def _checks_for_gaudi(module: Module, test: ast.expr) -> bool:
    """``torch.hpu.is_available()``, ``device.type == "hpu"``, and nothing about CUDA beside it."""
    found = False
    for part in walk(test):
        name = module.qualified(part) if isinstance(part, (ast.Attribute, ast.Name)) else None
        if name is not None and name.startswith("torch.cuda"):
            return False
        if isinstance(part, ast.Constant) and re.match(r"(cuda|nccl)\b", str(part.value)):
            return False
        if agnostic(module):
            found |= name == "torch.accelerator.is_available"
            found |= isinstance(part, ast.Compare) and any(
                isinstance(side, ast.Constant) and side.value == "cpu" for side in walk(part)
            )
            continue
        found |= name is not None and name.startswith("torch.hpu.")
        found |= isinstance(part, ast.Compare) and any(_is_gaudi(side) for side in walk(part))
    return found


def _is_gaudi(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and re.fullmatch(rf"{DEVICE}(:\d+)?|{BACKEND}", str(node.value)) is not None
    )
