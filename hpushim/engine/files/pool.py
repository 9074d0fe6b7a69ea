"""Many files at once, in processes only when that is quicker; one file cannot stop the others.

An item that takes too long, or at which its process dies (of memory, most likely), is given up and named: ``lost`` says what
represents it in the result. Whoever stops (Ctrl-C) waits for no child: parsing one large file takes longer than patience does, and
Python hears of the signal only afterwards, so large files are always left to a child.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Bytes of files to parse that are worth a second process; starting one costs about as much time.
_WORTH = 1_500_000
#: Bytes of one file whose parsing takes about a second, in which nothing can be stopped: a child does it.
_LONG = 400_000
#: After so many files, what circles there are is thrown away all the same.
_TIDY = 100
#: Seconds of processor time for one item: so many, and so many for each MiB of it.
SECONDS = 120.0
SECONDS_PER_MIB = 60.0


class _Late(BaseException):
    """The time of an item is up. No Exception, so that nobody takes it for a fault of his own."""


def each(
    work: Callable[[T], R],
    items: Sequence[T],
    sizes: Sequence[int],
    jobs: int | None = None,
    lost: Callable[[T, str], R] | None = None,
) -> Generator[tuple[int, R], None, None]:
    """``work`` of every item, with the item's index, in no particular order.

    ``sizes`` are bytes of text to be parsed; ``jobs`` caps the processes. ``lost`` gives the result for an item that could
    not be brought to its end, from the item and half a sentence that says why; without it there are no limits.
    """
    task = _Task(work, items, sizes, lost)
    workers = _workers(sum(sizes), len(items), jobs)
    long = sys.platform == "linux" and max(sizes, default=0) > _LONG
    with _unwatched():
        if workers < 2 and not long:
            for index in range(len(items)):
                yield index, task(index)
                _tidy(index)
        else:
            yield from _in_processes(task, workers)


#: How many runs this process is in, with those of its parents.
_runs = 0


@contextmanager
def _unwatched() -> Iterator[None]:
    """Without the collector of circles: a tree has none, and looking through it again and again is slow.

    And without warnings: Python's about what it parses would show lines of it as they are.
    """
    global _runs
    was = gc.isenabled()
    _runs += 1
    gc.disable()
    gc.freeze()  # the matrix and the rules stay anyway: no need to look at them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _runs -= 1
        if not _runs:  # else in a child of a run, where a look at everything would copy its memory
            gc.unfreeze()
        if was:
            gc.enable()


def _tidy(count: int) -> None:
    if count % _TIDY == _TIDY - 1:
        gc.collect()


def _workers(total: int, count: int, jobs: int | None) -> int:
    # A forked child starts with everything loaded; a spawned one loads it all again, which eats the gain.
    if sys.platform != "linux":
        return 1
    cores = len(os.sched_getaffinity(0))
    return max(1, min(jobs or cores, cores, count, total // _WORTH + 1))


class _Task:
    """What is to be done, by index; forked children inherit it, so that it need not be pickled."""

    def __init__(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        sizes: Sequence[int],
        lost: Callable[[Any, str], Any] | None,
    ) -> None:
        self.work, self.items, self.sizes, self.lost = work, items, sizes, lost

    def __call__(self, index: int) -> Any:
        if self.lost is None:
            return self.work(self.items[index])
        limit = SECONDS + SECONDS_PER_MIB * self.sizes[index] / (1 << 20)
        try:
            with _limited(limit):
                return self.work(self.items[index])
        except _Late:
            why = f"took longer than {limit:.0f} seconds; not changed"
            return self.lost(self.items[index], why)

    def died(self, index: int) -> Any:
        """The result for an item at which a process died."""
        assert self.lost is not None
        why = "needed more memory than is available, or ended its process; not changed"
        return self.lost(self.items[index], why)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises :class:`_Late` in the block after so much processor time, where the system has such a clock."""
    can = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not can or signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL:
        yield
        return

    def up(_signal: int, _frame: object) -> None:
        raise _Late

    signal.signal(signal.SIGVTALRM, up)
    # Again and again, should somebody hold it back the first time.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


_task: _Task | None = None


def _call(chunk: list[int]) -> list[tuple[int, Any]]:
    assert _task is not None
    done = [(index, _task(index)) for index in chunk]
    gc.collect()
    return done


def _in_processes(task: _Task, workers: int) -> Iterator[tuple[int, Any]]:
    global _task
    before, _task = _task, task  # in a child whose work has children of its own
    try:
        chunks = list(_chunks(task.sizes, workers))
        left = set(range(len(task.items)))
        for index, result in _pooled(chunks, workers):
            left.discard(index)
            yield index, result
        # A child was killed: chunk by chunk, then one by one, so that only the one to blame is lost.
        for chunk in chunks:
            again = [index for index in chunk if index in left]
            if again:
                done = list(_pooled([again], 1)) if task.lost else []
                yield from done or (_alone(task, index) for index in again)
    finally:
        _task = before


def _alone(task: _Task, index: int) -> tuple[int, Any]:
    if task.lost is None:
        return index, task(index)
    done = list(_pooled([[index]], 1))
    return done[0] if done else (index, task.died(index))


def _pooled(chunks: list[list[int]], workers: int) -> Iterator[tuple[int, Any]]:
    """The results of as many chunks as were done before a process died."""
    with _stopped_once():
        yield from _results(chunks, workers)


def _results(chunks: list[list[int]], workers: int) -> Iterator[tuple[int, Any]]:
    # Here, because most runs need no process.
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    others = multiprocessing.active_children()
    ends = os.pipe()
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, context, initializer=_child, initargs=ends)
    try:
        waiting = {pool.submit(_call, chunk) for chunk in chunks}
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                yield from future.result()
    except BrokenProcessPool:
        return
    except BaseException:
        # Stopped, or nobody wants the rest: what the children are at is of no use any more.
        for child in multiprocessing.active_children():
            if child not in others:
                child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for end in ends:
            os.close(end)


@contextlib.contextmanager
def _stopped_once() -> Iterator[None]:
    """Only the first Ctrl-C counts until the children have ended: a second one would leave them alive."""
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _child(read: int, write: int) -> None:
    """Ctrl-C reaches a whole group of processes; the parent answers it, and ends its children. A parent that was killed cannot.

    Only the parent keeps ``write`` open, so ``read`` ends when it does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)  # its parent's limit is not its own
    os.close(write)
    threading.Thread(target=_outlive, args=(read,), daemon=True).start()


def _outlive(read: int) -> None:
    os.read(read, 1)
    os._exit(1)


def _chunks(sizes: Sequence[int], workers: int) -> Iterator[list[int]]:
    """The largest first, small ones in bunches."""
    order = sorted(range(len(sizes)), key=lambda index: -sizes[index])
    limit = max(sum(sizes) // (workers * 16), 1)
    chunk: list[int] = []
    weight = 0
    for index in order:
        chunk.append(index)
        weight += sizes[index] + 1
        if weight >= limit:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
