"""Probes: which targets there are, when each is asked, and which answer belongs to which question.

Three kinds of target. *control*: a frame that the switch returns at once, the control channel's own delay.
*route*: a frame that runs to the last switch and back. *host*: an ARP probe from the host's own switch.
All are timed by one clock, and the control channel's delay is taken off routes and hosts.
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
    """Something that answers probes. `control` is the target whose delay is taken off."""

    prepare: Prepare
    answers: Answers
    control: "Target | None"


class Prober:
    """All targets by key, asked in turn."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._targets: dict[object, Target] = {}
        self._asked: dict[int, Target] = {}
        self._order: deque[tuple[float, int]] = deque()
        self._number = 0

    def add(self, key: object, prepare: Prepare, control: Target | None = None) -> Target:
        """Adds a target, or changes the way to it and keeps its measurements."""
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = Target(prepare, Answers(), control)
        target.prepare, target.control = prepare, control
        return target

    def remove(self, key: object) -> None:
        self._targets.pop(key, None)

    def target(self, key: object) -> Target | None:
        return self._targets.get(key)

    def targets(self) -> list[object]:
        return list(self._targets)

    def ask(self, key: object) -> None:
        """Sends one probe to a target, unless the control channel's delay is still unknown."""
        target = self._targets.get(key)
        if target is None or (target.control is not None and target.control.answers.delay() is None):
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
        less = (target.control.answers.delay() or 0.0) if target.control is not None else 0.0
        return target if target.answers.handle_answer(number, now, less) is not None else None

    def handle_time(self, now: float) -> bool:
        """True when a target died."""
        while self._order and now - self._order[0][0] > LOST_SECONDS:
            _, number = self._order.popleft()
            self._asked.pop(number, None)
        died = [target.answers.handle_time(now) for target in self._targets.values()]
        return any(died)
