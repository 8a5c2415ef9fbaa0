"""Probes: the list of targets, when a probe is sent to each, and which answer belongs to which probe.

There are four kinds of target. *route*: a frame goes to the last switch and back. *host*: the host's own switch sends
it an ARP request. *echo*: an OpenFlow echo request. *loop*: a frame that the switch returns to the controller at once.

The measured delay of routes and hosts includes the delay of the control channel, which is subtracted. Echo measures it
too low, because a switch handles an echo request faster than a packet-in. Loop measures it too high, because a frame
from the controller passes the switch's main loop twice. The mean of both is subtracted.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tributary_controller.measure import LOST_SECONDS, Answers

# The connection to send on and the message that has probe number n; None when it cannot be sent.
Prepare = Callable[[int], "tuple[Sender, bytes] | None"]


class Sender(Protocol):
    def send(self, message: bytes) -> None: ...


@dataclass
class Target:
    """Something that answers probes. The mean delay of `controls` is subtracted from its own."""

    prepare: Prepare
    answers: Answers
    controls: tuple["Target", ...]

    def less(self) -> float | None:
        """Seconds to subtract; None while one of `controls` has no delay yet."""
        delays = [control.answers.delay() for control in self.controls]
        known = [delay for delay in delays if delay is not None]
        if len(known) < len(delays):
            return None
        return sum(known) / len(known) if known else 0.0


class Prober:
    """All targets by key, asked in turn."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._targets: dict[object, Target] = {}
        self._asked: dict[int, Target] = {}
        self._order: deque[tuple[float, int]] = deque()
        self._number = 0

    def add(self, key: object, prepare: Prepare, controls: tuple[Target, ...] = ()) -> Target:
        """Adds a target, or changes the way to it and keeps its measurements."""
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = Target(prepare, Answers(), controls)
        target.prepare, target.controls = prepare, controls
        return target

    def controls(self, dpid: int) -> tuple[Target, ...]:
        """What measures the control channel of a switch."""
        found = (self._targets.get(("echo", dpid)), self._targets.get(("loop", dpid)))
        return tuple(target for target in found if target is not None)

    def remove(self, key: object) -> None:
        self._targets.pop(key, None)

    def target(self, key: object) -> Target | None:
        return self._targets.get(key)

    def targets(self) -> list[object]:
        return list(self._targets)

    def ask(self, key: object) -> None:
        """Sends one probe to a target, unless the control channel's delay is still unknown."""
        target = self._targets.get(key)
        if target is None or target.less() is None:
            return
        # 16 bits, since an ARP probe has no room for more: repeats after minutes, not within LOST_SECONDS.
        self._number = (self._number + 1) & 0xFFFF
        prepared = target.prepare(self._number)
        if prepared is None:
            return
        sender, message = prepared
        now = self._clock()
        self._asked[self._number] = target
        self._order.append((now, self._number))
        target.answers.handle_sent(self._number, now)
        sender.send(message)

    def handle_answer(self, number: int, now: float, expected: Callable[[Target], bool]) -> Target | None:
        """Probe `number` came back at `now`. None when nobody asked, or `expected` refuses."""
        target = self._asked.get(number)
        if target is None or not expected(target):
            return None
        return target if target.answers.handle_answer(number, now, target.less() or 0.0) is not None else None

    def handle_time(self, now: float) -> bool:
        """True when a target died."""
        while self._order and now - self._order[0][0] > LOST_SECONDS:
            _, number = self._order.popleft()
            self._asked.pop(number, None)
        died = [target.answers.handle_time(now) for target in self._targets.values()]
        return any(died)
