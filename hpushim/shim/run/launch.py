"""``hpushim run``: runs an unmodified script, module or notebook with the shim on, as ``python`` itself would.

The environment is set for this process and its children, so that launchers, spawned workers and DataLoader workers
get the shim through torch's entry point. Without a Gaudi the HPU is emulated.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import traceback
import zipfile
import zipimport
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal, NoReturn

from hpushim import settings
from hpushim.errors import HpushimError
from hpushim.shim import detect, log
from hpushim.shim.run import children, compiling, import_hook, story
from hpushim.shim.run.target import target_of

MAIN_VARIABLE = "HPUSHIM_MAIN"
"""The script of a run, for spawned children that load it again."""

Kind = Literal["file", "module", "code"]
"""What a program is named by, as ``python`` takes it."""

_LAZY = {"lazy": "1", "eager": "0", "compile": "0"}


def run(
    target: str,
    args: Sequence[str] = (),
    *,
    kind: Kind = "file",
    gaudi: str | None = None,
    mode: str | None = None,
    ledger: str | None = None,
    devices: int | None = None,
    show_rewrites: bool = False,
    native: bool = False,
    before: Callable[[], None] | None = None,
) -> NoReturn:
    """Runs ``target`` as ``__main__``: a file, ``-`` for standard input, a module's name or code, as ``kind`` says; ends as
    the script ends.

    A shell, or another program that starts Python, takes this process's place; the Python that it starts is enabled.

    With ``native`` the program is taken for HPU code: nothing is patched or rewritten, and only where there is no
    Gaudi the HPU is emulated. ``before`` is called when all is ready, before the script's first line. ``mode`` is ``eager``, ``compile`` or ``lazy``; ``ledger`` the file for the ledger of the run. Raises SystemExit with the
    script's status (1 after an uncaught exception, whose traceback is printed by ``sys.excepthook``), and
    HpushimError when the target or the environment cannot be used.
    """
    what = target_of(target, args) if kind == "file" else None
    prepare(gaudi=gaudi, mode=mode, ledger=ledger, devices=devices, show_rewrites=show_rewrites)
    if os.environ["HPUSHIM"] == "emulate":
        story.begin(native=native)
    if what is not None and what.kind == "program":
        _program(what.words, native=native)
    if native:
        _without_shim()
    if what is not None and what.kind == "notebook":
        _run_notebook(what.path, args)
    try:
        if what is not None and what.kind == "input":
            name, (main, code) = "-", _text("<stdin>", sys.stdin.buffer.read())
        elif what is not None:
            name, (main, code) = str(what.path), _script(str(what.path))
        elif kind == "code":
            name, (main, code) = "-c", _text("<string>", os.fsencode(target))
        else:
            main, code = _module(target)
            name = str(main.__file__)
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        raise SystemExit(1) from None
    sys.argv = [name, *args]
    _start_shim()
    if before is not None:
        before()
    sys.modules["__main__"] = main
    _execute(code, main)


def prepare(
    *,
    gaudi: str | None = None,
    mode: str | None = None,
    ledger: str | None = None,
    devices: int | None = None,
    show_rewrites: bool = False,
) -> None:
    """Sets the environment of a run for this process and its children. Raises HpushimError for bad values."""
    environment = os.environ
    if gaudi is not None:
        environment["HPUSHIM_GAUDI"] = gaudi
    if devices is not None:
        environment["HPUSHIM_DEVICES"] = str(devices)
    if ledger is not None:
        environment["HPUSHIM_LEDGER"] = str(Path(ledger).absolute())
    if show_rewrites:
        environment[compiling.SHOW_VARIABLE] = "1"
    if mode is not None:
        if mode not in _LAZY:
            raise HpushimError(
                f"mode {mode!r}: expected eager, compile or lazy; choose one of these"
            )
        environment["PT_HPU_LAZY_MODE"] = _LAZY[mode]
    # Layers of the stack disagree on the default, so it is always said.
    environment.setdefault("PT_HPU_LAZY_MODE", "0")
    settings.check()
    environment["HPUSHIM"] = _where()
    if environment["HPUSHIM"] == "emulate":
        environment.update(detect.emulated_environment())
    environment.update(children.environment())


def _where() -> str:
    """What HPUSHIM is for this run: as the user set it, else a Gaudi if its software is here, else the emulator."""
    wanted = detect.mode()
    if wanted != "auto":
        return wanted
    if detect.gaudi_software():
        return "hpu"
    return "auto" if _cuda_build() else "emulate"


def needs_torch() -> Path:
    """Where torch is, found without importing it; an error where it is not installed."""
    try:
        spec = importlib.util.find_spec("torch")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise HpushimError(
            "torch is not installed in the environment of hpushim; install it: pip install 'hpushim[torch]'"
        )
    return Path(spec.origin)


def _cuda_build() -> bool:
    """Whether the installed torch is a CUDA build, read from its version file without importing it."""
    version = needs_torch().with_name("version.py")
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    return re.search(r"^cuda\b[^=\n]*=\s*['\"]", text, re.MULTILINE) is not None


def _program(words: Sequence[str], *, native: bool) -> NoReturn:
    """Runs a program; what it starts finds the environment of the run.

    It takes the place of this process, or where there is something to report at its end, it is waited for.
    """
    if native:
        os.environ["HPUSHIM"] = "off"
    elif os.environ["HPUSHIM"] != "off":
        os.environ[import_hook.REWRITE_VARIABLE] = "1"
    # `python` is the one that has hpushim, as in an environment that was activated.
    here = str(Path(sys.executable).parent)
    rest = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part != here]
    os.environ["PATH"] = os.pathsep.join([here, *rest])
    sys.stdout.flush()
    sys.stderr.flush()
    if not story.is_printed():
        os.execvp(words[0], list(words))
    child = subprocess.Popen(list(words))
    # Ctrl-C reaches the program by itself; what ends only this process is passed on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stop_signal in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop_signal, lambda number, _: child.send_signal(number))
    code = child.wait()
    if code:
        story.failed()
    raise SystemExit(code if code >= 0 else 128 - code)


def _run_notebook(path: Path, args: Sequence[str]) -> NoReturn:
    from hpushim.shim.run import notebook

    cells = notebook.read(path)
    main = _main()
    path = path.resolve()
    sys.argv = [str(path), *args]
    sys.path.insert(0, str(path.parent))
    # Where Jupyter would run it.
    os.chdir(path.parent)
    _rewrite()
    _start_shim()
    sys.modules["__main__"] = main
    parsed = compiling.parsed if detect.mode() != "off" else notebook.parse
    _ending_as_python(lambda: notebook.run_cells(path, cells, main.__dict__, parsed), skip=4)


def _without_shim() -> None:
    """Turns the shim off for this process and its children; the emulated HPU, if it is one, stays."""
    emulated = os.environ["HPUSHIM"] == "emulate"
    os.environ["HPUSHIM"] = "off"
    if emulated:
        detect.emulate()


def _start_shim() -> None:
    """Imports torch here and not in the script, so that what is wrong with the machine is reported plainly."""
    from hpushim.shim.session import session

    if detect.mode() == "off":
        return
    with session.held():
        importlib.import_module("torch")
    if not session.activate() and detect.mode() == "auto":
        detect.require_cuda()
        import_hook.uninstall()
        os.environ.pop(import_hook.REWRITE_VARIABLE, None)
        log.start(
            "this machine has a working CUDA device: hpushim patches nothing and runs the script"
        )


def _script(target: str) -> tuple[ModuleType, CodeType]:
    path = Path(target)
    if path.is_dir():
        path = path / "__main__.py"
    if not path.is_file():
        raise HpushimError(f"{target}: no such script; expected a Python file: check the path")
    if zipfile.is_zipfile(path):
        return _archive(path)
    real = path.resolve()
    root = str(real.parent)
    sys.path.insert(0, root)
    _rewrite()
    _have_children_load_it(real)
    main = _main()
    main.__file__ = str(path)
    main.__loader__ = compiling.loader("__main__", str(path))
    # As python has it for a script: by it, programs know how to start themselves once more.
    main.__spec__ = None
    main.__package__ = None
    return main, code_of(str(path))


def _archive(path: Path) -> tuple[ModuleType, CodeType]:
    """The ``__main__.py`` of an archive of Python files, as zipapp makes them."""
    source = zipimport.zipimporter(str(path)).get_source("__main__")
    if source is None:
        raise HpushimError(
            f"{path}: an archive without the source of __main__; expected __main__.py in it"
        )
    sys.path.insert(0, str(path))
    _rewrite()
    main = _main()
    main.__file__ = str(path / "__main__.py")
    main.__package__ = ""
    return main, _compiled(str(path / "__main__.py"), source.encode())


def _text(name: str, source: bytes) -> tuple[ModuleType, CodeType]:
    """Code of the command line or of standard input."""
    sys.path.insert(0, "")
    _rewrite()
    return _main(), _compiled(name, source)


def _main() -> ModuleType:
    main = ModuleType("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    return main


def _have_children_load_it(script: Path) -> None:
    """Children that multiprocessing starts anew load the script again; they do so by us, rewritten as here."""
    from multiprocessing import spawn

    os.environ[MAIN_VARIABLE] = str(script)
    original = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = original(name)
        if data.pop("init_main_from_path", None) is not None:
            data["init_main_from_name"] = "hpushim.shim.run.spawned"
        return data

    spawn.get_preparation_data = get_preparation_data


def code_of(file: str) -> CodeType:
    """The script's code, rewritten. Raises SyntaxError as Python would."""
    return _compiled(file, Path(file).read_bytes())


