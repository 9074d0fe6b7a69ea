"""What holds for all codes together, over the examples of every page: one code a place, rows and codes that agree, the dual style."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest
import test_rules as pages_run
from crossed import EVERY

from hpushim.codemods.bases.row_argument import SEVERITY, RowRule
from hpushim.codemods.bases.torch_name import CUDA, NameRule
from hpushim.engine.base.code import SEVERITIES
from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.one_file import examine
from hpushim.engine.rules.page import Block, Page
from hpushim.engine.rules.registry import every_rule
from hpushim.matrix import load
from hpushim.model import Finding, Target

#: Further targets of every example; together with its own they show each severity and fix that a code gives.
_TARGETS: tuple[dict[str, str], ...] = (
    {},
    {"style": "dual"},
    {"style": "agnostic", "mode": "eager"},
    {"mode": "eager"},
    {"mode": "lazy"},
    {"mode": "compile"},
    {"gaudi": "gaudi1"},
)
#: Pairs of codes that one place may have, as they say different things.
_BOTH = {
    ("HPU101", "HPU121"): "the device is renamed; its index needs a process of its own",
    ("HPU104", "HPU121"): "the device is renamed; its index needs a process of its own",
    ("HPU105", "HPU121"): "the device is renamed; its index needs a process of its own",
    ("HPU217", "HPU501"): "the precision of a step, and its end",
    ("HPU503", "HPU717"): "the accelerator that is missing, and what the class takes",
    ("HPU513", "HPU515"): "a host sync, and a size that what is read gives",
    ("HPU513", "HPU531"): "a host sync in lazy mode, and a graph break under torch.compile",
    ("HPU521", "HPU531"): "a missing kernel, and a graph break under torch.compile",
}
#: Rows that only findings of another rule name in the examples: the name itself works, or is found as a part of something else.
_ELSEWHERE = frozenset({
    "CUDA_*", "CUDA_HOME", "NCCL_P2P_DISABLE", "Python branches on tensor values", "accelerate.Accelerator", "faiss-gpu",
    "habana_frameworks.torch.core", "liger_kernel", "nccl", "onnxruntime-gpu", "several model and optimizer pairs in accelerator.prepare",
    "tinycudann", "torch.bfloat16", "torch.cuda.DoubleTensor", "torch.cuda.ipc_collect", "torch.nonzero",
    "torch.unique", "transformers.Trainer",
})  # fmt: skip
#: Names below torch.cuda whose rule wants more than the name.
_IN_CONTEXT = frozenset({
    "torch.cuda.DoubleTensor", "torch.cuda.amp", "torch.cuda.amp.autocast_mode", "torch.cuda.amp.grad_scaler", "torch.cuda.nccl",
})  # fmt: skip
#: Given by the engine about files that no example can be, and by rows of a project's own.
_UNSEEN = {"HPU001", "HPU002", "HPU003", "HPU004", "HPU006", "HPU021"}


def _examples() -> Iterator[tuple[Page, Block]]:
    for role in ("before", "same", ""):
        for case in pages_run._cases(role):
            page, block, _ = case.values
            if block.role or block.language in pages_run.KINDS:
                yield page, block


@cache
def _seen() -> tuple[tuple[str, Finding], ...]:
    """What the rules find in all examples, for all targets, each with its place."""
    seen: list[tuple[str, Finding]] = []
    for page, block in _examples():
        kind, path = pages_run._kind(block)
        for target in _TARGETS:
            wanted = pages_run._with(block, options={**block.options, **target})
            try:
                found = examine(block.text, kind, path, pages_run._context(wanted))
            except Unparsable as error:
                found = (error.finding,)
            seen += [(f"{page.path.name}:{block.line} {target or ''}", one) for one in found]
    return tuple(seen)


def test_severities_and_fixes_of_all_examples_are_declared() -> None:
    codes = {number: code for rule in every_rule() for number, code in rule.codes.items()}
    wrong = [
        (finding.code, finding.severity, finding.safety, place)
        for place, finding in _seen()
        if (code := codes.get(finding.code)) is not None
        and not (
            (
                finding.severity in code.severities
                or ". Gaudi skips this code, because " in finding.message
            )
            and (
                finding.safety in code.safeties
                # What has no form for several devices stays.
                or ("'style'" in place and finding.safety == "manual")
                # What only CUDA has is called where CUDA is.
                or ("'agnostic'" in place and "; call it where CUDA is" in finding.message)
            )
        )
    ]
    assert wrong == []
    assert len(_seen()) > 1000


def test_a_code_gives_what_the_catalogue_shows() -> None:
    """Each severity is that of an example or of a row, the surest fix that of an example."""
    seen: dict[str, list[Finding]] = defaultdict(list)
    for _, finding in _seen():
        seen[finding.code].append(finding)
    wrong = {}
    for rule, (number, code) in ((r, one) for r in every_rule() for one in r.codes.items()):
        rows = [row for row in load().rows if row.rule == number]
        statuses = {s for row in rows for s in (row.status, *(x.status for x in row.limits))}
        of_rows = {SEVERITY[s] for s in statuses if s in SEVERITY}
        if issubclass(rule, RowRule) and not of_rows <= set(code.severities):  # the row decides
            wrong[number] = f"declare {of_rows}"
        decided = of_rows if issubclass(rule, RowRule | NameRule) else set()
        found = decided | {finding.severity for finding in seen[number]}
        if number in _UNSEEN or not found:
            continue
        if not found >= set(code.severities):
            wrong[number] = f"never {set(code.severities) - found}"
        elif seen[number] and code.safeties[0] not in {f.safety for f in seen[number]}:
            wrong[number] = f"no fix that is {code.safeties[0]}"
    assert wrong == {}


def test_a_place_has_one_code_but_for_pairs_that_say_different_things() -> None:
    places = defaultdict(set)
    for place, finding in _seen():
        places[place, finding.span].add(finding.code)
    pairs = {tuple(sorted(codes)): place for (place, _), codes in places.items() if len(codes) > 1}
    assert {pair: place for pair, place in pairs.items() if pair not in _BOTH} == {}


def test_a_place_has_a_code_once() -> None:
    twice = defaultdict(list)
    for place, finding in _seen():
        twice[place, finding.span, finding.code].append(finding.message)
    assert {key: said for key, said in twice.items() if len(said) > 1} == {}


def test_findings_name_rows_that_exist() -> None:
    named = {(finding.row, finding.code) for _, finding in _seen() if finding.row is not None}
    assert {(row, code) for row, code in named if load().row(row) is None} == set()


def test_the_rule_of_a_row_is_the_one_that_finds_it() -> None:
    codes = defaultdict(set)
    for _, finding in _seen():
        if finding.row is not None and (row := load().row(finding.row)) is not None and row.rule:
            codes[row.name, row.rule].add(finding.code)
    wrong = {key: found for key, found in codes.items() if key[1] not in found}
    assert {key: found for key, found in wrong.items() if key[0] not in _ELSEWHERE} == {}, (
        "correct the row's `rule`"
    )
    assert {name for name, _ in wrong} >= _ELSEWHERE, "no exception any more"


def test_a_name_below_torch_cuda_is_reported_under_the_rule_of_its_row() -> None:
    """Each name of these rows, read alone, called and as what an ``except`` catches, also those outside of ``torch.cuda``."""
    wrong = {}
    rows = [row for row in load().by_kind("python") if row.name.startswith(CUDA) and row.rule]
    for row in rows:
        for name in row.names:
            text = (
                f"import torch\nprint({name})\n{name}(1)\ntry:\n    f()\nexcept {name}:\n    pass\n"
            )
            found = examine(text, "python", "t.py", Context(Target(), load(), ALONE))
            if row.status != "native" and row.rule not in {finding.code for finding in found}:
                wrong[name] = {finding.code for finding in found}
    assert {name: found for name, found in wrong.items() if name not in _IN_CONTEXT} == {}
    assert {name for name in _IN_CONTEXT if name not in wrong} == set(), "no exception any more"
    assert len(rows) > 50


def test_severities_are_ordered() -> None:
    assert set(SEVERITIES) == {
        severity
        for rule in every_rule()
        for code in rule.codes.values()
        for severity in code.severities
    }


# -- the dual style ------------------------------------------------------------------------------

_VENDOR = re.compile(r"hpu(?!shim)|hccl|habana|htcore", re.I)
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare, ast.MatchOr)
#: What every rewritten file has in front, and what CUDA does not read.
_HARMLESS = re.compile(r"PT_HPU_|^habana_frameworks|^htcore$")


def _is_conditional(parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    while node in parents:
        node = parents[node]
        constant = (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "ACCELERATOR"
        )
        if constant or isinstance(node, _CONDITIONS):
            return True
    return False


def _written(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
            return name
    return ""


#: Each example with one of them, with all in ``make test-all``.
CARDS = ("", ":0", ":1")


@pytest.mark.parametrize("card", CARDS)
def test_dual_results_name_gaudi_only_under_a_condition(card: str) -> None:
    """Both machines run what is written for both."""
    wrong, turned = {}, 0
    examples = [one for one in _examples() if one[1].language == "python" and one[1].role]
    for page, block in examples if EVERY else examples[CARDS.index(card) :: len(CARDS)]:
        text = re.sub(r"""(["'])cuda\1""", rf"\1cuda{card}\1", block.text)
        dual = pages_run._with(block, text=text, options={**block.options, "style": "dual"})
        result = pages_run._run(dual).text
        turned += result != text
        tree, before = ast.parse(result), set(_VENDOR.findall(text))
        parents = {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            written = _written(node)
            new = set(_VENDOR.findall(written)) - before
            if new and not _HARMLESS.search(written) and not _is_conditional(parents, node):
                wrong[f"{page.path.stem}:{block.line}"] = f"`{written}` in\n{result}"
    assert wrong == {}
    assert turned > len(examples) // 12
