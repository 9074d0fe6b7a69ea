"""What the commands that prove share: options, the request made of them, the certificate."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hpushim.cli.options import Request as Analysis
    from hpushim.prove.certificate import Certificate
    from hpushim.prove.trial import Request
    from hpushim.prove.words import Command

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--steps", type=click.IntRange(0), default=20, show_default=True, help="End each run after this many optimizer steps; 0 lets the script end by itself."),
    click.option("--cpu-args", metavar="ARGS", help="Arguments that keep the script on the CPU, such as '--device cpu'."),
    click.option("--no-cpu", is_flag=True, help="Leave out the run on the CPU."),
    click.option("--timeout", type=click.FloatRange(1), default=600, show_default=True, help="Seconds for a run."),
    click.option("--seed", type=int, default=1234, show_default=True, help="Seed of all runs."),
    click.option("--devices", type=click.IntRange(1), help="Emulated devices (default: the launcher's processes)."),
    click.option("--certificate", type=click.Path(readable=False, path_type=Path), help="Write the certificate to this file, JSON."),
    click.option("--page", type=click.Path(readable=False, path_type=Path), help="Write the certificate to this file, Markdown."),
)  # fmt: skip
#: Their names, as the request has them but for the files.
PROOF = ("steps", "cpu_args", "no_cpu", "timeout", "seed", "devices", "certificate", "page")
_NOT_AGAIN = ("module", "certificate", "page", "keep", "fail_under", "fail_on")


def proof_options(function: F) -> F:
    """``--steps``, ``--cpu-args``, ``--no-cpu``, ``--timeout``, ``--seed``, ``--devices``, ``--certificate``, ``--page``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def parsed(words: tuple[str, ...], module: str | None = None) -> Command:
    """The words of a command line; an error where they name no script, or where torch is not installed."""
    from hpushim.prove.words import parse
    from hpushim.shim.run.launch import needs_torch

    if module is None and words[:1] == ("-m",) and len(words) > 1:
        module, words = words[1], words[2:]
    if module is None and not words:
        raise click.UsageError(
            "name a script, such as `hpushim prove train.py`, or a module with -m"
        )
    needs_torch()
    try:
        return parse(words, module)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def proof(command: Command, request: Analysis, options: dict[str, Any]) -> Request:
    """The proof of a command that the options request, with what they say of the migration."""
    from hpushim.prove.trial import Request

    for_cpu = options.pop("cpu_args")
    return Request(
        command=command,
        target=request.target,
        matrix=request.matrix(),
        select=request.select,
        ignore=request.ignore,
        exclude=request.exclude,
        unsafe=request.unsafe,
        cpu_args=None if for_cpu is None else tuple(shlex.split(for_cpu)),
        **options,
    )


def write(found: Certificate, files: list[Path | None], project: Path) -> None:
    """Writes a certificate to the files that ``--certificate`` and ``--page`` name."""
    from hpushim import safe_files
    from hpushim.cli.output import say
    from hpushim.prove.certificate import page as as_page
    from hpushim.prove.certificate import to_json

    for file, data in zip(files, (to_json(found), as_page(found).encode()), strict=True):
        if file is not None:
            safe_files.write(file, data, project=project)
            say(f"certificate written to {file}", err=True)


def again(context: click.Context, words: tuple[str, ...]) -> str:
    """The command line that repeats this proof: every option that was given."""
    given: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if not isinstance(parameter, click.Option) or name in (*_NOT_AGAIN, "prove"):
            continue
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if parameter.is_flag:
            given.append(parameter.opts[0] if value else parameter.secondary_opts[0])
            continue
        for one in value if isinstance(value, tuple) else (value,):
            given += [parameter.opts[0], str(one)]
    command = str(context.command.name)
    return shlex.join(["hpushim", command, *given, *(["--prove"] if command == "migrate" else []), *words])  # fmt: skip
