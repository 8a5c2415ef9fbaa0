"""The statistics of the measurements, and what they refuse."""

import pytest
from tributary.measure import Ratio, interval, main


def test_the_interval_of_the_median_is_the_widest_that_is_needed():
    # Of 6 values the extremes cover the median with 96.9 %, of 11 the second ones with 98.8 %, of 12 the third ones with 96.1 %.
    assert interval([1, 2, 3, 4, 5, 6]) == (1, 6)
    assert interval(list(range(1, 12))) == (2, 10)
    assert interval(list(range(1, 13))) == (3, 10)


@pytest.mark.parametrize(("one", "verdict"), [(1.0, "holds"), (1.2, "fails")])
def test_a_verdict_needs_the_whole_interval(one, verdict):
    times = [(one, 1.0)] * 5
    assert Ratio("", "", [*times, (one, 1.0)], at_most=1.05).verdict() == verdict
    assert Ratio("", "", [*times, (1.1, 1.0), (1.0, 1.0)], at_most=1.05).verdict() == "undecided"
    faster = Ratio("", "", [(1.0, one * 2)] * 6, at_least=2.2, inverse=True)
    assert faster.verdict() == ("fails" if one == 1.0 else "holds")


def test_a_machine_with_other_work_writes_no_table(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("os.getloadavg", lambda: (0.9, 0.9, 0.9))
    with pytest.raises(SystemExit):
        main(["--program", "nothing", "--page", str(tmp_path / "page.md")])
    assert "--page: the machine's load is 0.90" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [["--rounds", "5"], ["--seconds", "1"]])
def test_what_gives_no_result_is_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        main(["--program", "nothing", *wrong])
    assert wrong[0] in capsys.readouterr().err
