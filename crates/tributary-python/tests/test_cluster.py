"""Sweeps on dask.distributed: a worker that is killed loses no finished run, and a cluster that is not there is named."""

import json
import os
import signal

import pytest
import tributary
from distributed import Client, LocalCluster

RUNS = 12
PLAN = f"""
name = "cluster"
world = "sim"
[[matrix]]
world = "sim"
scenarios = ["mobility"]
transports = ["fbdt"]
seeds = ["1-{RUNS}"]
seconds = 8
"""


def finished(out):
    """How often each finished run was made, by its key."""
    lines = [line for path in (out / "cluster-sim-cells").glob("*.jsonl") for line in path.read_bytes().split(b"\n")[:-1]]
    keys = [json.loads(line)["key"] for line in lines]
    return {key: keys.count(key) for key in keys}


def test_a_killed_worker_loses_no_finished_run(tmp_path):
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    killed = {}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:

        def kill_one(share, text):
            if not killed:
                pids = client.run(os.getpid)
                victim = next(iter(pids.values()))
                killed[victim] = set(finished(out))
                os.kill(victim, signal.SIGKILL)

        swept = tributary.sweep(plan, out, cluster=cluster.scheduler_address, shards=6, progress=kill_one)
    (before,) = killed.values()
    made = finished(out)
    assert 0 < len(before) < RUNS
    assert swept.failed == 0
    assert swept.runs.num_rows == len(made) == RUNS
    assert all(made[key] == 1 for key in before), "a finished run was made again"


def test_the_same_runs_as_without_a_cluster(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace(f"1-{RUNS}", "1-4").replace("seconds = 8", "seconds = 2"))
    here = tributary.sweep(plan, tmp_path / "here").runs.to_pydict()
    there = tributary.sweep(plan, tmp_path / "there", cluster="local", shards=2).runs.to_pydict()
    assert here == there


def test_what_is_not_possible_is_named(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with pytest.raises(OSError, match=r"cluster: nothing answers at tcp://127\.0\.0\.1:9"):
        tributary.sweep(plan, tmp_path, cluster="tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match="shards: a setting of a cluster"):
        tributary.sweep(plan, tmp_path, shards=3)
    with pytest.raises(ValueError, match="shard and jobs are settings of one machine"):
        tributary.sweep(plan, tmp_path, cluster="local", shard="1/2")
    with pytest.raises(TypeError, match=r"A cluster's address is cluster='tcp://127\.0\.0\.1:9'"):
        tributary.sweep(plan, tmp_path, scheduler="tcp://127.0.0.1:9")
