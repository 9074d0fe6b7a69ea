"""Every finding in one text: the rules' findings, without those suppressed or not requested."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import PurePosixPath

import msgspec

from hpushim.engine.base.accounted import Accounted
from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.kind import Kind
from hpushim.engine.base.text import Text
from hpushim.engine.context import Context, Examined, Unparsable
from hpushim.engine.data.document import Document
from hpushim.engine.python.changes import Change
from hpushim.engine.python.module import Module
from hpushim.engine.rules import dispatch, references
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.listed import Listed
from hpushim.engine.rules.registry import accounting, choosing, rules, text_rules
from hpushim.engine.rules.rule import TextRule
from hpushim.engine.suppress import suppress
from hpushim.matrix import Matrix
from hpushim.model import Finding
from hpushim.pycode.words import Texts, words_in

_PYTHON: tuple[Kind, ...] = ("python", "notebook")


def wanted_kinds() -> frozenset[Kind]:
    """The kinds of file that some rule may read."""
    found: set[Kind] = set(_PYTHON if rules() else ())
    return frozenset(found.union(*(rule.kinds for rule in text_rules())))


def interesting(data: bytes, kind: Kind, path: str, own: Sequence[str] = ()) -> bool:
    """Does the file hold a word of a rule that reads it? If not, it is not even decoded.

    ``own`` are the words of the project's own rows, see :func:`own_words`.
    """
    if kind in _PYTHON:
        text = words_in(data)
        if not text.words.isdisjoint(own) or dispatch.interesting(text, rules()):
            return True
    return any(_marked(rule, data) for rule in _reading(path, kind))


def own_words(matrix: Matrix) -> tuple[str, ...]:
    """The last words of the names that only the project's own rows know."""
    names = (name for row in matrix.rows if row.origin for name in row.names)
    return tuple(sorted({name.rpartition(".")[2] for name in names}))


@cache
def _reading(path: str, kind: Kind) -> tuple[Listed, ...]:
    """The rules on text that read a file."""
    return tuple(rule for rule in text_rules() if rule.reads(PurePosixPath(path), kind))


def _marked(rule: Listed, data: bytes) -> bool:
    return not rule.markers or not _held(data, text_rules()).isdisjoint(rule.markers)


@lru_cache(maxsize=2)
def _held(data: bytes, looking: tuple[Listed, ...]) -> frozenset[str]:
    """Of what the rules on text look for, what is in ``data``: found for all of them at once."""
    return _markers(looking).held(words_in(data))


@cache
def _markers(looking: tuple[Listed, ...]) -> Texts:
    return Texts(marker for rule in looking for marker in rule.markers)


# -- Python ---------------------------------------------------------------------------------


def parse(text: str, path: str, context: Context) -> Module:
    """The module; raises :class:`~hpushim.engine.context.Unparsable` with an HPU001 finding."""
    try:
        ambient = references.ambient(rules())
        return Module(text, path, context.target, context.matrix, context.project, ambient)
    except SyntaxError as error:
        line = max(error.lineno or 1, 1)
        why = f"{error.msg} (line {line})"
        place = (line, max(error.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        why, place = f"{error.__class__.__name__}: {error}", (1, 1)
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    message = f"not Python {running}: {why}; not changed"
    raise Unparsable(diagnostic("HPU001", message, start=place)) from None


def examine_module(module: Module, context: Context) -> Examined:
    """What the Python rules find in a module."""
    found = dispatch.run(module, rules())
    pairs = [(item.finding, item.changes) for _, item in found]
    examined = _examined(module, pairs, rules(), context, python=True)
    module.forget()
    return examined


def accounted(module: Module) -> list[Accounted]:
    """What becomes of each CUDA token of a module, in source order."""
    found = [item.finding for _, item in dispatch.run(module, rules())]
    entries = list(accounting()(module, found))
    module.forget()
    return entries


def examine_document(document: Document, context: Context) -> Examined:
    """What the rules on text find in a document."""
    found: list[Finding] = []
    reading = _reading(document.path, document.kind)
    marked: list[TextRule] = [rule.load()() for rule in reading if _marked(rule, document.read)]
    for rule in marked:
        rule.document = document
        try:
            found += rule.check(document)
        except Exception as error:
            found.append(dispatch.raised(type(rule), error, 1))
    said = Said(document, tuple(found))
    for rule in marked:
        if type(rule).finish is not TextRule.finish:
            try:
                found += rule.finish(document, said)
            except Exception as error:
                found.append(dispatch.raised(type(rule), error, 1))
    return _examined(document, [(finding, ()) for finding in found], reading, context, python=False)


def _examined(
    text: Text,
    found: list[tuple[Finding, tuple[Change, ...]]],
    assessing: Iterable[Listed],
    context: Context,
    *,
    python: bool,
) -> Examined:
    """The findings in text order, without those suppressed or not requested."""
    held = {
        finding.fix.group
        for finding, _ in found
        if finding.fix is not None and finding.fix.group and not context.selects(finding.code)
    }
    changes = {id(finding): made for finding, made in found if made}
    kept = [finding for finding, _ in found if context.selects(finding.code)]
    kept, more = suppress(text, kept, lambda: _wanted_by(assessing, context), python=python)
    kept = [finding for finding in kept if context.selects(finding.code)]
    kept.sort(key=lambda finding: (finding.span.start, finding.code, finding.span.end))
    made = tuple(changes.get(id(finding), ()) for finding in kept)
    if isinstance(text, Module):
        kept = [_placed(text, finding) for finding in kept]
    if context.matrix.own:
        kept = [_sourced(finding, context.matrix.own) for finding in kept]
    return Examined(text, tuple(kept), made, frozenset(held | more))


def _wanted_by(assessing: Iterable[Listed], context: Context) -> frozenset[str]:
    """The codes that could have been found."""
    return frozenset(code for rule in assessing for code in rule.codes if context.selects(code))


def _placed(module: Module, finding: Finding) -> Finding:
    function, conditional = module.surroundings(finding.span.start)
    around = module.index.around(finding.span.start)
    unchosen = (
        (finding.fix is None or finding.safety == "unsafe")
        and finding.severity in ("error", "unknown")
        and choosing()(module, around[::-1], finding.span.start)
    )
    return msgspec.structs.replace(
        finding, function=function, conditional=conditional, unchosen=unchosen
    )


def _sourced(finding: Finding, own: dict[str, str]) -> Finding:
    """A finding on a row of the project says which file the row is in."""
    if finding.row not in own:
        return finding
    message = f"{finding.message} (row of {PurePosixPath(own[finding.row]).name})"
    return msgspec.structs.replace(finding, message=message)
