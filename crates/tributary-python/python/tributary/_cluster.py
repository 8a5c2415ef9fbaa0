"""Sweeps on a cluster: the shards of a plan as tasks of dask.distributed.

A shard is the same plain call on one machine. Its finished runs are lines of a file in the directory that all workers share, so a task that
was lost with its worker continues from them on another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ._native import sweep as sweep_here

if TYPE_CHECKING:
    from ._native import Sweep

# Shards of each core: enough that the last ones end at about the same time.
_SHARDS_PER_CORE = 4


def sweep(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    shards: int | None = None,
    shard: str | None = None,
    merge: Iterable[str] = (),
    jobs: int | None = None,
    quick: bool = False,
    held_back: bool = False,
    limit: int | None = None,
    progress: Callable[[float, str], object] | None = None,
) -> Sweep:
    """Make the simulated runs of a plan: here on all cores, or on a cluster of dask.distributed.

    Finished runs are kept in `out`, as by ``tributary-lab sweep``, and found by the contents of their settings: a sweep that was stopped
    continues from them, whatever the number of shards. Writes ``runs`` and ``sweep`` as CSV and Parquet into `out`.

    Parameters
    ----------
    plan : str or os.PathLike
        A plan (a ``.toml`` file), or the name of a paper of the laboratory.
    out : str or os.PathLike
        Directory for finished runs and tables; it is made.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, or ``"local"`` for a cluster of processes on this machine. Its
        workers need this package, and see `plan` and `out` under the same names. Default: no cluster.
    shards : int, optional
        Parts of the plan on a cluster; default four for each core of it.
    shard : str, optional
        Only this part, such as ``"1/4"``; not on a cluster.
    merge : iterable of str, optional
        Directories with finished runs of the same plan to reuse.
    jobs : int, optional
        Runs at the same time on this machine; default one per core. On a cluster each shard makes one at a time.
    quick, held_back : bool, optional
        The plan's quick matrices; the held-back seeds instead of the others.
    limit : int, optional
        Refuse a plan with more runs; default 100000.
    progress : callable, optional
        Called with the share that is done, 0 to 1, and a text: a run's title, or on a cluster a shard with its number of runs and seconds.

    Returns
    -------
    Sweep
        All runs that `out` has.

    Raises
    ------
    TypeError, ValueError
        The plan or an argument is not possible; the text names file and line, or the argument.
    OSError
        The directory cannot be used, or no scheduler answers.
    """
    merged = [str(directory) for directory in merge]
    options: dict[str, Any] = {"merge": merged, "quick": quick, "held_back": held_back, "limit": limit}
    if scheduler is None:
        if shards is not None:
            raise ValueError("shards: a setting of a cluster; add scheduler='local', or leave it out")
        return sweep_here(plan, out, shard=shard, jobs=jobs, progress=progress, **options)
    if shard is not None or jobs is not None:
        raise ValueError("shard and jobs are settings of one machine; leave them out, or leave out scheduler")
    if shards is not None and shards < 1:
        raise ValueError(f"shards: {shards} given; wanted 1 or more")
    _on_cluster(os.fspath(plan), os.path.abspath(out), scheduler, shards, options, progress)
    return sweep_here(plan, out, **options)


def _one(plan: str, out: str, shard: str, options: dict[str, Any]) -> tuple[str, int, float]:
    """Make one shard's missing runs on a worker: the shard, how many were made, and the seconds they took."""
    began = time.monotonic()
    made = sweep_here(plan, out, shard=shard, jobs=1, **options)
    return shard, made.now, time.monotonic() - began


def _on_cluster(
    plan: str,
    out: str,
    scheduler: str,
    shards: int | None,
    options: dict[str, Any],
    progress: Callable[[float, str], object] | None,
) -> None:
    try:
        from distributed import Client, LocalCluster, as_completed  # pyright: ignore
    except ImportError as error:
        raise ImportError("a sweep on a cluster needs dask.distributed: pip install 'tributary[cluster]'") from error
    distributed: Any = (Client, LocalCluster, as_completed)
    connect, local, completed = distributed
    if os.path.exists(plan):
        plan = os.path.abspath(plan)
    cluster = local(threads_per_worker=1, dashboard_address=None) if scheduler == "local" else None
    try:
        try:
            client = connect(cluster if cluster is not None else scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise OSError(f"scheduler: nothing answers at {scheduler} ({error}); start one with `dask scheduler`") from error
        try:
            cores = sum(client.nthreads().values())
            count = shards or max(1, cores) * _SHARDS_PER_CORE
            # Each shard once; a task of the same name would be taken from the cluster's memory.
            tasks = [client.submit(_one, plan, out, f"{index + 1}/{count}", options, pure=False) for index in range(count)]
            for done, task in enumerate(completed(tasks), start=1):
                shard, runs, seconds = task.result()
                if progress is not None:
                    progress(done / count, f"shard {shard}: {runs} runs in {seconds:.1f} s")
        finally:
            client.close()
    finally:
        if cluster is not None:
            cluster.close()
