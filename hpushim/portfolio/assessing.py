"""The assessment of one repository: its report as JSON and as a page, or why there is none."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from hpushim.engine.base.kind import Kind
from hpushim.engine.files.discover import discover, project_root
from hpushim.errors import HpushimError
from hpushim.model import Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

#: What neither findings nor pages come from.
_ELSEWHERE = frozenset({"__pycache__", "cli", "emulator", "ledgers", "plan", "prove", "shim"})


class Job(msgspec.Struct, frozen=True):
    """A repository and how to assess it; ``known`` is the key of an earlier run. It travels to other processes and machines."""

    name: str
    path: Path
    target: Target
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    extra_rows: tuple[Path, ...] = ()
    wheels: Path | None = None
    known: str = ""


class Done(msgspec.Struct, frozen=True):
    """What became of a :class:`Job`: a report and a page; neither where ``key`` is the known one; or why it ``failed``."""

    name: str
    key: str = ""
    report: bytes = b""
    page: bytes = b""
    failed: str = ""


def assess(job: Job) -> Done:
    """Assesses a repository. A fault of the repository is a result, not an exception."""
    try:
        from hpushim.matrix import load

        matrix = load(extra=job.extra_rows)
        key = _key(job, matrix)
        return Done(job.name, key) if key == job.known else _assessed(job, key, matrix)
    except HpushimError as error:
        return Done(job.name, failed=str(error))
    except OSError as error:
        return Done(job.name, failed=f"{error.filename or job.path}: {error.strerror or error}")
    except Exception as error:
        why = f"internal error ({type(error).__name__}: {error}); please report it"
        return Done(job.name, failed=why)


def _key(job: Job, matrix: Matrix) -> str:
    """Represents all that a report depends on: hpushim and its matrix, what was requested, the installed packages, and each file's path, size and time of change."""
    from hpushim.dependencies.places import state as installed
    from hpushim.engine.store import state

    kinds: frozenset[Kind] = frozenset(get_args(Kind))
    root = project_root((job.path,))
    files = [each.path for each in discover((job.path,), root, kinds, job.exclude).files]
    files += job.extra_rows
    if job.wheels is not None:
        files += sorted(job.wheels.glob("*.whl"))
    states = [(str(path), (at := path.stat()).st_size, at.st_mtime_ns) for path in files]
    key_of = msgspec.structs.replace(job, known="")
    ours = state(matrix, without=_ELSEWHERE).hex()
    data = msgspec.json.encode((ours, key_of, installed(root), states), enc_hook=str)
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _assessed(job: Job, key: str, matrix: Matrix) -> Done:
    from hpushim.dependencies import Places
    from hpushim.dependencies.project import of_project
    from hpushim.engine.project import analyse
    from hpushim.report import render

    report = analyse(
        (job.path,),
        job.target,
        matrix=matrix,
        select=job.select,
        ignore=job.ignore,
        exclude=job.exclude,
        jobs=1,
        propose=True,
        cache=True,
    )
    places = Places(project_root((job.path,)), None, job.wheels)
    found = of_project(
        (job.path,), job.exclude, places, matrix, job.target, report.around, report.reached
    )
    # The page is called after the repository; where it was assessed concerns no reader.
    report = msgspec.structs.replace(report, dependencies=found, root=job.name)
    texts = (render(report, "json"), render(report, "html"))
    made, page = (text.encode("utf-8", "backslashreplace") for text in texts)
    return Done(job.name, key, made, page)
