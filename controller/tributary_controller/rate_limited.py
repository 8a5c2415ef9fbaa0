"""A limit on log lines, because strangers cause some of them: a flood of connections must not fill a disk."""

import logging
import time
from collections.abc import Callable

LINES_PER_SECOND = 20


class RateLimited(logging.Filter):
    """Passes 20 lines of each message in a second. The next line that passes says how many did not."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # By the message before its arguments: the second's begin, and the lines in it.
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        began, count = self._seen.get(record.msg, (now, 0))
        if now - began >= 1.0:
            if count > LINES_PER_SECOND:
                record.msg, key = f"{record.msg} (and {count - LINES_PER_SECOND} more like this)", record.msg
                self._seen[key] = (now, 1)
                return True
            began, count = now, 0
        self._seen[record.msg] = (began, count + 1)
        return count < LINES_PER_SECOND
