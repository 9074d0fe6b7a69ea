"""Many repositories at once: in processes of this machine, or on a Ray cluster. Neither schedules: that is what the pool and Ray do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from hpushim.engine.files import pool
from hpushim.errors import HpushimError
from hpushim.portfolio.assessing import Done, Job, assess

Engine = Literal["processes", "ray"]
#: A repository counts as so many bytes of code: enough for processes to be worth it, and for half an hour of processor time each.
_SIZE = 32 << 20


def processes(jobs: Sequence[Job], most: int | None, keep: Callable[[Done], None]) -> Iterator[str]:
    """The names of the repositories as they are done. A process that dies takes only the repository at which it died."""

    def work(job: Job) -> str:
        keep(assess(job))  # here, so that what is done is kept whatever becomes of the others
        return job.name

    def lost(job: Job, why: str) -> str:
        keep(Done(job.name, failed=why))
        return job.name

    for _, name in pool.each(work, jobs, [_SIZE] * len(jobs), most, lost):
        yield name


def ray(jobs: Sequence[Job], most: int | None, keep: Callable[[Done], None]) -> Iterator[str]:
    """The same on the cluster that ``RAY_ADDRESS`` names, else on one that Ray starts on this machine.

    Each task has one processor. The repositories and hpushim must be at the same paths on every node; the results come here.
    """
    try:
        ray: Any = __import__("ray")
    except ImportError:
        raise HpushimError("--engine ray needs Ray; pip install 'hpushim[ray]'") from None
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    task = ray.remote(num_cpus=1, max_retries=2)(assess)
    waiting: dict[Any, str] = {}
    left = list(reversed(jobs))
    bound = most or max(2 * int(ray.cluster_resources().get("CPU", 1)), 2)
    while waiting or left:
        while left and len(waiting) < bound:
            job = left.pop()
            waiting[task.remote(job)] = job.name
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        name = waiting.pop(ready)
        try:
            keep(ray.get(ready))
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            keep(Done(name, failed=f"its Ray task failed: {first}"))
        yield name
