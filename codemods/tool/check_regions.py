"""A check turns only where everything CUDA that it controls turns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from hpushim.engine.python.changes import Guard, Remove, Rename, Replace, written
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants
from hpushim.model import Safety
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.groups import AVAILABLE
from ..analysis.kernels import PROVIDERS, kernel_sources
from ..analysis.project_facts import KERNEL_USERS, NVIDIA_METHODS, PACKAGE_FLAGS, PACKAGE_USERS
from ..bases.torch_name import CUDA, QUIET
from ..edits import neutral
from ..edits.at_hand import function_around
from ..edits.floor import FIRST, held, too_new
from ..edits.spelling import agnostic
from ..values.checks import Check, Regions
from ..values.data_parallel import SPREADS, LeftBehind
from ..values.kernel_code import kernel_code

_LEVELS: tuple[Safety, ...] = ("safe", "unsafe", "manual")
_SHOWN = 40
#: What takes an answer of True or False.
_DECIDES = (ast.UnaryOp, ast.BoolOp, ast.If, ast.IfExp, ast.Assign, ast.AnnAssign, ast.Return)
#: Modules of torch that are NVIDIA's.
_NVIDIA = ("cuda", "cudnn")
#: Where torch names the ways to compute attention, and those that are kernels of single devices.
_BACKENDS = "SDPBackend"
_KERNELS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
#: What builds a package.
_BUILD = ("setuptools.setup", "distutils.core.setup")


class CheckRegions(Rule):
    """``if torch.cuda.is_available():`` over code that has no form for Gaudi."""

    HPU028 = Code(
        "check-controls-cuda",
        severity="error",
        fix=("unsafe", "manual"),
        lower={
            "warning": "Gaudi only skips code that has no counterpart there",
            "note": "it only guards a query of the device in its own condition",
        },
    )
    wants = Wants(words=("cuda", "is_cuda"), facts=(KERNEL_USERS, NVIDIA_METHODS, PACKAGE_FLAGS, PACKAGE_USERS))  # fmt: skip

    also = Wants(words=("nccl", "NCCL", "autocast", "device_ids"))

    def finish(
        self, module: Module, said: Said, found: Sequence[Found]
    ) -> Iterable[tuple[Found, Found]]:
        regions = module.view(Regions)
        if not found or not (regions.checks or agnostic(module) or _built_source(module)):
            return ()
        return _Review(self, module, regions, found).result().items()


def _built_source(module: Module) -> ast.Constant | None:
    """The first source of kernels in a file that builds a package."""
    builds = any(module.qualified(call.func) in _BUILD for call in module.index.calls("setup"))
    return next(kernel_sources(module), None) if builds else None


class _Review:
    """One file's findings, raised to the level of what their checks control: 0 safe, 1 unsafe, 2 not at all."""

    def __init__(
        self, rule: CheckRegions, module: Module, regions: Regions, found: Sequence[Found]
    ) -> None:
        self._rule = rule
        self._module = module
        self._regions = regions
        self._by_hand = [item for item in found if item.finding.fix is None and item.node]
        self._fixed = [item for item in found if item.finding.fix is not None and item.node]
        self._base = {item: _LEVELS.index(item.finding.safety) for item in self._fixed}
        self._level = dict(self._base)
        self._by_node: dict[ast.AST, list[Found]] = {}
        self._changed: dict[ast.AST, list[Found]] = {}
        self._covered: dict[ast.AST, list[Found]] = {}
        for item in self._fixed:
            self._by_node.setdefault(item.node, []).append(item)  # type: ignore[arg-type]
            for node in _changed(item):
                self._changed.setdefault(node, []).append(item)
            for node in item.claims:
                self._covered.setdefault(node, []).append(item)
        #: The findings that turn each check; a check without any stays.
        self._turns = {
            check: [item for node in check.nodes for item in self._by_node.get(node, ())]
            for check in regions.checks
        }
        self._of = {item: check for check, items in self._turns.items() for item in items}
        #: What a check controls; true where the program stops without it, so that nothing is lost when it turns alone.
        self._owned: dict[Check, dict[Found, bool]] = {}
        self._needed: dict[Check, dict[Found, ast.AST]] = {}
        self._stuck: dict[Check, list[ast.AST]] = {}
        self._keeps: dict[Check, ast.AST] = {}
        self._groups: dict[str, list[Found]] = {}
        #: What is in code that only wraps kernels for CUDA, with what shows it.
        self._wraps: dict[Found, ast.AST] = {}
        #: Why the file stays as it is.
        self._whole = ""
        #: Checks of which one uses what the other prepares.
        self._tied: list[tuple[Check, Check]] = []
        for item in self._fixed:
            fix = item.finding.fix
            if fix is not None and fix.group:
                self._groups.setdefault(fix.group, []).append(item)

    def result(self) -> dict[Found, Found]:
        self._assign()
        self._keep_builds()
        if agnostic(self._module):
            self._keep_groups()
            self._keep_wrappers()
            self._keep_file()
            self._tied = list(_tied(self._module, self._turns))
        while self._raise():
            pass
        return self._written()

    def _keep_groups(self) -> None:
        """In the agnostic style a check and what it controls are one group: where one stays, so does the other.

        A check stays that controls nothing which is rewritten, and what a check controls that has no rewrite.
        """
        for check, items in self._turns.items():
            owned = [item for item in self._owned.get(check, ()) if item not in self._of]
            if (items and not owned and (why := self._nvidia(check)) is not None) or (
                items and (why := self._kernel(check)) is not None
            ):
                self._stuck.setdefault(check, []).append(why)
            if not items and (check.compares or _requires_cuda(self._module, check)):
                for item, stops in self._owned.get(check, {}).items():
                    if not stops:
                        self._level[item] = 2

    def _keep_builds(self) -> None:
        """What a file says that builds kernels for CUDA is about the machine that builds them."""
        source = _built_source(self._module)
        if source is not None:
            self._level.update(dict.fromkeys(self._fixed, 2))
            self._wraps.update(dict.fromkeys(self._fixed, source))

    def _keep_wrappers(self) -> None:
        """What only wraps kernels for CUDA stays whole: its checks turn away what the kernel cannot take."""
        code = kernel_code(self._module) if self._fixed else {}
        for item in self._fixed if code else ():
            for above in self._module.ancestors(item.node):  # type: ignore[arg-type]
                if above in code:
                    self._level[item], self._wraps[item] = 2, code[above]

    def _keep_file(self) -> None:
        """All of a file turns, or nothing: where one part has to stay, what turned would be beside code for CUDA alone."""
        floor = self._module.view(held)
        new = {item: name for item in self._fixed if floor and (name := too_new(_texts(self._module, item), floor))}  # fmt: skip
        self._level.update((item, 2) for item in new if self._level[item])
        lacking = next((name for item, name in new.items() if not self._level[item]), "")
        if floor and lacking:
            self._whole = f"{floor.why} allows torch {floor.oldest}, which lacks `{lacking}`"
        elif (
            floor
            and self._module.path.endswith(".ipynb")
            and any(
                neutral.names_device(text)
                for item in self._fixed
                for text in _texts(self._module, item)
            )
        ):
            self._whole = f"{floor.why} keeps torch before {FIRST}, and a notebook is no place for a function that checks for that"
        elif (kept := self._for_cuda_devices()) is not None:
            shown = _short(self._module.source(kept))
            self._whole = f"`{shown}` has its inputs moved by DataParallel, or what that is made of: to CUDA's devices alone"
        elif (kept := self._fails_elsewhere()) is not None:
            shown = _short(self._module.source(kept))
            self._whole = f"`{shown}` stays, and fails where CUDA is not"
        elif lead := dict(self._module.project.leads).get(self._module.path):
            self._whole = f"programs need it only through `{lead}`, which stays"
        elif neutral.stays(self._module):
            self._whole = (
                "its check for CUDA stays, since it computes in float64, which MPS does not have"
            )
        if self._whole:
            self._level = dict.fromkeys(self._fixed, 2)
        batches = self._module.view(LeftBehind).scattered
        least = max((self._level[item] for item in self._fixed if item.node in batches), default=0)
        self._level = {item: max(level, least) for item, level in self._level.items()}

    def _fails_elsewhere(self) -> ast.AST | None:
        """The first name of CUDA's that stays unguarded, in a function that is rewritten otherwise, and fails where CUDA is not."""
        module = self._module
        moved = {
            function_around(module, item.node)  # type: ignore[arg-type]
            for item in self._fixed
            if self._level[item] == 0 and not all(isinstance(c, Guard) for c in item.changes)
        }
        found = [
            item.node
            for item in self._by_hand
            if isinstance(item.node, ast.expr)
            and item.finding.severity in ("error", "warning")
            and (name := module.qualified(item.node) or "").startswith(CUDA)
            and name.removeprefix(CUDA) not in QUIET
            and function_around(module, item.node) in moved
            and not self._regions.owners(item.node)
        ]
        return min(found, key=_place, default=None)

    def _for_cuda_devices(self) -> ast.AST | None:
        """The first place that stays and has inputs moved by DataParallel, or by what that is made of; a check around one stays instead of the file."""
        found = []
        for item in self._by_hand:
            if item.node is not None and item.finding.code == SPREADS and item.finding.severity == "error":  # fmt: skip
                checks = [check for check, stops in self._regions.owners(item.node) if not stops]
                for check in checks:
                    self._stuck.setdefault(check, []).append(item.node)
                found += [] if checks else [item.node]
        return min(found, key=_place, default=None)

    def _nvidia(self, check: Check) -> ast.AST | None:
        """The first part of what a check controls, also in a function of the file, that is in a module of torch for NVIDIA or names a kernel of its own."""
        calls = [part for root in check.roots for part in walk(root) if isinstance(part, ast.Call)]
        functions = [each for call in calls for each in self._module.view(Values).callees(call)] if self._module.holds(_BACKENDS) else []  # fmt: skip
        for root in (*check.roots, *functions):
            for part in walk(root):
                if isinstance(part, ast.Attribute) and (part.attr in _NVIDIA or part.attr in _KERNELS):  # fmt: skip
                    name = self._module.qualified(part) or ""
                    if name.startswith("torch.") and (part.attr in _NVIDIA or f".{_BACKENDS}." in name):  # fmt: skip
                        return part
        return None

    def _kernel(self, check: Check) -> ast.AST | None:
        """The first use, in what a check controls, of a package whose kernels NVIDIA's hardware alone runs."""
        for root in check.roots:
            for part in walk(root):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
                    package = (self._module.qualified(part) or "").partition(".")[0]
                    row = self._module.matrix.row(package, "package") if package in self._module.matrix.policy.nvidia_only else None  # fmt: skip
                    if row is not None and row.status == "unsupported":
                        return part
        return None

    # -- what belongs to a check ------------------------------------------------------------

    def _assign(self) -> None:
        if not self._turns:
            return
        for item in self._fixed:
            for check, stops in self._regions.owners(item.node):  # type: ignore[arg-type]
                if self._of.get(item) is not check:
                    self._owned.setdefault(check, {})[item] = stops
        for node in self._regions.cuda():
            items = self._covering(node)
            for check, _ in self._regions.owners(node):
                if not items:
                    self._stuck.setdefault(check, []).append(node)
                for item in items:
                    if self._of.get(item) is not check:
                        self._needed.setdefault(check, {})[item] = node

    def _covering(self, node: ast.AST) -> list[Found]:
        """The findings whose fix takes the CUDA at ``node`` away."""
        module = self._module
        near = [node]
        parent = module.parent(node)
        near += [place for place in (parent, module.parent(parent) if parent else None) if place]
        if isinstance(node, ast.Attribute):
            inner: ast.AST = node
            while isinstance(inner, ast.Attribute):
                inner = inner.value
                near.append(inner)
        found = [item for place in near for item in self._changed.get(place, ())]
        for above in module.ancestors(node):
            found += [item for item in self._changed.get(above, ()) if _swallows(item, above)]
        found += self._covered.get(node, ())
        return list(dict.fromkeys(found))

    # -- levels -----------------------------------------------------------------------------

    def _raise(self) -> bool:
        """Raises levels once; says whether any rose."""
        before = dict(self._level)
        for check, items in self._turns.items():
            if not items:
                continue
            level = max(self._level[item] for item in items)
            wanted, why = self._wanted(check)
            if why is not None and wanted > max(self._base[item] for item in items):
                self._keeps[check] = why
            level = max(level, wanted)
            owned = self._owned.get(check, {}).items()
            behind = [i for i, stops in owned if not stops or (level == 2 and self._demands(i))]
            for item in (*items, *behind):
                self._level[item] = max(self._level[item], level)
        for items in self._groups.values():
            # A comparison that stays is False; what it is compared with may turn all the same.
            level = max((self._level[i] for i in items if not self._detached(i)), default=0)
            for item in items:
                self._level[item] = max(self._level[item], level)
        for pair in self._tied:
            items = [item for check in pair for item in self._turns[check]]
            alone = any(not self._turns[check] for check in pair)
            level = 2 if alone else max(self._level[item] for item in items)
            for item in items:
                self._level[item] = max(self._level[item], level)
        return before != self._level

    def _demands(self, item: Found) -> bool:
        """Is it a check that stops the program, too? Behind one that stays it is never reached."""
        check = self._of.get(item)
        return check is not None and check.demanded

    def _detached(self, item: Found) -> bool:
        check = self._of.get(item)
        return check is not None and check.compares

    def _wanted(self, check: Check) -> tuple[int, ast.AST | None]:
        """The level that what a check controls allows, and the node that says so."""
        stuck = self._stuck.get(check)
        if stuck:
            return 2, min(stuck, key=_place)
        level, why = 0, None
        for item, node in self._needed.get(check, {}).items():
            if item not in self._of and self._level[item] > level:
                level, why = self._level[item], node
        for item in self._owned.get(check, ()):
            inner = self._of.get(item)
            if inner is not None and inner.demanded and self._level[item] > level:
                level, why = self._level[item], inner.node
        return level, why

    # -- what is said -----------------------------------------------------------------------

    def _written(self) -> dict[Found, Found]:
        joined = self._joined()
        result: dict[Found, Found] = {}
        for item in self._fixed:
            level, group = self._level[item], joined.get(item)
            fix = item.finding.fix
            assert fix is not None
            if level == self._base[item] and (group is None or group == fix.group):
                continue
            group = fix.group if group is None else group
            new = msgspec.structs.replace(fix, safety=_LEVELS[level], group=group)
            result[item] = self._held(item, level).with_fix(new)
        for item in self._fixed if self._whole else ():
            explained = f"{item.finding.message}. `migrate` leaves the file: {self._whole}"
            finding = msgspec.structs.replace(item.finding, message=explained)
            result[item] = replace(item, finding=finding).with_fix(None)
        for item, why in self._wraps.items():
            explained = f"`{_short(self._module.source(item.node))}` stays, since it only serves a kernel for CUDA, `{_short(self._module.source(why))}`"  # type: ignore[arg-type]
            finding = msgspec.structs.replace(item.finding, severity="note", message=explained)
            result[item] = replace(item, finding=finding).with_fix(None)
        for check, why in self._keeps.items():
            first = self._turns[check][0]
            if self._whole and check not in self._stuck:
                continue  # the file's reason is its own
            if first in self._wraps and not agnostic(self._module):
                continue
            result[first] = self._left_check(check, why, result.get(first, first))
        result.update(self._skipped())
        for item in self._fixed:
            if self._level[item] == 2 > self._base[item] and item not in self._wraps:
                there = result.get(item, item)
                result[item] = replace(there, finding=msgspec.structs.replace(there.finding, held=True))  # fmt: skip
        return result

    def _held(self, item: Found, level: int) -> Found:
        """The finding, with the check that keeps it from being rewritten."""
        checks = [c for c, _ in self._regions.owners(item.node) if self._of.get(item) is not c]  # type: ignore[arg-type]
        if level < 2 or level == self._base[item] or not checks:
            return item
        held = _short(self._module.source(checks[0].node))
        explained = f"{item.finding.message}. `migrate` leaves it, because the check `{held}` stays"
        return replace(item, finding=msgspec.structs.replace(item.finding, message=explained))

    def _skipped(self) -> Iterator[tuple[Found, Found]]:
        """What is left to a person in code that Gaudi skips because the check before it stays."""
        for item in self._by_hand if self._keeps else ():
            holds = self._regions.owners(item.node)  # type: ignore[arg-type]
            if item.finding.severity not in ("error", "warning") or not holds:
                continue
            if all(
                check in self._keeps and check in self._stuck and not (stops or check.shared)
                for check, stops in holds
            ):
                held = _short(self._module.source(holds[0].check.node))
                explained = f"{item.finding.message}. Gaudi skips this code, because the check `{held}` stays"
                finding = msgspec.structs.replace(item.finding, severity="note", message=explained)
                yield item, replace(item, finding=finding)

    def _leaves_gaudi(self, check: Check) -> bool:
        """Does the program stop, or work without Gaudi, because a check stays: does something behind it choose the device?"""
        held = self._owned.get(check, {}).items()
        return (
            check.demanded
            or any(not stops and item not in self._of for item, stops in held)
            or any(_chooses(self._module, node) for node in self._stuck.get(check, ()))
        )

    def _left_check(self, check: Check, why: ast.AST, item: Found) -> Found:
        """The finding at a check that what it controls keeps."""
        module = self._module
        shown, kept = _short(module.source(check.node)), _short(module.source(why))
        line = getattr(why, "lineno", 0)
        unsafe = item.finding.safety == "unsafe"
        others = len(self._stuck.get(check, ())) - 1
        more = f" and {others} more {'place' if others == 1 else 'places'}" if others > 0 else ""
        explained = f"`{shown}` is not changed, because it controls `{kept}` on line {line}{more}, "
        if unsafe:
            explained += "whose rewrite is unsafe; `migrate --unsafe` changes both"
        elif check not in self._stuck:
            explained += (
                "which depends on another check that is not changed; resolve that finding first"
            )
        else:
            explained += "which hpushim cannot rewrite. The check finds no CUDA on Gaudi, so the program "  # fmt: skip
            if check.demanded:
                explained += "stops here; port that code by hand, then migrate again"
            elif self._leaves_gaudi(check):
                explained += "skips that code and leaves Gaudi unused; port that code by hand, then migrate again"
            else:
                explained += "skips that code; check that the program works without it"
        code, severity = self._rule.HPU028, self._rule.HPU028.severity
        if check in self._stuck and not unsafe and not self._leaves_gaudi(check):
            severity = "note" if agnostic(module) else "warning"
        stuck = self._stuck.get(check, ())
        if stuck and all(_same_condition(module, check.node, node) for node in stuck):
            explained = f"`{shown}` is not changed: False is the right answer where `{kept}` requires a CUDA device in the same condition"
            severity = "note"
        finding = msgspec.structs.replace(
            item.finding, code=self._rule.code, name=code.name, severity=severity, message=explained
        )
        return replace(item, finding=finding).with_fix(finding.fix if unsafe else None)

    def _joined(self) -> dict[Found, str]:
        """The groups: a check, what it controls, and those that they were in before."""
        parents: dict[Found, Found] = {}

        def top(item: Found) -> Found:
            while parents.get(item, item) is not item:
                item = parents[item]
            return item

        def merge(one: Found, other: Found) -> None:
            first, second = top(one), top(other)
            if first is not second:
                parents[second] = first

        for items in self._groups.values():
            level = min(self._level[item] for item in items)
            together = [item for item in items if self._level[item] == level]
            for item in together[1:]:
                merge(together[0], item)
        for check, items in self._turns.items():
            for item in items[1:]:
                merge(items[0], item)
            for item in self._needed.get(check, ()) if items else ():
                stops = self._owned.get(check, {}).get(item, False)
                same = self._level[item] == self._level[items[0]]
                if item not in self._of and same and not stops:
                    merge(items[0], item)
        for pair in self._tied:
            items = [item for check in pair for item in self._turns[check]]
            for item in items[1:] if all(self._turns[check] for check in pair) else ():
                merge(items[0], item)
        members: dict[Found, list[Found]] = {}
        for item in self._fixed:
            members.setdefault(top(item), []).append(item)
        named: dict[Found, str] = {}
        for items in members.values():
            if len(items) > 1:
                start = min(item.finding.span.start for item in items)
                named.update(dict.fromkeys(items, f"check:{start}"))
            elif items[0].finding.fix and items[0].finding.fix.group:
                named[items[0]] = ""
        return named