def _compiled(file: str, data: bytes) -> CodeType:
    if detect.mode() == "off":
        code: CodeType = compile(data, file, "exec", dont_inherit=True)
        return code
    return compiling.compiled(file, data)


def _module(name: str) -> tuple[ModuleType, CodeType]:
    here = Path.cwd()
    sys.path.insert(0, str(here))
    _rewrite()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        raise HpushimError(
            f"module {error.name} not found; expected one that can be imported"
        ) from None
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    code = get_code(spec.name) if spec is not None and get_code is not None else None
    if spec is None or code is None:
        raise HpushimError(f"module {name} cannot be run; expected one with source: check the name")
    main = _main()
    main.__spec__ = spec
    main.__loader__ = spec.loader
    main.__package__ = spec.parent
    main.__file__ = spec.origin
    return main, code


def _rewrite() -> None:
    if detect.mode() != "off":
        import_hook.install()


def _execute(code: CodeType, main: ModuleType) -> NoReturn:
    _ending_as_python(lambda: exec(code, main.__dict__), skip=3)


def _ending_as_python(program: Callable[[], object], skip: int) -> NoReturn:
    """Runs a program and ends as it ends; its traceback begins in the user's file, ``skip`` frames down."""
    try:
        program()
    except SystemExit as end:
        if end.code not in (None, 0):
            story.failed()
        raise
    except BaseException as error:
        story.failed()
        trace = error.__traceback__
        for _ in range(skip - 1):
            trace = trace.tb_next if trace is not None else None
        error.__traceback__ = trace
        file = trace.tb_frame.f_code.co_filename if trace is not None else ""
        if sys.excepthook is sys.__excepthook__ and not Path(file).exists():
            # That hook reads files; the lines of a cell are kept for the one of traceback.
            traceback.print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None
    raise SystemExit(0)
