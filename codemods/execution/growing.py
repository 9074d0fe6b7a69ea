"""Tensors that grow in a loop: a sequence with one more token, a cache with one more key."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words, defines_method, names_module
from ..analysis.names import is_made_of_torch, word
from ..analysis.placement import DEVICES, reaches_a_device
from ..analysis.verdict import ask, inside, sentence
from ..values.tensors import is_tensor

_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack")
_ROW = "a tensor that grows in a loop"
_GENERATE = "transformers.GenerationMixin.generate"
_CACHE = "cache_implementation"
_MODELS = re.compile(r"model|net$|decoder|forward|transformer|^self$", re.I)
_LEAVES = (ast.Break, ast.Return, ast.Raise)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


#: What transformers' method is given, and no other.
_GIVEN = frozenset(["attention_mask", "pad_token_id", "max_new_tokens", "do_sample", "num_beams"])


class GrowingTensor(Rule):
    """``idx = torch.cat([idx, token], dim=1)`` in a loop, ``model.generate(…)`` of transformers."""

    HPU524 = Code("growing-tensor", effort="hours", effect="speed")
    HPU527 = Code("generation-loop", effort="hours", effect="speed")
    wants = Wants(names=_JOINS, required=("device", "no_grad", "inference_mode"), project=DEVICES)
    also = Wants(calls=("generate",), required=("cuda", "hpu", "import torch", "from torch"))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node or not call.args:
            return
        target = _grows(module, call)
        if target is None or not (is_tensor(module, target) or _is_generated(module, call, target)):
            return
        answer = ask(module, _ROW)
        yield self.finding(
            call,
            f"`{module.source(target)}` grows in each iteration. {sentence(answer.note)}",
            row=answer.row,
        )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``generate`` of a model of transformers, whose cache grows."""
        if not isinstance(node.func, ast.Attribute) or module.qualified(node.func) is not None:
            return
        if not reaches_a_device(module):
            return
        given = {keyword.arg for keyword in node.keywords}
        if _CACHE in given or not (_loads_transformers(module) or given & _GIVEN):
            return
        if _keeps_cache(module) or defines_method(module, "generate"):
            return
        made = [each for each in module.view(Values).origins(node.func.value) if isinstance(each, ast.Call)]  # fmt: skip
        if made and all(_of_another(module, each.func) for each in made):
            return
        answer = ask(module, _GENERATE)
        yield self.finding(
            node.func,
            f"`{module.source(node.func).splitlines()[-1].strip()}`: {inside(answer.note)}",
            row=answer.row,
            code="HPU527",
        )


def _keeps_cache(module: Module) -> bool:
    """Does the file choose a cache of fixed size: ``cache_implementation="static"``, also by a key or an attribute?"""
    if not module.holds(_CACHE):
        return False
    values = [keyword.value for keyword in module.index.keywords(_CACHE)]
    for each in (*module.index.attributes(_CACHE), *module.index.strings(_CACHE)):
        above = module.parent(each)
        if isinstance(above, ast.Assign):
            values.append(above.value)
        elif isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store):
            values += [s.value for s in (module.statement(above),) if isinstance(s, ast.Assign)]
        elif isinstance(above, ast.Dict):
            values += [v for k, v in zip(above.keys, above.values, strict=True) if k is each]
    return any(isinstance(module.constant(value), str) for value in values)


def _of_another(module: Module, made: ast.expr) -> bool:
    """Is it a class of another library, such as an engine for inference, or one of the project that is no module?"""
    package = (module.qualified(made) or "").partition(".")[0]
    if word(made) == "from_pretrained" or is_made_of_torch(package) or package == "transformers":
        return False
    bases = base_words(module, word(made))
    return not names_module(module, word(made)) if bases else bool(package)


def _is_generated(module: Module, call: ast.Call, target: ast.expr) -> bool:
    """Does a loop without gradients feed it to what is called like a model, in a project with a device?"""
    loop = next((above for above in module.ancestors(call) if isinstance(above, _LOOPS)), None)
    if loop is None or not module.view(reaches_a_device):
        return False
    return any(
        isinstance(part, ast.Call)
        and part is not call
        and _MODELS.search(word(part.func)) is not None
        and any(_same(each, target) for each in part.args)
        for part in walk(loop)
    )


def _grows(module: Module, call: ast.Call) -> ast.expr | None:
    """What the call makes longer in each pass of a loop: the target, which is also one of its parts."""
    assert call.args
    parts = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    above: ast.AST | None = call
    while above is not None and not isinstance(above, ast.stmt):
        above = module.parent(above)
    if not isinstance(above, (ast.Assign, ast.AnnAssign)) or above.value is not call:
        return None
    target = above.targets[0] if isinstance(above, ast.Assign) else above.target
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return None
    if not any(_same(part, target) for part in parts) or not _is_in_loop(module, call, target):
        return None
    return target


def _same(part: ast.expr, target: ast.expr) -> bool:
    return ast.dump(part) == ast.dump(target).replace("Store()", "Load()")


def _is_in_loop(module: Module, node: ast.AST, target: ast.expr) -> bool:
    """Is it done again and again: in a loop, or for an attribute that is not of an argument, from call to call?"""
    for above in module.ancestors(node):
        if isinstance(above, _LOOPS):
            return not _begins_in(module, above, target)
        if isinstance(above, ast.If) and isinstance(above.body[-1], _LEAVES) and above.lineno < node.lineno <= (above.body[-1].lineno):  # type: ignore[attr-defined]  # fmt: skip
            return False  # once, before the loop ends
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return isinstance(target, ast.Attribute) and not _is_of_argument(module, above, target)
        if isinstance(above, ast.Lambda):
            return False
    return False


def _is_of_argument(
    module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, target: ast.expr
) -> bool:
    """``batch.x`` where ``batch`` is a parameter, other than the ``self`` of a method: each call has another one."""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        target = target.value
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    taken = named[1:] if isinstance(module.parent(function), ast.ClassDef) else named
    return isinstance(target, ast.Name) and target.id in {each.arg for each in taken}


def _begins_in(module: Module, loop: ast.AST, target: ast.expr) -> bool:
    """Does each pass also give the name something else: ``for x in xs``, ``x = embed(token)``, ``idx = idx[:, -n:]``?"""
    if not isinstance(target, ast.Name):
        return False
    for name in module.index.names(target.id):
        statement = module.statement(name)
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        joins = isinstance(value, ast.Call) and module.qualified(value.func) in _JOINS
        if isinstance(name.ctx, ast.Store) and not joins and loop in (statement, *module.ancestors(statement)):  # fmt: skip
            return True
    return False


def _loads_transformers(module: Module) -> bool:
    return any(
        (statement.module or "").startswith(("transformers", "optimum", "peft"))
        if isinstance(statement, ast.ImportFrom)
        else any(alias.name.partition(".")[0] == "transformers" for alias in statement.names)
        for statement in module.imports
    )