def _texts(module: Module, item: Found) -> Iterator[str]:
    """What the changes of a finding write, arguments with the call that is given them."""
    for change in item.changes:
        yield from written(change)
        more = str(getattr(change, "writes", ""))
        call = getattr(change, "node", None)
        yield f"{module.source(call.func)}({more})" if more and isinstance(call, ast.Call) else more


def _requires_cuda(module: Module, check: Check) -> bool:
    call = check.node
    return isinstance(call, ast.Call) and module.qualified(call.func) == AVAILABLE


def _tied(module: Module, checks: Iterable[Check]) -> Iterator[tuple[Check, Check]]:
    """The pairs of checks that ask the same in one function, where a variable of one's branch is read in the other's."""
    by_function: dict[tuple[ast.AST | None, str], list[Check]] = {}
    for check in checks:
        shown_test = " ".join(module.source(check.node).split())
        by_function.setdefault((module.function(check.node), shown_test), []).append(check)
    for same in by_function.values():
        names = {check: _names(check) for check in same} if len(same) > 1 else {}
        for one, (given, _) in names.items():
            for other, (_, read) in names.items():
                if one is not other and given & read:
                    yield one, other


def _names(check: Check) -> tuple[set[str], set[str]]:
    """The names that a check's branch gives values, or calls a method of for its effect, and those that it reads."""
    parts = [part for root in check.roots for part in walk(root)]
    found = [part for part in parts if isinstance(part, ast.Name)]
    given = {name.id for name in found if isinstance(name.ctx, ast.Store)}
    for statement in parts:
        if isinstance(statement, ast.Subscript) and isinstance(statement.ctx, ast.Store):
            given |= {part.id for part in walk(statement.value) if isinstance(part, ast.Name)}
        call = statement.value if isinstance(statement, ast.Expr) else None
        func = call.func if isinstance(call, ast.Call) else None
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            given.add(func.value.id)
    return given, {name.id for name in found if isinstance(name.ctx, ast.Load)}


