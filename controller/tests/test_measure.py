"""RTT, loss and death of a probed target, in virtual time."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tributary_controller.measure import DEAD_SECONDS, LOST_SECONDS, PROBE_SECONDS, Answers, Counter, LinkLoss

CASES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "data" / "probes.toml").read_text())["case"]


def answered(answers: Answers, count: int, delay: float, start: float = 0.0, less: float = 0.0) -> float:
    """`count` probes, each answered after `delay`; returns the time after the last interval."""
    for number in range(count):
        now = start + number * PROBE_SECONDS
        answers.handle_sent(number + int(start * 100000), now)
        answers.handle_answer(number + int(start * 100000), now + delay, less)
    return start + count * PROBE_SECONDS


def test_rtt_is_the_median_less_the_control_delay() -> None:
    answers = Answers()
    now = answered(answers, 6, 0.020, less=0.001)
    answered(answers, 4, 0.500, start=now, less=0.001)
    delay = answers.delay()
    assert delay is not None
    assert delay == pytest.approx(0.019)


def test_a_target_lives_after_three_answers_and_dies_after_silence() -> None:
    answers = Answers()
    assert not answers.alive
    answered(answers, 2, 0.010)
    assert not answers.alive
    now = answered(answers, 1, 0.010, start=0.2)
    assert answers.alive
    assert not answers.handle_time(now)
    assert not answers.handle_time(0.21 + DEAD_SECONDS - 0.001)
    assert answers.handle_time(0.211 + DEAD_SECONDS)
    assert not answers.handle_time(0.26 + DEAD_SECONDS), "it dies once"
    assert answers.delay() is None
    assert answers.dead(0.26 + DEAD_SECONDS)


def test_a_new_target_is_neither_alive_nor_dead() -> None:
    answers = Answers()
    assert not answers.dead(100.0)
    answers.handle_sent(1, 100.0)
    assert not answers.dead(100.5)
    assert answers.dead(100.001 + DEAD_SECONDS)


def test_late_repeated_and_unknown_answers_count_once_or_not() -> None:
    answers = Answers()
    answers.handle_sent(1, 0.0)
    assert answers.handle_answer(2, 0.1) is None
    assert answers.handle_answer(1, 0.1) == pytest.approx(0.1)
    assert answers.handle_answer(1, 0.2) is None
    answers.handle_sent(3, 1.0)
    answers.handle_time(1.0 + LOST_SECONDS)
    assert answers.handle_answer(3, 1.1 + LOST_SECONDS) is None


def test_a_delay_is_never_negative() -> None:
    answers = Answers()
    answers.handle_sent(1, 0.0)
    assert answers.handle_answer(1, 0.001, less=0.005) == 0.0


def test_loss_is_the_share_of_unanswered_probes() -> None:
    answers = Answers()
    for number in range(100):
        answers.handle_sent(number, number * 0.1)
        if number % 5:
            answers.handle_answer(number, number * 0.1 + 0.01)
    answers.handle_time(9.9 + LOST_SECONDS)
    assert answers.lost() == pytest.approx(0.2)


def test_loss_is_known_soon_after_it_begins_and_soon_after_it_ends() -> None:
    answers = Answers()

    def lost_after(first: int, last: int, every: int) -> list[float]:
        """Probes of which every n-th is lost; what is reported after each."""
        seen = []
        for number in range(first, last):
            answers.handle_sent(number, number * 0.1)
            if number % every:
                answers.handle_answer(number, number * 0.1 + 0.05)
            answers.handle_time(number * 0.1 + 0.05)
            seen.append(answers.lost() or 0.0)
        return seen

    assert max(lost_after(1, 100, 1000)[20:]) == 0.0
    # Every fifth: the first loss is known 0.3 s later, and 5 s later all reported probes are of this time.
    begins = lost_after(100, 160, 5)
    assert begins[4] > 0.0
    assert begins[55] == pytest.approx(0.2, abs=0.03)
    assert lost_after(160, 220, 1000)[53] == 0.0


def test_probes_lost_in_an_outage_are_no_loss_after_it() -> None:
    answers = Answers()
    for number in range(100):
        answers.handle_sent(number, number * 0.1)
        if not 30 <= number < 60:
            answers.handle_answer(number, number * 0.1 + 0.05)
        answers.handle_time(number * 0.1 + 0.05)
        if number == 65:
            assert answers.alive
            assert answers.lost() is None
    assert answers.lost() == 0.0


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_loss_beside_a_long_queue_is_told_from_the_paths_own(case: dict[str, Any]) -> None:
    answers = Answers()
    delays = [delay for part in case["probes"] for _ in range(part["repeat"]) for delay in part["delays"]]
    sent = [(number * PROBE_SECONDS, 0, number) for number in range(len(delays))]
    answered = [(at + delays[number] / 1000, 1, number) for at, _, number in sent if delays[number]]
    for at, is_answer, number in sorted(sent + answered):
        answers.handle_time(at)
        if is_answer:
            answers.handle_answer(number, at)
        else:
            answers.handle_sent(number, at)
    for share, wanted in ((answers.lost(), "lost"), (answers.lost_beside_short_queue(), "random")):
        assert share == (pytest.approx(case[wanted], abs=0.021) if wanted in case else None), wanted


def test_a_counter_that_restarts_gives_no_negative_rate() -> None:
    counter = Counter()
    counter.handle_reading(0.0, 1000)
    counter.handle_reading(1.0, 3000)
    assert counter.per_second() == 2000
    counter.handle_reading(2.0, 10)
    assert counter.per_second() is None
    counter.handle_reading(3.0, 20)
    assert counter.per_second() == 10


def test_link_loss_needs_enough_packets() -> None:
    loss = LinkLoss()
    for second in range(11):
        loss.handle_sent(second, second * 10)
        loss.handle_received(second, second * 9)
    assert loss.lost() is None
    for second in range(11, 30):
        loss.handle_sent(second, second * 1000)
        loss.handle_received(second, second * 950)
    assert loss.lost() == pytest.approx(0.05)
