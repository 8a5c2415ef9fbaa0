"""Measurements of one probed target: round-trip time, reachability, share of lost probes. Sans-IO; times in seconds.

A probe is sent every `PROBE_SECONDS`. RTT is the median of the last `WINDOW` answers, less the control channel's delay.
"""

from collections import deque
from statistics import median

PROBE_SECONDS = 0.1
# Answers in the median: the last second.
WINDOW = 10
# Silence that means death. With 10 probes a second, six in a row are lost; at 10 % loss both ways together that happens
# by chance once in 10^6 probes. Example: RTT 100 ms, last answer at 0.1 s after the cut, dead at 0.7 s.
DEAD_SECONDS = 0.6
# Answers in a row that mean life again.
ANSWERS_TO_LIVE = 3
# Probes that count for loss: 5 s. A path that loses a tenth each way shows more than 4 % after 2 to 3 s.
LOSS_WINDOW = 50
# A probe counts as lost when it is unanswered for so long, or when so many later ones have been answered.
LOST_SECONDS = 2.0
OVERTAKEN = 3


class Answers:
    """Sent and answered probes of one target."""

    def __init__(self) -> None:
        self._outstanding: dict[int, float] = {}
        self._delays: deque[float] = deque(maxlen=WINDOW)
        self._fates: deque[bool] = deque(maxlen=LOSS_WINDOW)
        # When the last answered probes were sent.
        self._answered: deque[float] = deque(maxlen=OVERTAKEN)
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
        self._delays.append(delay)
        self._fates.append(True)
        self._overtake(sent)
        self._last_answer = now
        self._in_row += 1
        if self._in_row >= ANSWERS_TO_LIVE and not self.alive:
            self.alive = True
            self.alive_since = now
            # What was lost while it was dead does not count.
            self._fates.clear()
        return delay

    def _overtake(self, sent: float) -> None:
        """A probe sent at `sent` was answered; probes stay in order, so what is much older will not be."""
        self._answered.append(sent)
        if len(self._answered) < OVERTAKEN:
            return
        oldest = min(self._answered)
        for number, at in list(self._outstanding.items()):
            if at >= oldest:
                break
            del self._outstanding[number]
            self._fates.append(False)

    def handle_time(self, now: float) -> bool:
        """True when the target dies at this moment."""
        for number, sent in list(self._outstanding.items()):
            if now - sent < LOST_SECONDS:
                break
            del self._outstanding[number]
            self._fates.append(False)
        if self.silent(now) < DEAD_SECONDS:
            return False
        died, self.alive = self.alive, False
        self._in_row = 0
        if died:
            self._delays.clear()
        return died

    def silent(self, now: float) -> float:
        """Seconds since the last answer, or since the first probe; 0 before it."""
        since = self._last_answer if self._last_answer is not None else self._first_probe
        return 0.0 if since is None else now - since

    def delay(self) -> float | None:
        return median(self._delays) if self._delays else None

    def lost(self) -> float | None:
        """Share of probes lost, both ways together; None before ten have a fate."""
        return self._fates.count(False) / len(self._fates) if len(self._fates) >= 10 else None

    def dead(self, now: float) -> bool:
        """True when it is not alive and has been silent for `DEAD_SECONDS`. A new target is neither alive nor dead."""
        return not self.alive and self.silent(now) >= DEAD_SECONDS


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
