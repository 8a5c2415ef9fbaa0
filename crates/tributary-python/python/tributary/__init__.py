"""Multipath transports in a simulator: runs, sweeps and rankings, and algorithms written in Python.

The runs are those of ``tributary-lab``: the same scenarios, the same models, and the same results for the same seeds. Results are
:class:`Table`, which pyarrow, pandas, polars and DuckDB read without a copy.

Examples
--------
>>> import tributary
>>> tributary.run("los", transport="fbdt", seconds=3, seed=1).goodput_mbps > 50
True
"""

from ._algorithms import BitrateRule, CongestionController, Scheduler
from ._cluster import compare, sweep
from ._native import (
    Ack,
    Allocation,
    CodedSymbol,
    Decoder,
    Encoder,
    Erasure,
    HeadTrace,
    Loss,
    Network,
    Playback,
    PlayerView,
    Ranking,
    Recoder,
    Result,
    Run,
    Sibling,
    SimulationError,
    Subflow,
    Sweep,
    Table,
    Trace,
    Window,
    __version__,
    allocate,
    allocate_together,
    allocators,
    bitrate_rules,
    congestion_controls,
    play,
    run,
    run_all,
    scenarios,
    schedulers,
    transports,
)

__all__ = [
    "Ack",
    "Allocation",
    "BitrateRule",
    "CodedSymbol",
    "CongestionController",
    "Decoder",
    "Encoder",
    "Erasure",
    "HeadTrace",
    "Loss",
    "Network",
    "Playback",
    "PlayerView",
    "Ranking",
    "Recoder",
    "Result",
    "Run",
    "Scheduler",
    "Sibling",
    "SimulationError",
    "Subflow",
    "Sweep",
    "Table",
    "Trace",
    "Window",
    "__version__",
    "allocate",
    "allocate_together",
    "allocators",
    "bitrate_rules",
    "compare",
    "congestion_controls",
    "play",
    "run",
    "run_all",
    "scenarios",
    "schedulers",
    "sweep",
    "transports",
]
