"""Many files at once, in processes only when that is quicker."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Bytes of files to parse that are worth a second process; starting one costs about as much time.
_WORTH = 1_500_000
#: After so many files, what circles there are is thrown away all the same.
_TIDY = 100


def each(
    work: Callable[[T], R], items: Sequence[T], sizes: Sequence[int], jobs: int | None = None
) -> Iterator[tuple[int, R]]:
    """``work`` of every item, with the item's index, in no particular order.

    ``sizes`` are bytes of text to be parsed; ``jobs`` caps the processes.
    """
    workers = _workers(sum(sizes), len(items), jobs)
    with _unwatched():
        if workers < 2:
            for index, item in enumerate(items):
                yield index, work(item)
                _tidy(index)
        else:
            yield from _in_processes(work, items, sizes, workers)


@contextmanager
def _unwatched() -> Iterator[None]:
    """Without the collector of circles: a tree has none, and looking through it again and again is slow."""
    was = gc.isenabled()
    gc.disable()
    gc.freeze()  # the matrix and the rules stay anyway: no need to look at them
    try:
        yield
    finally:
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


_work: Callable[[Any], Any] | None = None


def _call(chunk: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    assert _work is not None
    done: list[tuple[int, Any]] = []
    for index, item in chunk:
        done.append((index, _work(item)))
    gc.collect()
    return done


def _in_processes(
    work: Callable[[T], R], items: Sequence[T], sizes: Sequence[int], workers: int
) -> Iterator[tuple[int, R]]:
    # Here, because most runs need no process.
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    global _work
    _work = work  # inherited by the forked children, so that it need not be pickled
    done: set[int] = set()
    try:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
            waiting = {pool.submit(_call, chunk) for chunk in _chunks(items, sizes, workers)}
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    for index, result in future.result():
                        done.add(index)
                        yield index, result
    except BrokenProcessPool:
        # A child was killed (memory, most likely): what is left is done here, one by one.
        for index, item in enumerate(items):
            if index not in done:
                yield index, work(item)
    finally:
        _work = None


def _chunks(
    items: Sequence[T], sizes: Sequence[int], workers: int
) -> Iterator[list[tuple[int, T]]]:
    """The largest first, small ones in bunches."""
    order = sorted(range(len(items)), key=lambda index: -sizes[index])
    limit = max(sum(sizes) // (workers * 16), 1)
    chunk: list[tuple[int, T]] = []
    weight = 0
    for index in order:
        chunk.append((index, items[index]))
        weight += sizes[index] + 1
        if weight >= limit:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
