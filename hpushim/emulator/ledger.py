"""What ran on the emulated device: totals, the lines they came from, and the JSON that HPUSHIM_LEDGER requests.

``start()`` opens the ledger; with ``HPUSHIM_LEDGER=path`` they are written there when the process ends (``path.rank1``
… for the further ranks of a distributed run). They watch a run and never change it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hpushim.emulator import device, leaving, ledger_file, steps

SCHEMA_VERSION = 1

unhandled_cuda: list[dict[str, Any]] = []
"""CUDA calls that met no patch: the shim appends {"name", "file", "line"}."""

# What an hccl group answers to: the name that a CUDA program requested, and that of a group with several backends.
_OTHER_NAMES = ("nccl", "undefined")

_MOST_BREAKS, _LONGEST = 50, 400
_AUTOCAST = "autocast "  # begins the names of these totals, which are shown apart
_process_groups: list[dict[str, Any]] = []
_objections: dict[tuple[str, str], tuple[str, bool]] = {}
_MOST_OBJECTIONS = 500
_started_in = 0
_began_at = ""
_file: Path | None = None
_first_rank: int | None = None


def mark_step(sync: bool = False) -> None:
    """Close the pending graph, as ``htcore.mark_step()`` does in lazy mode; counted."""
    device.load().mark_step(bool(sync))


def add(counter: str, amount: int = 1) -> None:
    """Add to a total by name: one of the contract's, or a new one that then appears in the snapshot."""
    device.load().add(counter, int(amount))


def add_objection(code: str, line: str, text: str, *, refused: bool) -> None:
    """Keep what was reported of something that Gaudi does otherwise, or ``refused``: once for each code and text."""
    if len(_objections) < _MOST_OBJECTIONS:
        _objections.setdefault((code, text), (line, refused))


def refusals() -> list[tuple[str, str, str]]:
    """What ran and a Gaudi refuses: code, text, the user's line."""
    return [(code, text, line) for (code, text), (line, refused) in _objections.items() if refused]


def narrowed() -> list[tuple[str, str, str]]:
    """Floating dtypes that ran and a Gaudi keeps as narrower ones: code, text, the user's line."""
    from hpushim.matrix import load

    found = []
    for file, line, kind, what in device.load().first_lines():
        name = what.partition(" ")[0]
        if kind == "demotion" and name.startswith(("float", "complex")):
            row = load().row(f"torch.{name}")
            found.append((row.rule if row else "", what, f"{_whole(file)}:{line}"))
    return found


def note(kind: str, what: str) -> None:
    """Add a site: an event of ``kind`` at the user's current line. Nothing unless sites are recorded."""
    device.load().note(kind, what)


def snapshot() -> dict[str, Any]:
    """The ledger as of now: totals by the contract's names, and the sites. Always says ``"emulated": True``."""
    native = device.load()
    found: dict[str, Any] = dict(native.totals())
    autocast = {name: found.pop(name) for name in list(found) if name.startswith(_AUTOCAST)}
    causes, causes_left_out = native.recompilation_causes()
    sites, sites_left_out = native.sites()
    on_hpu = found.pop("compute_hpu")
    elsewhere = found.pop("compute_elsewhere")
    note_present_groups()
    return {
        "schema_version": SCHEMA_VERSION,
        "emulated": True,
        "gaudi": os.environ.get("HPUSHIM_GAUDI", "gaudi2"),
        "mode": "lazy" if _lazy() else "eager",
        **found,
        "peak_bytes": device.memory_stats()["peak"],
        "compute_operators": {"hpu": on_hpu, "cpu": None if elsewhere < 0 else elsewhere},
        "fallback_operators": dict(sorted(native.fallback_operators())),
        "operator_calls": dict(
            sorted(native.operator_calls(), key=lambda item: (-item[1], item[0]))
        ),
        "recompilation_causes": [_cause(*cause) for cause in causes],
        "parameters": dict(steps.now().parameters),
        "steps": steps.now().data(),
        "graph_breaks": _graph_breaks(),
        "first_compute_on_cpu": native.first_compute_elsewhere(),
        "objections": [
            {"code": code, "text": text, "site": line}
            for (code, text), (line, _) in _objections.items()
        ],
        "demotion_lines": [
            {"file": _whole(file), "line": line, "what": what}
            for file, line, kind, what in native.first_lines()
            if kind == "demotion"
        ],
        "autocast": [
            dict(zip(("device", "dtype"), name.split()[1:], strict=True)) | {"count": count}
            for name, count in autocast.items()
        ],
        "process_groups": list(_process_groups),
        "unhandled_cuda": list(unhandled_cuda),
        "sites": [
            dict(
                zip(
                    ("file", "line", "kind", "what", "count", "bytes"),
                    (_whole(site[0]), *site[1:]),
                    strict=True,
                )
            )
            for site in sites
        ],
        "left_out": {"recompilation_causes": causes_left_out, "sites": sites_left_out},
    }


def _cause(
    operator: str,
    position: int,
    before: str,
    after: str,
    count: int,
    differences: list[tuple[str, str, int | None, str, str]],
    others: int,
    file: str,
    line: int,
) -> dict[str, Any]:
    """A recompilation: its first operator that differs, and in what.

    A dimension of None is a number, a dtype or a number of dimensions, as its kind says. ``others``: the same arguments and
    dimensions at the same line, with further sizes.
    """
    return {
        "operator": operator,
        "position": position,
        "before": before,
        "after": after,
        "count": count,
        "others": others,
        "file": _whole(file),
        "line": line,
        "differences": [
            dict(zip(("kind", "argument", "dimension", "before", "after"), one, strict=True))
            for one in differences
        ],
    }


