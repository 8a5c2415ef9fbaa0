"""Schedulers written in Python in sweeps, rankings and on a cluster: results, failures, and how their finished runs are found."""

import signal
import threading
import time
import traceback

import pytest
import tributary
from tributary._identity import identity

STEP = 1

PLAN = """
name = "own"
world = "sim"
[[matrix]]
world = "sim"
scenarios = ["los"]
transports = ["mptcp/round-robin", "mptcp/own", "session/own"]
seeds = ["1-4"]
seconds = 2
"""


class RoundRobin(tributary.Scheduler):
    last = -1

    def assign(self, now, window, subflows):
        ready = [s for s in subflows if s.room]
        if not ready:
            return None
        chosen = min((s for s in ready if s.id > self.last), key=lambda s: s.id, default=ready[0])
        self.last = chosen.id
        return chosen


class Raises(RoundRobin):
    def assign(self, now, window, subflows):
        if now > 1:
            raise ZeroDivisionError("of my own")
        return super().assign(now, window, subflows)


class UnsendableError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class RaisesUnsendable(RoundRobin):
    def assign(self, now, window, subflows):
        raise UnsendableError("this", "that")


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def goodputs(swept):
    rows = swept.runs.to_pydict()
    return {key: value for *key, value in zip(rows["transport"], rows["seed"], rows["goodput"], strict=True) for key in [tuple(key)]}


def test_a_sweep_makes_the_runs_that_its_transport_names(plan, tmp_path):
    swept = tributary.sweep(plan, tmp_path / "out", scheduler=RoundRobin)
    found = goodputs(swept)
    assert len(found) == 12
    for transport in ("mptcp", "session"):
        run = tributary.run("los", transport=transport, scheduler=RoundRobin, seconds=2, seed=3)
        assert found[f"{transport}/own", 3] == pytest.approx(run.goodput_mbps, abs=1e-5)
    again = tributary.sweep(plan, tmp_path / "out", scheduler=RoundRobin)
    assert (again.before, again.now) == (12, 0)


def test_a_changed_class_has_no_finished_runs(plan, tmp_path):
    class Changed(RoundRobin):
        batch = 65536

    tributary.sweep(plan, tmp_path / "out", scheduler=RoundRobin)
    changed = tributary.sweep(plan, tmp_path / "out", scheduler=Changed)
    assert (changed.before, changed.now, changed.outdated) == (4, 8, 8), "the named runs stay"


def test_the_identity_follows_what_a_class_uses(monkeypatch):
    def made(step):
        class Uses(tributary.Scheduler):
            def assign(self, now, window, subflows):
                return subflows[step % STEP]

        return Uses

    assert identity(made(2)) == identity(made(2)) != identity(made(3))
    before = identity(made(2))
    monkeypatch.setitem(globals(), "STEP", 7)
    assert identity(made(2)) != before
    lock = made(threading.Lock())
    with pytest.raises(TypeError, match=r"Uses\.assign: step uses a lock"):
        identity(lock)


def test_what_is_not_possible_is_named(plan, tmp_path):
    with pytest.raises(ValueError, match=r"mptcp/own.*scheduler of your own.*scheduler=CLASS"):
        tributary.sweep(plan, tmp_path / "out")
    plan.write_text(PLAN.replace(', "mptcp/own", "session/own"', ""))
    with pytest.raises(ValueError, match=r"the plan does not use it; add \"mptcp/own\" or \"session/own\""):
        tributary.sweep(plan, tmp_path / "out", scheduler=RoundRobin)
    with pytest.raises(TypeError, match="wanted a class"):
        tributary.sweep(plan, tmp_path / "out", scheduler=lambda seed: RoundRobin(seed))
    with pytest.raises(ValueError, match="tiles take a scheduler by name only"):
        tributary.compare("los", scheduler=RoundRobin, transports=["mptcp"], workload="tiles", seeds=2, seconds=12)


@pytest.mark.parametrize("where", [{}, {"cluster": "local", "shards": 2}], ids=["here", "on a cluster"])
def test_what_a_scheduler_raises_has_its_traceback_and_the_seed(plan, tmp_path, where):
    with pytest.raises(ZeroDivisionError, match="of my own") as caught:
        tributary.sweep(plan, tmp_path / "out", scheduler=Raises, **where)
    text = "".join(traceback.format_exception(caught.value))
    assert "in assign" in text
    assert "/own" in text
    assert "seed " in text


def test_an_exception_that_cannot_be_sent_keeps_its_traceback_and_the_seed(plan, tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)in assign.*this and that.*seed "):
        tributary.sweep(plan, tmp_path / "out", scheduler=RaisesUnsendable, cluster="local", shards=1)


def test_nonsense_has_the_seed_too(plan, tmp_path):
    class Bad(RoundRobin):
        def assign(self, now, window, subflows):
            return "wifi"

    with pytest.raises(ValueError, match=r"Bad\.assign returned 'wifi' \(str\)") as caught:
        tributary.sweep(plan, tmp_path / "out", scheduler=Bad)
    assert any("seed " in note for note in caught.value.__notes__)


def test_a_cluster_has_the_same_results_and_takes_a_class_of_a_function(plan, tmp_path):
    class Local(RoundRobin):
        pass

    here = tributary.sweep(plan, tmp_path / "here", scheduler=Local)
    there = tributary.sweep(plan, tmp_path / "there", scheduler=Local, cluster="local", shards=3)
    assert goodputs(here) == goodputs(there)
    assert there.now == 0, "the workers have made all of them"


def test_a_ranking_has_it_beside_the_others():
    ranking = tributary.compare("los", scheduler=RoundRobin, transports=["tcp:wifi", "mptcp/round-robin"], seeds=2, seconds=3)
    rows = ranking.table.to_pydict()
    means = dict(zip(rows["transport"], rows["mean"], strict=True))
    assert set(means) == {"tcp:wifi", "mptcp/round-robin", "mptcp/own", "session/own"}
    assert min(means["mptcp/own"], means["session/own"]) > means["tcp:wifi"]
    chosen = ["tcp:wifi", "session/own"]
    ranking = tributary.compare("los", scheduler=RoundRobin, transports=chosen, seeds=2, seconds=3)
    assert set(ranking.table.to_pydict()["transport"]) == set(chosen)


def test_a_sweep_whose_scheduler_never_returns_can_be_interrupted(plan, tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = threading.Event()

    class Hangs(RoundRobin):
        def assign(self, now, window, subflows):
            if now > 1:
                begun_file.touch()
                while True:
                    pass
            return super().assign(now, window, subflows)

    begun_file = tmp_path / "begun"

    def interrupt():
        while not begun_file.exists() and not begun.is_set():
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tributary.sweep(plan, tmp_path / "out", scheduler=Hangs)
    finally:
        begun.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
