"""Values from Python: what is not possible is refused by name, and every table is read by other libraries."""

import duckdb
import numpy as np
import polars
import pyarrow
import pytest
import tributary


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"seconds": "3"}, TypeError, r"seconds: '3' \(str\) given; wanted a whole number from 2 to 3600"),
        ({"seconds": 1.5}, TypeError, r"seconds: 1\.5 \(float\) given"),
        ({"seconds": True}, TypeError, r"seconds: True \(bool\) given"),
        ({"seconds": 1}, ValueError, r"seconds: 1 \(int\) given; wanted a whole number from 2 to 3600"),
        ({"seed": -1}, ValueError, r"seed: -1 \(int\) given"),
        ({"seed": 2**200}, TypeError, r"seed: a value of type int given"),
        ({"rtt": 20}, TypeError, r"rtt: 20 \(int\) given; wanted a time with its unit"),
        ({"rtt": "20"}, ValueError, r"rtt: '20' \(str\) given; wanted a time with its unit, such as '20 ms'"),
        ({"queue": "300"}, ValueError, r"queue: '300' given; wanted a size such as '300 kB'"),
        ({"sheduler": "blest"}, TypeError, r"run\(\) has no argument `sheduler`; known: transport, scheduler"),
        ({"transport": "fdbt"}, ValueError, r"unknown transport `fdbt`"),
        ({"scheduler": 3}, TypeError, r"scheduler: 3 \(int\) given; wanted a name, or a class of your own"),
        ({"size": 100}, ValueError, r"add workload='object'"),
    ],
)
def test_arguments_of_a_run(options, error, told):
    with pytest.raises(error, match=told):
        tributary.run("los", **options)


def problem(**changed):
    two = [[9000, 3000]] * 2
    given = {"sizes": two, "mse": [[1.0, 20.0]] * 2, "seen": [1.0, 0.1], "weight": [0.9, 0.1]}
    return {**given, "concealed_mse": [900.0] * 2, "capacity": [13_000.0], **changed}


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"sizes": [[9000, "x"], [9000, 3000]]}, TypeError, r"sizes\[0\]\[1\]: 'x' \(str\) given"),
        ({"sizes": [[9000, 3000.5], [9000, 3000]]}, TypeError, r"sizes\[0\]\[1\]: 3000\.5 \(float\) given"),
        ({"mse": [[1.0, 20.0]]}, ValueError, r"mse: 1 values given; wanted 2, as many as sizes"),
        ({"mse": [[1.0], [1.0, 20.0]]}, ValueError, r"mse\[0\]: 1 values given; wanted 2, as many as sizes\[0\]"),
        ({"seen": [2.0, 0.1]}, ValueError, r"seen\[0\]: 2\.0 \(float\) given; wanted a number from 0 to 1"),
        ({"seen": np.zeros((2, 2))}, TypeError, r"seen\[0\]"),
        ({"capacity": [float("nan")]}, ValueError, r"capacity\[0\]: nan"),
        ({"capacity": [[1.0, 2.0], [1.0]]}, ValueError, r"capacity: 1 samples"),
        ({"allocator": "best"}, ValueError, r"allocator: there is no allocator `best`; known are fix"),
        ({"weight": None}, ValueError, r"weight: not given"),
    ],
)
def test_arguments_of_an_allocation(changed, error, told):
    with pytest.raises(error, match=told):
        tributary.allocate(**problem(**changed))


def test_allocations_take_arrays():
    lists = tributary.allocate(**problem())
    arrays = tributary.allocate(**{name: np.array(value) for name, value in problem().items()})
    assert lists.order == arrays.order
    assert lists.expected_mse >= lists.bound_mse
    assert sum(problem()["sizes"][tile][quality] for tile, quality in lists.order) == lists.bytes
    fix = tributary.allocate(**problem(allocator="fix"))
    assert fix.expected_mse >= lists.expected_mse


def test_viewers_share_a_capacity():
    viewer = {name: value for name, value in problem().items() if name != "capacity"}
    alone = tributary.allocate(**problem(capacity=[9000.0]))
    (one,) = tributary.allocate_together([viewer], capacity=[9000.0])
    assert (one.order, one.expected_mse) == (alone.order, alone.expected_mse)
    twice = tributary.allocate_together([viewer] * 2, capacity=np.array([24_000.0]), sharing="max-min")
    assert twice[0].choices == twice[1].choices
    assert sum(made.bytes for made in twice) <= 24_000
    with pytest.raises(ValueError, match="sharing: viewers cannot share by `fair`; known are sum, sum-db, max-min"):
        tributary.allocate_together([viewer], capacity=[1.0], sharing="fair")
    with pytest.raises(TypeError, match=r"viewers\[0\]: 3 \(int\) given; wanted a dict"):
        tributary.allocate_together([3], capacity=[1.0])


