"""Threads with the ledger on do not wait for each other without end; crowd.py runs them a thousand times."""

from __future__ import annotations

import crowd
import pytest
from environments import plain_environment

STANDSTILL = """
import ctypes, faulthandler, threading
faulthandler.enable()
def wait_for_the_lock():
    while True: pass
for _ in range(8):
    threading.Thread(target=wait_for_the_lock, daemon=True).start()
while True:
    ctypes.PyDLL(None).sleep(300)  # with Python's lock
"""
SLOW = """
import os, time
def deeper(n):
    time.sleep(0.5)
    if n: deeper(n - 1)
deeper(40)
open(os.environ["HPUSHIM_LEDGER"], "w").close()
print(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_threads_with_the_ledger_on_go_on(mode):
    assert crowd.repeat(3, mode, plain_environment()) == ""


@pytest.mark.slow
def test_a_process_that_stands_still_is_found(monkeypatch):
    monkeypatch.setattr(crowd, "STANDSTILL_S", 12.0)
    monkeypatch.setattr(crowd, "NO_WORK_S", 0.4)
    fault = crowd.repeat(1, "lazy", plain_environment(), STANDSTILL)
    assert fault.startswith("hung after 0 repetitions")
    assert "Fatal Python error: Aborted" in fault


@pytest.mark.slow
def test_a_process_that_the_machine_makes_slow_goes_on(monkeypatch):
    monkeypatch.setattr(crowd, "STANDSTILL_S", 4.0)
    assert crowd.repeat(1, "lazy", plain_environment(), SLOW) == ""


ENDING = """
import faulthandler, os, signal, time
faulthandler.unregister(signal.SIGUSR1)  # as at the end of the interpreter
open(os.environ["HPUSHIM_LEDGER"], "w").close()
print(0, flush=True)
time.sleep(9)
"""


@pytest.mark.slow
def test_a_process_that_is_asked_while_it_ends_goes_on_ending(monkeypatch):
    monkeypatch.setattr(crowd, "STANDSTILL_S", 4.0)
    assert crowd.repeat(1, "lazy", plain_environment(), ENDING) == ""
