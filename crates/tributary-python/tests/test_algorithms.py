"""Schedulers, congestion controls and bitrate rules written in Python, and what happens when they fail."""

import signal
import threading
import traceback

import pytest
import tributary


class RoundRobin(tributary.Scheduler):
    last = -1

    def assign(self, now, window, subflows):
        ready = [s for s in subflows if s.room]
        if not ready:
            return None
        chosen = min((s for s in ready if s.id > self.last), key=lambda s: s.id, default=ready[0])
        self.last = chosen.id
        return chosen


def test_a_scheduler_uses_both_paths_and_is_deterministic():
    run = tributary.Run("los", scheduler=RoundRobin, seconds=3, seed=5)
    once, again = run.run(), run.run()
    assert once.event_log_hash == again.event_log_hash
    for path in ("wifi", "wigig"):
        assert sum(once.links()[path]) > 0
    assert once.transport == "mptcp/own:RoundRobin"
    assert run.identity is None
    assert tributary.run_all([run, tributary.Run("los", transport="mptcp", seconds=2)])[0].event_log_hash == once.event_log_hash


def test_a_session_uses_a_scheduler_of_ones_own_on_both_paths():
    run = tributary.Run("los", transport="session", scheduler=RoundRobin, seconds=3, seed=5)
    once = run.run()
    assert once.event_log_hash == run.run().event_log_hash
    assert once.transport == "own:RoundRobin"
    for path in ("wifi", "wigig"):
        assert sum(once.links()[path]) > 0
    named = tributary.run("los", transport="session/round-robin", seconds=3, seed=5)
    assert once.goodput_mbps > 0.7 * named.goodput_mbps
    default = tributary.run("los", transport="session", seconds=3, seed=5)
    assert once.event_log_hash != default.event_log_hash


def test_a_session_sends_again_what_a_silent_subflow_holds():
    asked = []

    class Recalls(RoundRobin):
        def assign(self, now, window, subflows):
            return super().assign(now, window, [s for s in subflows if not s.silent])

        def reinject(self, now, window, subflows):
            assert window.next is None
            asked.append(window.available)
            return next((s for s in subflows if s.room and not s.silent and s.id not in window.first_on), None)

    result = tributary.run("blackout", transport="session", scheduler=Recalls, seconds=10, seed=1)
    assert result.goodput_mbps > 0
    assert any(asked), "also while new data waits"