def _changed(item: Found) -> Iterator[ast.AST]:
    for change in item.changes:
        if isinstance(change, (Replace, Rename, Remove)):
            yield change.node


def _swallows(item: Found, node: ast.AST) -> bool:
    return any(
        change.node is node and (not isinstance(change, Replace) or change.swallows)
        for change in item.changes
        if isinstance(change, (Replace, Rename, Remove))
    )


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _chooses(module: Module, node: ast.AST) -> bool:
    """Is it a device's name, or a move to it, other than the argument of a query about CUDA?"""
    calls = (above for above in module.ancestors(node) if isinstance(above, ast.Call))
    if any((module.qualified(call.func) or "").startswith("torch.cuda.get_") for call in calls):
        return False
    return isinstance(node, ast.Call) or (
        isinstance(node, ast.Constant) and node.value not in PROVIDERS
    )


def _same_condition(module: Module, check: ast.AST, question: ast.AST) -> bool:
    """``torch.cuda.is_available() and torch.cuda.get_device_properties(0).major >= 8``: is the name read only behind the check?"""
    for above in module.ancestors(question):
        if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            behind = any(part is check or check in walk(part) for part in above.values)
            return behind and isinstance(module.parent(above), _DECIDES)
        if isinstance(above, ast.stmt):
            return False
    return False