def test_a_network_code_decodes_from_any_packets_and_through_a_recoder():
    symbols = [bytes([number]) * 100 for number in range(8)]
    for random in (False, True):
        options = {"generation": 7, "key": bytes(range(32)), "random": random}
        coded = tributary.Encoder(symbols, **options).encode(14)
        recoder = tributary.Recoder(8, **options)
        for packet in coded[4:]:
            recoder.push(packet)
        decoder = tributary.Decoder(8, **options)
        complete = [decoder.push(packet) for packet in recoder.recode(10)]
        assert complete[-1]
        assert decoder.lacks == 0
        assert decoder.symbols() == symbols
    with pytest.raises(ValueError, match="a mix cannot be mixed again"):
        recoder.push(recoder.recode(1)[0])
    with pytest.raises(ValueError, match="symbols: 256 given; wanted 1 to 255"):
        tributary.Encoder([b"x"] * 256)
    with pytest.raises(ValueError, match="key"):
        tributary.Decoder(2, key=b"short")


def test_an_erasure_code_names_what_is_missing():
    code = tributary.Erasure(3, 2)
    with pytest.raises(ValueError, match="2 blocks are there, 3 are needed"):
        code.reconstruct([b"some", None, b"here", None, None])
    with pytest.raises(ValueError, match="one length"):
        code.encode([b"some", b"da", b"here"])
    with pytest.raises(TypeError, match=r"data\[0\]: 'some' \(str\) given; wanted bytes"):
        code.encode(["some", b"data", b"here"])


def test_traces_and_links(tmp_path):
    trace = tributary.Trace([0, 1, 2], [10.0, 0.0, 20.0])
    assert trace.period_s == 3
    assert trace.mean_mbps == 10
    (tmp_path / "walk.csv").write_text(trace.to_csv())
    assert tributary.Trace.read(tmp_path / "walk.csv").to_csv() == trace.to_csv()
    with pytest.raises(ValueError, match=r"walk\.txt: .*No such file"):
        tributary.Trace.read(tmp_path / "walk.txt")
    with pytest.raises(ValueError, match="rates_mbps: 1 values given; wanted 2, as many as times_s"):
        tributary.Trace([0, 1], [1.0])
    network = tributary.Network(tmp_path / "walk.csv", rtt="20 ms")
    (path,) = network.paths
    sent = network.transmit(path, np.arange(0, 0.01, 0.001), [1500] * 10)
    delays = [arrived - at for at, arrived in zip(sent["sent_s"], sent["arrived_s"], strict=True)]
    assert delays[0] == pytest.approx(0.010 + 1500 * 8 / 10e6)
    assert delays == sorted(delays)
    with pytest.raises(ValueError, match=r"times_s\[1\]: 0\.5 is before 1"):
        network.transmit(path, [1, 0.5], [100, 100])
    with pytest.raises(ValueError, match="there is no `lte`; known: walk"):
        network.trace("lte")


def test_head_movement(tmp_path):
    (tmp_path / "head.csv").write_text("time_s,yaw_deg,pitch_deg\n0,0,0\n1,90,10\n")
    head = tributary.HeadTrace.read(tmp_path / "head.csv", "plain")
    assert head.at(0.5)[0] == pytest.approx(45, abs=1)
    assert len(head.resampled(10)) == 11
    with pytest.raises(ValueError, match=r"samples\[1\]: .*wanted 3 or 4 numbers"):
        tributary.HeadTrace([(0, 0, 0), (1, 0)])
    with pytest.raises(ValueError, match="there is no head-movement format `best`"):
        tributary.HeadTrace.read(tmp_path / "head.csv", "best")


def test_other_libraries_read_a_table(tmp_path):
    table = tributary.run("los", transport="mptcp", seconds=3).seconds()
    arrow = pyarrow.table(table)
    assert arrow.column_names == table.column_names
    assert arrow.to_pydict() == table.to_pydict() == polars.DataFrame(table).to_dict(as_series=False)
    assert table.to_pandas()["goodput_mbps"].tolist() == table["goodput_mbps"]
    assert duckdb.sql("select count(*) from arrow").fetchall() == [(table.num_rows,)]
    table.to_parquet(tmp_path / "seconds.parquet")
    file = str(tmp_path / "seconds.parquet")
    assert duckdb.sql(f"select sum(goodput_mbps) from '{file}'").fetchall()[0][0] == pytest.approx(sum(table["goodput_mbps"]))
    with pytest.raises(KeyError, match="no column `x`; known: second"):
        table["x"]
    with pytest.raises(OSError, match="nowhere"):
        table.to_parquet(tmp_path / "nowhere" / "x.parquet")
