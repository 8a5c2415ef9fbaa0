"""Sweeps and comparisons with a scheduler of the caller's own, and sweeps on a cluster: the shards of a plan as tasks of dask.distributed.

A shard is the same plain call on one machine. Its finished runs are lines of a file in the directory that all workers share, so a task that
was lost with its worker continues from them on another.
"""

from __future__ import annotations

import inspect
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._identity import identity
from ._native import compare as compare_here
from ._native import sweep as sweep_here

if TYPE_CHECKING:
    from ._algorithms import Scheduler
    from ._native import Network, Ranking, Sweep

# Shards of each core: enough that the last ones end at about the same time.
_SHARDS_PER_CORE = 4


def sweep(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scheduler: type[Scheduler] | None = None,
    cluster: str | None = None,
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
    scheduler : type[Scheduler], optional
        A class of your own for the plan's runs over the transport ``mptcp/own``. Their finished runs are found by what the class does,
        so a changed class has none. On one machine one run is made at a time; on a cluster as many as it has cores.
    cluster : str, optional
        Address of a scheduler of Dask, such as ``"tcp://10.0.0.1:8786"``, or ``"local"`` for a cluster of processes on this machine. Its
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
        The directory cannot be used, or no cluster answers.
    Exception
        Whatever `scheduler` raised, or ValueError if it returned something impossible; with its traceback, and a note with the run and its
        seed. Finished runs are kept.
    """
    merged = [str(directory) for directory in merge]
    options: dict[str, Any] = {"merge": merged, "quick": quick, "held_back": held_back, "limit": limit}
    own = None if scheduler is None else _own(scheduler)
    if cluster is None:
        if shards is not None:
            raise ValueError("shards: a setting of a cluster; add cluster='local', or leave it out")
        return sweep_here(plan, out, shard=shard, jobs=jobs, progress=progress, scheduler=own, **options)
    if shard is not None or jobs is not None:
        raise ValueError("shard and jobs are settings of one machine; leave them out, or leave out cluster")
    if shards is not None and shards < 1:
        raise ValueError(f"shards: {shards} given; wanted 1 or more")
    _on_cluster((os.fspath(plan), os.path.abspath(out)), own, (cluster, shards), options, progress)
    return sweep_here(plan, out, scheduler=own, **options)


def compare(
    network: Network | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    workload: Literal["bulk", "tiles", "dash", "messages", "objects"] = "bulk",
    scheduler: type[Scheduler] | None = None,
    seeds: int = 10,
    seconds: int | None = None,
    congestion: str = "cubic",
    transports: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Callable[[float, str], object] | None = None,
) -> Ranking:
    """Rank every transport over a network: each path alone, MPTCP and sessions with every scheduler, multipath QUIC.

    The runs and the verdicts are those of ``tributary-lab compare``.

    Parameters
    ----------
    network : Network, str or list of str
        The network, or what :class:`Network` takes, such as the traces of two radios.
    workload : {'bulk', 'tiles', 'dash', 'messages', 'objects'}, optional
        What is sent; default ``bulk``.
    scheduler : type[Scheduler], optional
        A class of your own, ranked beside the others as the transports ``mptcp/own`` and ``session/own``, or as the one of them that
        `transports` has; not with ``tiles``.
    seeds : int, optional
        Seeds of every transport, 2 to 999; default 10.
    seconds : int, optional
        Seconds of each run; default the network's length over the number of seeds, 15 to 30.
    congestion : str, optional
        Congestion control of every subflow; default ``cubic``.
    transports : iterable of str, optional
        These instead of all of :func:`transports`.
    out : str or os.PathLike, optional
        Directory for the plan, the finished runs and their tables, from which a comparison continues; default none is kept.
    jobs, progress : optional
        As of :func:`sweep`.

    Raises
    ------
    Exception
        As :func:`sweep`.

    Examples
    --------
    >>> ranking = tributary.compare("los", transports=["tcp:wifi", "session/fbdt"], seeds=2, seconds=3)
    >>> ranking.table["transport"][0]
    'session/fbdt'
    """
    own = None if scheduler is None else _own(scheduler)
    options: dict[str, Any] = {"workload": workload, "seeds": seeds, "seconds": seconds, "congestion": congestion}
    return compare_here(network, scheduler=own, transports=transports, out=out, jobs=jobs, progress=progress, **options)


def _own(scheduler: Any) -> tuple[type, str, str]:
    """The class, its name, and the text by which its finished runs are found."""
    if isinstance(scheduler, str):
        raise TypeError(f"scheduler: {scheduler!r} (str) given; wanted a class of your own. A cluster's address is cluster={scheduler!r}")
    if not inspect.isclass(scheduler):
        raise TypeError(f"scheduler: {scheduler!r} given; wanted a class, because finished runs are found by its code")
    return scheduler, scheduler.__name__, identity(scheduler)


def _one(plan: str, out: str, shard: str, own: tuple[bytes, str, str] | None, options: dict[str, Any]) -> tuple[str, int, float]:
    """Make one shard's missing runs on a worker: the shard, how many were made, and the seconds they took."""
    began = time.monotonic()
    if own is not None:
        try:
            options = {**options, "scheduler": (pickle.loads(own[0]), *own[1:])}
        except ImportError as error:
            error.add_note(f"scheduler: {own[1]} is in a module that this worker cannot import; install it there")
            raise
    try:
        made = sweep_here(plan, out, shard=shard, jobs=1, **options)
    except Exception as error:
        # An exception that cannot be sent as it is would lose its traceback and the seed.
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise
    return shard, made.now, time.monotonic() - began


def _on_cluster(
    places: tuple[str, str],
    own: tuple[type, str, str] | None,
    on: tuple[str, int | None],
    options: dict[str, Any],
    progress: Callable[[float, str], object] | None,
) -> None:
    (plan, out), (address, shards) = places, on
    try:
        import cloudpickle  # pyright: ignore
        from distributed import Client, LocalCluster, as_completed  # pyright: ignore
    except ImportError as error:
        raise ImportError("a sweep on a cluster needs dask.distributed: pip install 'tributary[cluster]'") from error
    distributed: Any = (Client, LocalCluster, as_completed, cloudpickle)
    connect, local, completed, by_value = distributed
    # By value where workers could not import it: a class of a notebook or a script.
    sent = own and (by_value.dumps(own[0]), *own[1:])
    if os.path.exists(plan):
        plan = os.path.abspath(plan)
    cluster = local(threads_per_worker=1, dashboard_address=None) if address == "local" else None
    try:
        try:
            client = connect(cluster if cluster is not None else address, timeout="10s")
        except (OSError, ValueError) as error:
            raise OSError(f"cluster: nothing answers at {address} ({error}); start one with `dask scheduler`") from error
        try:
            cores = sum(client.nthreads().values())
            count = shards or max(1, cores) * _SHARDS_PER_CORE
            # Each shard once; a task of the same name would be taken from the cluster's memory.
            tasks = [client.submit(_one, plan, out, f"{index + 1}/{count}", sent, options, pure=False) for index in range(count)]
            # On this client's loop, not that of the caller's current client: a result lost with its worker is waited for again.
            for done, task in enumerate(completed(tasks, loop=client.loop), start=1):
                shard, runs, seconds = task.result()
                if progress is not None:
                    progress(done / count, f"shard {shard}: {runs} runs in {seconds:.1f} s")
        finally:
            client.close()
    finally:
        if cluster is not None:
            cluster.close()
