"""``hpushim api``: what Gaudi does with a CUDA name, and which CUDA names lead to a Gaudi one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from hpushim.cli.options import matrix_option, own_rows, settings
from hpushim.cli.output import say, say_json
from hpushim.errors import HpushimError
from hpushim.model import Generation, Mode, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix, Verdict
    from hpushim.matrix.readings import Reading

F = TypeVar("F", bound=Callable[..., Any])


def machine_options(function: F) -> F:
    """``--target``, ``--stack``, ``--mode``, ``--matrix``: what the question is about."""
    for option in (
        matrix_option,
        click.option("--mode", type=click.Choice(get_args(Mode)), help="Execution mode."),
        click.option("--stack", metavar="RELEASE", help="Gaudi software release, such as 1.24."),
        click.option("--target", type=click.Choice(get_args(Generation)), help="Gaudi generation."),
    ):
        function = option(function)
    return function


def form_options(function: F) -> F:
    """``--json``, ``--markdown``; a table without either."""
    markdown = click.option(
        "--markdown", "form", flag_value="markdown", help="A Markdown table instead of text."
    )
    json = click.option("--json", "form", flag_value="json", help="JSON instead of text.")
    return json(markdown(function))


def _begun(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The names with a row that begin so, for the completion of a shell."""
    from hpushim.matrix import load

    return sorted(name for row in load().rows for name in row.names if name.startswith(begun))


@click.command("api")
@click.argument("name", shell_complete=_begun)
@machine_options
@form_options
def command(
    name: str,
    target: Generation | None,
    stack: str | None,
    mode: Mode | None,
    matrix_files: tuple[Path, ...],
    form: str | None,
) -> int:
    """Look up what Gaudi does with NAME: a CUDA name, an operator (torch.cat, aten::add.Tensor), an argument such as
    "torch.load(map_location=)", a pattern ("torch.cuda.mem*"), or a Gaudi name, for the CUDA names that lead to it.

    Exit code 1 when nothing is known of the name.
    """
    from hpushim.matrix.lookup import look_up, near
    from hpushim.report import answers, rows

    matrix, wanted = question(target, stack, mode, matrix_files)
    if any(sign in name for sign in "*?["):
        return _listed(matrix, wanted, name, form)
    answer = look_up(matrix, name, wanted)
    others = () if answer.known else near(matrix, answer.name)
    if form == "json":
        say_json(answers.data(matrix, answer, wanted, _readings, others))
    elif form == "markdown":
        verdicts = [matrix.assess(row, wanted) for row in answer.leads_here]
        if answer.verdict:
            verdicts.insert(0, answer.verdict)
        if verdicts:
            say(rows.markdown(verdicts), nl=False)
        elif answer.known:
            say(answers.text(matrix, answer, wanted, _readings, None), nl=False)
    elif answer.known:
        say(answers.text(matrix, answer, wanted, _readings, width()), nl=False)
    if not answer.known:
        say(answers.unknown(matrix, answer, wanted, others), err=True)
        return 1
    return 0


def _listed(matrix: Matrix, wanted: Target, pattern: str, form: str | None) -> int:
    """The rows and the operators that match a pattern."""
    from hpushim.report import rows

    found = [matrix.assess(row, wanted) for row in matrix.find(pattern)]
    operators = matrix.operators.matching(pattern)
    if form == "json":
        answer = {
            "query": pattern,
            "target": {"gaudi": wanted.gaudi, "stack": wanted.stack, "mode": wanted.mode},
            "known": bool(found or operators),
            "found": [rows.data(matrix, verdict, _readings(verdict)) for verdict in found],
            "operators": [{"name": n, "support": matrix.operators.support[n]} for n in operators],
        }
        say_json(answer)
    elif form == "markdown" and found:
        say(rows.markdown(found), nl=False)
    elif found:
        say(rows.table(found, width()), nl=False)
    if form is None:
        for name in operators:
            say(f"{name}: {matrix.operators.support[name]}")
    if not found and not operators:
        say(f"nothing matches {pattern}; see `hpushim matrix show`", err=True)
        return 1
    return 0


def _readings(verdict: Verdict) -> Sequence[Reading]:
    """What was read at the sources of a shipped row; nothing of a row that a project brings."""
    from hpushim.matrix.readings import readings_of

    row = verdict.row
    return () if row is None or row.origin else readings_of(row.kind, row.name)


def question(
    target: Generation | None,
    stack: str | None,
    mode: Mode | None,
    matrix_files: tuple[Path, ...] = (),
    *,
    here: bool = True,
) -> tuple[Matrix, Target]:
    """The matrix with the project's own rows, and the chosen target; warns of what does not fit.

    Without ``here`` the question is not about this machine, and its torch does not matter.
    """
    from hpushim.matrix import load

    found, file = settings(Path())
    base = Target()
    wanted = Target(
        gaudi=target or found.target or base.gaudi,
        stack=stack or found.stack or base.stack,
        mode=mode or found.mode or base.mode,
    )
    matrix = load(extra=own_rows(found, file, matrix_files))
    if matrix.release(wanted.stack) is None:
        known = ", ".join(matrix.releases)
        raise HpushimError(f"release {wanted.stack} is not in the matrix; one of {known}")
    warnings = [matrix.generation_mismatch(wanted)]
    if here and (stack or found.stack):
        warnings.append(_torch_warning(matrix, wanted.stack))
    for warning in warnings:
        if warning:
            say(f"hpushim: warning: {warning}", err=True)
    return matrix, wanted


def width() -> int | None:
    """Columns of the terminal; None when the output goes elsewhere."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _torch_warning(matrix: Matrix, stack: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return matrix.torch_mismatch(stack, version("torch"))
    except PackageNotFoundError:
        return None
