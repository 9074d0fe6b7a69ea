"""Runs the device-type tests of one file of torch's own suite on one device and writes one JSON line per test.

Started by ``torch_suite.py``, one process per file and device, since a test may end the process. Reads a job (JSON) from
the path given: ``folder``, ``file``, ``device`` (hpu or cpu), ``every``, ``seed``, ``limit_s`` (of processor time), ``only`` (names to run,
or null for the sample), ``done`` (names to leave out), ``out`` (the lines' file).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sys
import time
import unittest
import warnings
import zlib
from pathlib import Path
from typing import Any, TextIO


class TooLong(BaseException):
    """A test ran past its time; no test catches it."""


class Lines(unittest.TestResult):
    """Writes a line as each test starts and ends, so that the parent knows which test ended the process."""

    def __init__(self, out: TextIO, limit_s: int) -> None:
        super().__init__()
        self._out, self._limit_s = out, limit_s
        self._outcome, self._reason, self._begun = "passed", "", 0.0

    def _write(self, **line: object) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._outcome, self._reason, self._begun = "passed", "", time.perf_counter()
        self._write(test=name_of(test), outcome="started")
        signal.setitimer(
            signal.ITIMER_PROF, self._limit_s
        )  # processor time: other work may slow the machine

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        super().stopTest(test)
        seconds = round(time.perf_counter() - self._begun, 3)
        self._write(test=name_of(test), outcome=self._outcome, reason=self._reason, seconds=seconds)
        self.failures.clear()
        self.errors.clear()

    def _failed(self, error: Any) -> None:
        self._outcome = "timed out" if error[0] is TooLong else "failed"
        self._reason = describe(error)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._failed(err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        if not isinstance(test, unittest.TestCase):  # setUpClass, or the module's
            self._write(test=str(test), outcome="failed", reason=describe(err), seconds=0)
        self._failed(err)

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        if err is not None:
            self._failed(err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        if self._outcome == "passed":
            self._outcome, self._reason = "skipped", reason

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._outcome, self._reason = "expected failure", describe(err)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._outcome, self._reason = "unexpected success", ""


def name_of(test: unittest.TestCase) -> str:
    """``Class.method`` of a test."""
    return f"{type(test).__name__}.{test._testMethodName}"


def describe(error: Any) -> str:
    """Type, message and the innermost line of the test file of an exception."""
    kind, value, trace = error
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/torch/" not in code.co_filename and "unittest" not in code.co_filename:
            places.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    text = " ".join(str(value).split())
    return f"{kind.__name__}: {text[:600]} [{places[-1] if places else '?'}]"


def one_device(device: str) -> None:
    """Make torch's test instantiation give the tests of hpu alone, on ``device``, of classes written for any device."""
    from torch.testing._internal import common_device_type as types
    from torch.testing._internal import common_utils

    class HostTestBase(types.HPUTestBase):
        """The tests of hpu, of the same names and dtypes, given cpu as their device."""

        @classmethod
        def setUpClass(cls) -> None:
            cls.primary_device = "cpu"

    base = types.HPUTestBase if device == "hpu" else HostTestBase

    def desired(except_for: Any = None, only_for: Any = None, *_: Any, **__: Any) -> list[Any]:
        as_list = [only_for] if isinstance(only_for, str) else only_for
        without = [except_for] if isinstance(except_for, str) else except_for
        if (as_list and "hpu" not in as_list) or (without and "hpu" in without):
            return []
        return [base]

    types.get_desired_device_type_test_bases = desired
    # Tests for "native" devices ask for a whole torch device, which the emulated one claims to be.
    for module in (types, common_utils):
        if hasattr(module, "NATIVE_DEVICES"):
            module.NATIVE_DEVICES = (*module.NATIVE_DEVICES, "hpu")
    _measure_memory(types)


def _measure_memory(types: Any) -> None:
    """Let the tests that need much memory ask for the host's: device memory is host memory here."""
    original = types._has_sufficient_memory
    types._has_sufficient_memory = lambda device, size: original("cpu", size)


class Gone(list[Any]):
    """Stands in for a name that torch's test library no longer has: a decorator that changes nothing, an empty list."""

    def __call__(self, first: Any = None, *_: Any, **__: Any) -> Any:
        return first if callable(first) else lambda test: test


def supply(error: ImportError) -> bool:
    """Give a module of torch's test library a name that an older test file imports; whether that was the error."""
    gone = re.search(
        r"cannot import name '(\w+)' from '(torch\.testing\._internal[\w.]*)'", str(error)
    )
    if gone is None:
        return False
    module = sys.modules[gone[2]]
    known = {name.lower(): name for name in vars(module)}
    other = known.get(gone[1].lower()) or known.get(gone[1].lower().removesuffix("_and_refs"))
    setattr(module, gone[1], getattr(module, other) if other else Gone())
    return True


def load_file(folder: Path, file: str) -> Any:
    """Import a test file under its own name, from torch's test folder."""
    sys.path[:0] = [str((folder / file).parent), str(folder)]
    while True:
        try:
            return import_file(folder, file)
        except ImportError as error:
            if not supply(error):
                raise


def import_file(folder: Path, file: str) -> Any:
    """One attempt at importing a test file."""
    name = Path(file).stem
    spec = importlib.util.spec_from_file_location(name, folder / file)
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def tests_of(module: Any) -> list[unittest.TestCase]:
    """The instantiated device-type tests of a module, in order."""
    from torch.testing._internal.common_device_type import DeviceTypeTestBase

    found: list[unittest.TestCase] = []
    for value in list(vars(module).values()):
        if not (isinstance(value, type) and issubclass(value, DeviceTypeTestBase)):
            continue
        if value.device_type != "hpu" or value.__module__ != module.__name__:
            continue
        names = unittest.TestLoader().getTestCaseNames(value)
        found += [value(name) for name in names]
    return found


def sampled(name: str, every: int, seed: int) -> bool:
    """Whether a test belongs to the sample."""
    return zlib.crc32(f"{seed}:{name}".encode()) % every == 0


def main(path: str) -> None:
    """Run the job at ``path``."""
    job = json.loads(Path(path).read_text())
    warnings.simplefilter("ignore")
    sys.argv = [job["file"]]
    os.environ["PYTORCH_TEST_WITH_SLOW"] = "0"
    import hpushim.emulator

    hpushim.emulator.enable()  # for cpu too: test files may name torch.hpu
    one_device(job["device"])
    os.chdir(job["folder"])
    with Path(job["out"]).open("a") as out:
        try:
            module = load_file(Path(job["folder"]), job["file"])
            tests = tests_of(module)
        except BaseException:
            reason = describe(sys.exc_info())
            out.write(json.dumps({"test": "import", "outcome": "failed", "reason": reason}) + "\n")
            return
        out.write(json.dumps({"test": "", "outcome": "found", "count": len(tests)}) + "\n")
        done = set(job["done"])
        chosen = [
            t
            for t in tests
            if name_of(t) not in done
            and (
                name_of(t) in job["only"]
                if job["only"] is not None
                else sampled(name_of(t), job["every"], job["seed"])
            )
        ]

        def too_long(*_: object) -> None:
            raise TooLong(f"ran past {job['limit_s']} s")

        signal.signal(signal.SIGPROF, too_long)
        result = Lines(out, job["limit_s"])
        suite = unittest.TestSuite(chosen)
        suite.run(result)
        out.write(json.dumps({"test": "", "outcome": "finished"}) + "\n")
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