def _whole(file: str) -> str:
    """A file's whole path: Python names a script as the command line does, from where the run began."""
    return file if not file or file.startswith("<") else os.path.join(_began_at, file)  # noqa: PTH118


def reset() -> None:
    """Start the ledger anew; the device and its memory are untouched."""
    device.load().reset_ledger()
    steps.forget()
    _objections.clear()
    _process_groups.clear()
    unhandled_cuda.clear()


def start() -> None:
    """Open the ledger of this process; with HPUSHIM_LEDGER set they are written there at exit. Idempotent."""
    global _started_in, _began_at
    if _started_in == os.getpid():
        return
    _started_in = os.getpid()
    with contextlib.suppress(OSError):  # the folder may be gone
        _began_at = os.getcwd()  # noqa: PTH109
    native = device.load()
    wanted = _file is not None
    level = os.environ.get("HPUSHIM_LOG", "").strip().lower()
    native.record_graphs(True, _lazy())
    if wanted or leaving.folder() is not None:
        native.watch_compute()
        steps.watch()
    if leaving.folder() is not None:
        leaving.begin()
        steps.each_doubling(_leave_so_far)
    if wanted or level in ("sites", "trace"):
        native.set_library_roots(library_roots())
        native.record_sites(True, level == "trace")
        native.watch_compute()
        steps.watch()
        _watch_autocast()


def _leave_so_far() -> None:
    """For a process that is killed later, as a worker of Ray is."""
    leaving.leave(snapshot(), _rank(), device.load().first_compute_elsewhere(), unfinished=True)


def take_file() -> None:
    """Take the file that HPUSHIM_LEDGER names for the ledger of this run, before it begins. Idempotent.

    Raises EmulatorError for what must not be replaced.
    """
    global _file
    wanted = os.environ.get("HPUSHIM_LEDGER", "")
    if wanted and _file is None:
        _file = ledger_file.take(Path(wanted))


def write(path: str | Path) -> None:
    """Write the snapshot as JSON, whole or not at all. Raises OSError."""
    text = json.dumps({**snapshot(), "complete": True}, indent=1) + "\n"
    ledger_file.write(Path(path), text)


def add_process_group(backend: str, where: str, size: int, rank: int | None = None) -> None:
    """Note a process group: its backend, the device type that it carries, how many ranks it has, and which this is."""
    global _first_rank
    if _first_rank is None:
        _first_rank = rank
    _process_groups.append({"backend": backend, "device": where, "size": size})


def _lazy() -> bool:
    from hpushim.emulator import profiles

    return profiles.current().lazy


def library_roots() -> list[str]:
    """Folders and files whose frames are not the user's: torch, this package, the standard library."""
    import torch

    here = Path(__file__).parent.parent
    standard = Path(sysconfig.get_path("stdlib"))
    roots = [Path(torch.__file__).parent, here]
    # torch marks what it deprecates with a decorator of this module, which then is between user and torch.
    decorators = sys.modules.get("typing_extensions")
    if decorators is not None and decorators.__file__:
        roots.append(Path(decorators.__file__))
    # The standard library's own files, but not the site-packages below it.
    roots += [
        item for item in standard.iterdir() if item.name not in ("site-packages", "dist-packages")
    ]
    return [f"{root}{os.sep}" if root.is_dir() else str(root) for root in roots]


def _rank() -> int | None:
    """This process's rank: the group that was made first is the one of all ranks, and may be closed by now."""
    if _first_rank is not None:
        return _first_rank
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else None


def write_at_exit() -> None:
    """Write the ledger where HPUSHIM_LEDGER requested them; what cannot be written is said, and nothing raised."""
    if _started_in != os.getpid():  # a fork has its parent's ledger
        return
    native = device.load()
    native.record_sites(False, False)
    if leaving.folder() is not None:
        leaving.leave(snapshot(), _rank(), native.first_compute_elsewhere())
    if _file is None:
        return
    path = ledger_file.place(_file, _rank(), native.totals()["operators"] > 0)
    if path is None:
        return
    try:
        write(path)
    except OSError as error:
        sys.stderr.write(
            f"hpushim: the ledger (emulated) could not be written to {path}: {error.strerror or error}; "
            "set HPUSHIM_LEDGER to a writable path\n"
        )


def _watch_autocast() -> None:
    """Count the regions of autocast, by device and dtype."""
    import torch

    autocast = torch.amp.autocast_mode.autocast
    enter = autocast.__enter__

    @functools.wraps(enter)
    def counted(self: Any) -> Any:
        if not torch.compiler.is_compiling():
            dtype = str(self.fast_dtype).replace("torch.", "") if self._enabled else "off"
            add(f"{_AUTOCAST}{self.device} {dtype}")
        return enter(self)

    autocast.__enter__ = counted


def _graph_breaks() -> list[dict[str, Any]]:
    """Why torch.compile ended graphs, in torch's own words, the most frequent first."""
    utils = sys.modules.get("torch._dynamo.utils")
    found = dict(utils.counters["graph_break"]) if utils is not None else {}
    ordered = sorted(found.items(), key=lambda item: -item[1])[:_MOST_BREAKS]
    return [
        {"reason": " ".join(str(reason).split())[:_LONGEST], "count": int(n)}
        for reason, n in ordered
    ]


def note_present_groups() -> None:
    """Groups of other backends that are open now; hccl groups were noted when they were made."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    backend = str(distributed.get_backend())
    known = {group["backend"] for group in _process_groups}
    if backend in _OTHER_NAMES and "hccl" in known:
        return
    if backend != "hccl" and backend not in known:
        add_process_group(backend, "cpu", int(distributed.get_world_size()))
