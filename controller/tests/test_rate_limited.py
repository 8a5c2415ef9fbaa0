"""The limit on log lines."""

import logging

from tributary_controller.rate_limited import LINES_PER_SECOND, RateLimited


def test_a_flood_of_one_message_is_counted_and_others_pass() -> None:
    now = 0.0
    limit = RateLimited(lambda: now)

    def said(text: str, *values: object) -> str | None:
        record = logging.LogRecord("test", logging.INFO, "", 0, text, values, None)
        return record.getMessage() if limit.filter(record) else None

    lines = [said("from %d", number) for number in range(LINES_PER_SECOND + 5)]
    assert lines[:LINES_PER_SECOND] == [f"from {number}" for number in range(LINES_PER_SECOND)]
    assert lines[LINES_PER_SECOND:] == [None] * 5
    assert said("other") == "other"
    now = 1.0
    assert said("from %d", 1) == "from 1 (and 5 more like this)"
    assert said("from %d", 2) == "from 2"
