"""Commands whose line ends with a program and its own arguments."""

from __future__ import annotations

import click


class ProgramCommand(click.Command):
    """A command that takes a program as ``python`` does: what follows the script, ``-m MODULE`` or ``-c CODE`` is the
    program's own, also where the command has an option of that name.
    """

    def __init__(self, name: str | None, **options: object) -> None:
        settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
        super().__init__(name, context_settings=settings, **options)  # type: ignore[arg-type]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = self._end(args)
        return super().parse_args(ctx, args if end is None else [*args[:end], "--", *args[end:]])

    def _end(self, args: list[str]) -> int | None:
        """Where the arguments of a module or of code begin; None where the line names neither, or a script first."""
        options = [one for one in self.params if isinstance(one, click.Option)]
        valued = {name for one in options if not one.is_flag for name in one.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
            word = args[at]
            names = [word] if word.startswith("--") else [f"-{letter}" for letter in word[1:]]
            place = next((n for n, name in enumerate(names, 1) if name in valued), None)
            at += 1
            if place is not None:
                at += place == len(names)  # the value is the next word, not the rest of this one
                if names[place - 1] in ("-m", "-c"):
                    return at
        return None
