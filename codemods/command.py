"""The rules as a libcst command, for people who have libcst pipelines.

    python -m libcst.tool codemod -x hpushim.codemods.command.CudaToHpu --no-format PATH --mode eager

It writes the same bytes to Python files as ``hpushim migrate``, whose options it takes. It does not look at notebooks, settings and
scripts, keeps no journal and does not call git: libcst's tool does the writing.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import get_args

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile

from hpushim.engine.assess import wanted_kinds
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.facts import Facts
from hpushim.engine.files.discover import File, discover, left_out, project_root
from hpushim.engine.files.source import Unreadable, decode, read
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Generation, Mode, Style, Target


class CudaToHpu(CodemodCommand):
    """Rewrites Python that uses CUDA for Intel Gaudi (``hpu``)."""

    DESCRIPTION = "Rewrite Python that uses CUDA for Intel Gaudi (hpu), as `hpushim migrate` does."

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        """The options of ``hpushim migrate`` that say what is written."""
        base = Target()
        add = arg_parser.add_argument
        add("--target", choices=get_args(Generation), default=base.gaudi, help="Gaudi generation.")
        add("--stack", default=base.stack, help="Gaudi software release, such as 1.24.")
        add("--mode", choices=get_args(Mode), default=base.mode, help="Execution mode to target.")
        add(
            "--style",
            choices=get_args(Style),
            default=base.style,
            help="native: code for hpu; dual: code that still runs on CUDA; agnostic: code that names no vendor.",
        )
        add("--select", action="append", default=[], help="Only these codes or prefixes.")
        add("--ignore", action="append", default=[], help="Leave out these codes or prefixes.")
        add("--unsafe", action="store_true", help="Also apply unsafe rewrites, which may be wrong.")
        add(
            "--root",
            help="The project's folder (default: the current folder, if the file is in it).",
        )

    def __init__(
        self,
        context: CodemodContext,
        target: str = Target().gaudi,
        stack: str = Target().stack,
        mode: str = Target().mode,
        style: str = Target().style,
        select: list[str] | None = None,
        ignore: list[str] | None = None,
        unsafe: bool = False,
        root: str | None = None,
    ) -> None:
        super().__init__(context)
        self._target = Target(target, stack, mode, style)  # type: ignore[arg-type]
        self._select = tuple(select or ())
        self._ignore = tuple(ignore or ())
        self._unsafe = unsafe
        self._root = root

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The module with the rules' rewrites made. What hpushim would leave out is skipped."""
        path = Path(self.context.filename or "train.py").resolve()
        root = self._root_of(path)
        shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        data = tree.bytes
        why = left_out(File(path, shown, "python"), data)
        if why is not None:
            raise SkipFile(why)
        context = _context(root, self._target, self._select, self._ignore, self._unsafe)
        try:
            source = decode(data, python=True)
            settled = settle(source.text, "python", shown, context)
        except (Unreadable, Unparsable) as error:
            raise SkipFile(str(error)) from None
        for finding in settled.findings:
            if not finding.applied and finding.severity == "error":
                self.warn(f"{finding.line}: {finding.code} {finding.message}")
        if settled.text == source.text:
            if read(path) != data:  # blank lines at the end without a newline, which libcst drops
                raise SkipFile(
                    "nothing to rewrite; libcst would not reproduce this file byte for byte"
                )
            return tree
        return cst.parse_module(settled.text, config=tree.config_for_parsing)

    def _root_of(self, path: Path) -> Path:
        if self._root is not None:
            return Path(self._root).resolve()
        here = Path.cwd()
        return here if path.is_relative_to(here) else project_root([path])


@cache
def _context(
    root: Path, target: Target, select: tuple[str, ...], ignore: tuple[str, ...], unsafe: bool
) -> Context:
    """The context of a project, whose files are all read for it once."""
    found = discover([root], root, wanted_kinds())
    facts = Facts()
    for file in found.files:
        data = read(file.path)
        if isinstance(data, bytes):
            facts.see(file, data)
    project = facts.project(root, found.files)
    return Context(target, load(), project, select, ignore, unsafe)
