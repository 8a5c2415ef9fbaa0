"""Runs, sweeps, rankings and playbacks; the numbers are those of the laboratory's program."""

import threading
import time

import pytest
import tributary

PLAN = """
name = "small"
world = "sim"
[[matrix]]
world = "sim"
scenarios = ["los"]
transports = ["wifi", "fbdt"]
seeds = ["1-3"]
seconds = 3
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_the_same_seed_gives_the_same_run_alone_and_among_many():
    runs = [tributary.Run("blink-random", transport="mptcp", seconds=2, seed=seed) for seed in (1, 2, 1)]
    alone = runs[0].run()
    first, other, again = tributary.run_all(runs)
    assert alone.event_log_hash == first.event_log_hash == again.event_log_hash
    assert other.event_log_hash != alone.event_log_hash


def test_other_threads_work_during_a_run():
    ticks = 0
    over = threading.Event()

    def count():
        nonlocal ticks
        while not over.wait(0.001):  # real time: another thread must get its turns while the run holds no lock
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    tributary.run("los", transport="fbdt", seconds=30)
    took = time.monotonic() - began
    over.set()
    thread.join()
    assert ticks > 50 * took, (ticks, took)


def test_results_have_what_the_program_prints():
    result = tributary.run("los", transport="mptcp/blest", congestion="reno", rtt="30 ms", queue="300 kB", seconds=3)
    told = result.to_dict()
    assert (result.transport, result.congestion, told["rtt_ms"], told["queue"]) == ("mptcp/blest", "reno", 30, "300 kB")
    assert result.goodput_mbps == told["goodput"]["mean_mbps"]
    assert result.seconds()["goodput_mbps"] == told["goodput"]["per_second_mbps"]
    assert set(result.links().column_names) == {"time_s", "wifi", "wigig"}
    objects = tributary.run("los", workload="object", size=10_000, count=3, pause="10 ms", seconds=3)
    assert objects.goodput_mbps is None
    assert objects.seconds().num_rows == 0


def test_a_sweep_continues_from_finished_runs_in_shards(plan, tmp_path):
    out = tmp_path / "out"
    seen = []
    part = tributary.sweep(plan, out, shard="1/2", progress=lambda share, text: seen.append((share, text)))
    assert (part.planned, part.cells, part.now, part.before) == (6, 3, 3, 0)
    assert [share for share, _ in seen] == [1 / 3, 2 / 3, 1.0]
    whole = tributary.sweep(plan, out)
    assert (whole.cells, whole.before, whole.now, whole.failed) == (6, 3, 3, 0)
    assert whole.runs.num_rows == 6
    assert "goodput" in whole.spreads["metric"]
    assert (out / "runs.parquet").exists()


def test_an_exception_of_progress_ends_a_sweep_and_keeps_what_is_finished(plan, tmp_path):
    def stop(share, text):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        tributary.sweep(plan, tmp_path / "out", jobs=1, progress=stop)
    rest = tributary.sweep(plan, tmp_path / "out")
    assert 1 <= rest.before <= 2
    assert rest.before + rest.now == 6


def test_a_ranking_of_measured_traces(tmp_path):
    (tmp_path / "radios.csv").write_text("time (s),wifi (Mbit/s),lte (Mbit/s)\n0,20,10\n5,2,12\n10,20,8\n15,20,8\n")
    network = tributary.Network(tmp_path / "radios.csv")
    assert network.paths == ["wifi", "lte"]
    ranking = tributary.compare(network, transports=["tcp:wifi", "session/fbdt"], seeds=3, seconds=5, out=tmp_path)
    assert ranking.table["transport"] == ["session/fbdt", "tcp:wifi"]
    assert ranking.table["against_single"] == ["better", None]
    assert ranking.runs.num_rows == 6
    assert (tmp_path / "plan.toml").exists()


def test_playbacks_follow_their_rule():
    lowest = tributary.play("los", rule="throughput", ladder_mbps=[1, 2], seconds=20, transport="tcp:wifi")
    assert lowest.stalled_s == 0
    assert set(lowest.segments()["bitrate_mbps"]) <= {1.0, 2.0}