def test_a_scheduler_hears_events_and_may_take_from_both_ends():
    heard = []

    class BothEnds(tributary.Scheduler):
        batch = 256 * 1024

        def assign(self, now, window, subflows):
            for subflow in subflows:
                if subflow.room:
                    return (subflow, window.last) if subflow.rank else (subflow.id, window.next)
            return None

        def reinject(self, now, window, subflows):
            return next((s for s in subflows if s.room and s.id not in window.first_on), None)

        def on_event(self, now, kind, number):
            heard.append(kind)

    result = tributary.run("los", scheduler=BothEnds, seconds=3, workload="object", size=500_000, count=5)
    assert result.to_dict()["flows"][0]["complete"] > 0
    assert heard.count("up") == 4  # two subflows at each end


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (7, r"Bad\.assign returned 7 \(int\); wanted a Subflow with room, or its id"),
        ("wifi", r"Bad\.assign returned 'wifi' \(str\)"),
        ((0, 10**9), r"wanted a segment from window\.next to window\.last"),
        ((0, 1, 2), r"Bad\.assign returned \(\d, 1, 2\) \(tuple\)"),
    ],
)
@pytest.mark.parametrize("transport", ["mptcp", "session"])
def test_nonsense_of_a_scheduler_ends_the_run_and_names_the_seed(returned, told, transport):
    class Bad(tributary.Scheduler):
        def assign(self, now, window, subflows):
            first = next(s.id for s in subflows if s.room)
            return (first, *returned[1:]) if isinstance(returned, tuple) else returned

    with pytest.raises(ValueError, match=told) as caught:
        tributary.run("los", transport=transport, scheduler=Bad, seconds=3, seed=41)
    assert any("seed 41" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("transport", ["mptcp", "session"])
def test_an_exception_of_a_scheduler_has_its_traceback_and_the_seed(transport):
    class Raises(tributary.Scheduler):
        def assign(self, now, window, subflows):
            raise ZeroDivisionError("of my own")

    runs = [
        tributary.Run("los", transport="fbdt", seconds=2),
        tributary.Run("los", transport=transport, scheduler=Raises, seconds=2, seed=42),
    ]
    with pytest.raises(ZeroDivisionError, match="of my own") as caught:
        tributary.run_all(runs)
    text = "".join(traceback.format_exception(caught.value))
    assert "in assign" in text
    assert "seed 42" in text


@pytest.mark.parametrize("transport", ["mptcp", "session"])
@pytest.mark.parametrize("factory", [lambda seed: 1 / 0, lambda seed: object(), lambda: None])
def test_a_scheduler_that_cannot_be_made_ends_the_run(factory, transport):
    with pytest.raises((ZeroDivisionError, ValueError, TypeError)):
        tributary.run("los", transport=transport, scheduler=factory, seconds=2)


@pytest.fixture
def interrupts():
    """A shell that starts the tests in the background lets them ignore SIGINT; here it raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_a_scheduler_that_never_returns_can_be_interrupted():
    class Hangs(tributary.Scheduler):
        def assign(self, now, window, subflows):
            threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
            while True:
                pass

    with pytest.raises(KeyboardInterrupt):
        tributary.run("los", scheduler=Hangs, seconds=2)


@pytest.mark.usefixtures("interrupts")
def test_a_sweep_can_be_interrupted(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "long"\nworld = "sim"\n[[matrix]]\nworld = "sim"\nscenarios = ["los"]\n'
        'transports = ["fbdt"]\nseeds = ["1-5000"]\nseconds = 5\n'
    )
    begun = threading.Event()
    thread = threading.Thread(target=lambda: begun.wait() and signal.raise_signal(signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        tributary.sweep(plan, tmp_path / "out", progress=lambda share, text: begun.set())
    thread.join()


class Aimd(tributary.CongestionController):
    """NewReno in five lines."""

    def on_ack(self, ack):
        if not ack.in_recovery:
            slow = self.slow_start_threshold is None or self.window < self.slow_start_threshold
            self.window += ack.bytes if slow else self.mss * ack.bytes / self.window

    def on_loss(self, loss):
        self.window = self.slow_start_threshold = max(self.window / 2, 2 * self.mss)
        if loss.timeout:
            self.window = self.mss


@pytest.mark.parametrize("transport", ["tcp:wifi", "mptcp", "session/fbdt"])
def test_a_congestion_control_fills_the_path(transport):
    run = tributary.Run("los", transport=transport, congestion=Aimd, seconds=6)
    result = run.run()
    named = tributary.run("los", transport=transport, congestion="reno", seconds=6)
    assert result.congestion == "own:Aimd"
    assert result.goodput_mbps > 0.7 * named.goodput_mbps


@pytest.mark.parametrize("window", [0, -1.0, float("nan"), "big", 1e30])
def test_an_impossible_window_ends_the_run(window):
    class Bad(Aimd):
        def on_ack(self, ack):
            self.window = window

    with pytest.raises((ValueError, TypeError), match=r"Bad\.window") as caught:
        tributary.run("los", transport="tcp:wifi", congestion=Bad, seconds=2, seed=43)
    assert any("seed 43" in note for note in caught.value.__notes__)


def test_a_rule_chooses_and_its_nonsense_is_named():
    class Climbs(tributary.BitrateRule):
        def choose(self, view):
            return min(view.next, len(view.bitrates) - 1)

    played = tributary.play("los", rule=Climbs, ladder_mbps=[1, 2, 4], seconds=20)
    assert played.segments()["quality"][:3] == [0, 1, 2]

    class Bad(tributary.BitrateRule):
        def choose(self, view):
            return 9

    with pytest.raises(ValueError, match=r"Bad\.choose returned 9 \(int\); wanted a quality from 0 to 2") as caught:
        tributary.play("los", rule=Bad, ladder_mbps=[1, 2, 4], seconds=20, seed=44)
    assert any("seed 44" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("transport", ["fbdt", "mptcp/round-robin", "session/fbdt", "quic", "tcp:wifi", "mpquic"])
def test_only_mptcp_and_sessions_take_a_scheduler_of_ones_own(transport):
    with pytest.raises(ValueError, match=rf"scheduler: `{transport}` takes none of your own: take mptcp or session, or a name"):
        tributary.Run("los", transport=transport, scheduler=RoundRobin)
