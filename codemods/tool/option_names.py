"""Options of the command line that are named for CUDA or float16: the names stay, what they do is reported."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.changes import Change, Remove, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.device_texts import device_name
from ..analysis.devices import Devices
from ..analysis.names import word
from ..analysis.other_devices import OtherDevices
from ..analysis.project_facts import ARGUMENTS, SWITCHES
from ..edits import neutral
from ..edits.arguments import add
from ..edits.spelling import agnostic

_FLAGS = ("string", "bool", "boolean", "integer", "float", "enum", "enum_class", "list", "spaceseplist", "flag", "alias", "multi", "multi_string", "multi_integer", "multi_float", "multi_enum")  # fmt: skip
_DECLARING = ("add_argument", "add_option", "option", *(f"DEFINE_{kind}" for kind in _FLAGS))
#: A file that has none of these declares no such option.
_NAMED = (
    *("--cuda", "-cuda", "_cuda", "--gpu", "-gpu", "_gpu", "--ngpu", "cudnn"),
    *("--fp16", "--half", "--apex", "loss-scale", "loss_scale", "opt-level", "opt_level"),
)
_WORDS = re.compile(r"[-_.]+")
_DEVICE = frozenset(["cuda", "gpu"])
_DEVICES = frozenset(["gpus", "ngpu", "ngpus"])
#: ``--cuda-deterministic``.
_FLAGS_OF_CUDNN = frozenset(["deterministic", "benchmark"])
_HALF = frozenset(["fp16", "float16"])
#: The words of an option that says whether to compute on a device, and nothing else.
_SWITCH = _DEVICE | frozenset(["no", "not", "use", "with", "without", "enable", "enabled", "disable", "disabled", "is", "on", "off", "force", "require", "allow"])  # fmt: skip
#: ``--half``, ``--half-precision``; ``--half_res`` is half of something else, as ``--simple-loss-scale`` is the weight of a loss.
_HALVED = re.compile(r"(.*-)?half(-(precision|float|dtype|model))?")
_SCALING = re.compile(
    r"((fp16|init|initial|amp|dynamic|static|min|max)-)*loss-scal(e|ing)(-window)?|opt-level"
)


class OptionName(Rule):
    """``parser.add_argument("--use_cuda")``, ``"--fp16"``."""

    HPU024 = Code("option-named-for-cuda", severity="note", fix=("safe", "manual"))
    HPU214 = Code("option-for-float16", severity="note", effect="numbers")
    wants = Wants(calls=_DECLARING, required=_NAMED, facts=(ARGUMENTS, SWITCHES))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        is_flag = word(node.func).startswith("DEFINE_")
        for given in node.args:
            text = module.constant(given)
            if isinstance(text, str) and (text.startswith("--") or is_flag):
                renamed = _known(text.lstrip("-"))
                if renamed is not None and not (
                    renamed[0] == "HPU214" and _takes_text(module, node)
                ):
                    code, what = renamed
                    fix = _neutral(module, node, given, text) if agnostic(module) else None
                    if fix is not None:
                        what = f"`{fix.title.rpartition(' ')[2]}` says it for every device"
                    yield self.finding(given, f"`{text}` keeps its name; {what}", code=code, fix=fix)  # fmt: skip
                    return


def _takes_text(module: Module, call: ast.Call) -> bool:
    """``add_argument("--fp16", default=None)`` takes any text, such as a path."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    default = module.constant(given["default"]) if "default" in given else None
    return (
        word(call.func) == "add_argument"
        and given.keys().isdisjoint(("action", "type", "choices", "nargs", "const", None))
        and not isinstance(default, (bool, int, float))
    )


def _neutral(module: Module, call: ast.Call, given: ast.expr, text: str) -> Rewrite | None:
    """``--no-accel`` beside ``--no-cuda``, which still works and names the attribute."""
    new = re.sub(r"(?<![a-z])cuda(?![a-z])", "accel", text)
    names = [module.constant(each) for each in call.args]
    taken = any(
        new in map(module.constant, each.args) for each in module.index.calls("add_argument")
    )
    if word(call.func) != "add_argument" or new == text or taken or given is not call.args[0]:
        return None
    if neutral.is_lacking(module, call):
        return None  # the choice that it decides stays as it is
    if not _SWITCH.issuperset(_WORDS.split(text.strip("-").lower())):
        return None  # such as graphs, or the benchmark of cuDNN, which no other device has
    if not all(isinstance(name, str) for name in names):
        return None
    mark = module.source(given)[0]
    changes: list[Change] = []
    group = ""
    for folded, option in module.view(OtherDevices).aliases(call):
        changes.append(add(call, module.source(option.args[0]), behind=given))
        changes.append(Remove(module.statement(option)))
        group = module.view(Devices).group(folded.into) if folded.into is not None else ""
    changes.append(add(call, f"{mark}{new}{mark}", first=True))
    if not any(keyword.arg == "dest" for keyword in call.keywords):
        dest = text.lstrip("-").replace("-", "_")
        changes.append(add(call, f"dest={mark}{dest}{mark}"))
    return Rewrite(f"add {new}", "safe", tuple(changes), group, harmless=True)


def _known(option: str) -> tuple[str, str] | None:
    """The code and what to say of an option; None for one that is named for neither."""
    words = _WORDS.split(option.lower())
    joined = "-".join(words)
    if _SCALING.fullmatch(joined):
        return "HPU214", "it configures loss scaling, which bfloat16 on Gaudi does not need"
    if _HALF & set(words) or _HALVED.fullmatch(joined):
        return (
            "HPU214",
            "where `migrate` rewrites the code that reads it, the option selects bfloat16",
        )
    if "apex" in words:  # its autocast, optimizers, data parallel class
        return (
            "HPU024",
            "where `migrate` rewrites the code that reads it, the option selects what replaces apex",
        )
    if "cudnn" in words or (_DEVICE & set(words) and not _FLAGS_OF_CUDNN.isdisjoint(words)):
        return "HPU024", "flags of cuDNN that it sets have no effect on Gaudi"
    if _DEVICE & set(words) and not device_name(option):
        return "HPU024", "after the rewrite it applies to `hpu` instead of CUDA"
    if _DEVICES & set(words):
        return (
            "HPU024",
            "on Gaudi it counts Gaudi devices: check that the program starts one process for each",
        )
    return None
