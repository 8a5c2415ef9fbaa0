"""Changes as they happen, for any number of listeners. A listener that does not read loses events and is told so."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger("tributary_controller")

# A listener further behind than this loses the oldest events.
QUEUE_LIMIT = 1000
LISTENER_LIMIT = 100


@dataclass(frozen=True)
class Event:
    """`kind` is a word such as `path-down`; `data` is JSON and names the thing."""

    number: int
    kind: str
    at: float
    data: Mapping[str, object]


class Listener:
    """One reader of the events. Only `EventBus` makes it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(QUEUE_LIMIT)
        self.lost = 0

    def offer(self, event: Event) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self.lost += 1
        self._queue.put_nowait(event)

    async def next(self) -> Event:
        return await self._queue.get()


class EventBus:
    """Numbers each event, logs it and gives it to every listener."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._number = 0

    def publish(self, kind: str, message: str, **data: object) -> None:
        """`message` is one sentence for the log and for people; `data` has the same facts as fields."""
        self._number += 1
        event = Event(self._number, kind, time.time(), {"message": message, **data})
        log.info(f"{kind}: %s", message)
        for listener in self._listeners:
            listener.offer(event)

    def full(self) -> bool:
        return len(self._listeners) >= LISTENER_LIMIT

    def empty(self) -> bool:
        return not self._listeners

    def listen(self) -> Listener:
        listener = Listener()
        self._listeners.add(listener)
        return listener

    def forget(self, listener: Listener) -> None:
        self._listeners.discard(listener)
