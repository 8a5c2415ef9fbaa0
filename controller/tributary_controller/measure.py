"""Measurements of one probed target: round-trip time, reachability, share of lost probes. Sans-IO; times in seconds.

A probe is sent every `PROBE_SECONDS`. RTT is the median of the last `WINDOW` answers, less the control channel's delay.
`probes.toml` explains the constants; the simulator's prober reads the same file, and the cases of
`tests/data/probes.toml` are replayed with both.
"""

import tomllib
from collections import deque
from collections.abc import Callable
from importlib.resources import files
from statistics import median

PROBES = tomllib.loads(files(__package__).joinpath("probes.toml").read_text(encoding="utf-8"))
PROBE_SECONDS: float = PROBES["interval"]
WINDOW: int = PROBES["answers"]
DEAD_SECONDS: float = PROBES["dead"]
ANSWERS_TO_LIVE: int = PROBES["answers_to_live"]
LOST_SECONDS: float = PROBES["lost"]
OVERTAKEN: int = PROBES["overtaken"]
LOSS_PROBES: int = PROBES["loss_probes"]
LEAST_LOSS_PROBES: int = PROBES["least_loss_probes"]
LEAST_RTT_SECONDS: float = PROBES["least_rtt"]
SHORT_QUEUE_SECONDS: float = PROBES["short_queue"]


class Answers:
    """Sent and answered probes of one target."""

    def __init__(self) -> None:
        self._outstanding: dict[int, float] = {}
        # When the last answered probes were sent, and their delays.
        self._answered: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        # Whether each of the last probes was lost, and its delay; of a lost one the shorter of the answers around.
        self._fates: deque[tuple[bool, float]] = deque(maxlen=LOSS_PROBES)
        # Least delay of the present interval of `LEAST_RTT_SECONDS`, and of the one before; when the present one began.
        self._least: tuple[float | None, float | None] = (None, None)
        self._least_since = 0.0
        self._in_row = 0
        self._last_answer: float | None = None
        self._first_probe: float | None = None
        self.alive = False
        self.alive_since = 0.0

    def handle_sent(self, number: int, now: float) -> None:
        """Probe `number` is sent at `now`."""
        self._first_probe = self._first_probe if self._first_probe is not None else now
        self._outstanding[number] = now

    def handle_answer(self, number: int, now: float, less: float = 0.0) -> float | None:
        """Its answer; `less` is the part of the delay that is not the target's. Returns the delay, None for a
        repeated or unknown answer."""
        sent = self._outstanding.pop(number, None)
        if sent is None:
            return None
        delay = max(now - sent - less, 0.0)
        self._answered.append((sent, delay))
        self._learn_least(now, delay)
        self._fates.append((False, delay))
        if len(self._answered) >= OVERTAKEN:
            # Probes stay in order: what is older than this many answered ones will not be answered.
            oldest = min(at for at, _ in list(self._answered)[-OVERTAKEN:])
            self._lose_those(lambda sent: sent < oldest)
        self._last_answer = now
        self._in_row += 1
        if self._in_row >= ANSWERS_TO_LIVE and not self.alive:
            self.alive = True
            self.alive_since = now
            # What was lost while it was dead does not count.
            self._fates.clear()
        return delay

    def _learn_least(self, now: float, delay: float) -> None:
        present, before = self._least
        if present is not None and now - self._least_since >= LEAST_RTT_SECONDS:
            present, before = None, present
        if present is None:
            self._least_since = now
        self._least = (delay if present is None else min(present, delay), before)

    def _lose_those(self, are_lost: Callable[[float], bool]) -> None:
        """Outstanding probes that were sent at such times."""
        for number, sent in list(self._outstanding.items()):
            if not are_lost(sent):
                break
            del self._outstanding[number]
            before = max((answer for answer in self._answered if answer[0] < sent), default=(0.0, 0.0))
            after = min((answer for answer in self._answered if answer[0] > sent), default=(0.0, 0.0))
            self._fates.append((True, min(before[1], after[1])))

    def handle_time(self, now: float) -> bool:
        """True when the target dies at this moment."""
        self._lose_those(lambda sent: now - sent >= LOST_SECONDS)
        if self.silent(now) < DEAD_SECONDS:
            return False
        died, self.alive = self.alive, False
        self._in_row = 0
        if died:
            self._answered.clear()
            self._least = (None, None)
        return died

    def silent(self, now: float) -> float:
        """Seconds since the last answer, or since the first probe; 0 before it."""
        since = self._last_answer if self._last_answer is not None else self._first_probe
        return 0.0 if since is None else now - since

    def delay(self) -> float | None:
        return median(delay for _, delay in self._answered) if self._answered else None

    def lost(self) -> float | None:
        """Share of probes lost, both ways together; None before `LEAST_LOSS_PROBES` have a fate."""
        return self._share(sum(lost for lost, _ in self._fates))

    def lost_beside_short_queue(self) -> float | None:
        """The same without those lost while the queue was long, which say what fills it, not what the path loses."""
        least = min((delay for delay in self._least if delay is not None), default=0.0)
        largest = max((delay for lost, delay in self._fates if not lost), default=least)
        long = least + max((largest - least) / 2, SHORT_QUEUE_SECONDS)
        return self._share(sum(lost and delay <= long for lost, delay in self._fates))

    def _share(self, count: int) -> float | None:
        return count / len(self._fates) if len(self._fates) >= LEAST_LOSS_PROBES else None

    def dead(self, now: float) -> bool:
        """True when it is not alive and has been silent for `DEAD_SECONDS`. A new target is neither alive nor dead."""
        return not self.alive and self.silent(now) >= DEAD_SECONDS


def one_way(both_ways: float | None) -> float | None:
    """Share lost in each direction, of a probe that crosses a path there and back."""
    return None if both_ways is None else 1 - (1 - both_ways) ** 0.5


class Counter:
    """Rate of a counter that only grows, over the last readings. A smaller reading starts anew."""

    def __init__(self, readings: int = 3) -> None:
        self._readings: deque[tuple[float, int]] = deque(maxlen=readings)

    def handle_reading(self, now: float, value: int) -> None:
        if self._readings and value < self._readings[-1][1]:
            self._readings.clear()
        self._readings.append((now, value))

    def per_second(self) -> float | None:
        if len(self._readings) < 2:
            return None
        (start, low), (end, high) = self._readings[0], self._readings[-1]
        return (high - low) / (end - start) if end > start else None

    def grown(self) -> int:
        return self._readings[-1][1] - self._readings[0][1] if self._readings else 0

    def full(self) -> bool:
        return len(self._readings) == self._readings.maxlen


class LinkLoss:
    """Share of packets that one direction of a link loses, from the counters of its two ports, over five seconds.

    The two counters are read at slightly different moments, so few packets say little: below `FEWEST` it is None.
    """

    FEWEST = 500

    def __init__(self) -> None:
        self._sent = Counter(6)
        self._received = Counter(6)

    def handle_sent(self, now: float, packets: int) -> None:
        self._sent.handle_reading(now, packets)

    def handle_received(self, now: float, packets: int) -> None:
        self._received.handle_reading(now, packets)

    def lost(self) -> float | None:
        sent = self._sent.grown()
        if sent < self.FEWEST or not (self._sent.full() and self._received.full()):
            return None
        return min(max(1 - self._received.grown() / sent, 0.0), 1.0)
