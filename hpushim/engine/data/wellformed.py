"""Is a changed data file as well-formed as before? Files that were broken before are not assessed."""

from __future__ import annotations

from collections.abc import Callable

from hpushim.engine.base.kind import Kind


def unproven(kind: Kind, before: bytes, after: bytes) -> str | None:
    """Why ``after`` is worse than ``before``; None when it is not, or when that cannot be known."""
    check = _CHECKS.get(kind)
    if check is None or _error(check, before) is not None:
        return None
    error = _error(check, after)
    return None if error is None else f"the result is not valid {kind} ({error})"


def _error(check: Callable[[str], object], data: bytes) -> str | None:
    try:
        check(data.decode())
    except RecursionError:
        return "nested too deeply"
    except Exception as error:
        return " ".join(str(error).split())[:120]
    return None


def _yaml(text: str) -> None:
    import yaml

    for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass


def _json(text: str) -> None:
    import json

    json.loads(text)


def _toml(text: str) -> None:
    import tomli

    tomli.loads(text)


_CHECKS: dict[Kind, Callable[[str], object]] = {
    "yaml": _yaml,
    "json": _json,
    "notebook": _json,
    "toml": _toml,
}
