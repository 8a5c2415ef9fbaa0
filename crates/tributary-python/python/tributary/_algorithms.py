"""Base classes of algorithms written in Python.

A class need not be derived from them: the methods count. What an algorithm raises ends the run, and so does a value that is not possible;
the exception has a note that names the run and its seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from ._native import Ack, Loss, PlayerView, Subflow, Window

    Choice: TypeAlias = Subflow | int | tuple[Subflow | int, int] | None


class Scheduler:
    """A scheduler of the simulator's MPTCP or sessions: decides which subflow sends which segment.

    One is made for each end of a connection.

    Parameters
    ----------
    seed : int
        Seed for whatever the scheduler chooses at random, so that the run can be repeated.

    Attributes
    ----------
    batch : int
        Bytes that are numbered at a time, up to 64 MiB. Within a batch segments may be sent in any order.

    Examples
    --------
    >>> import tributary
    >>> class Fastest(tributary.Scheduler):
    ...     def assign(self, now, window, subflows):
    ...         return min((s for s in subflows if s.room), key=lambda s: s.srtt, default=None)
    >>> result = tributary.run("los", scheduler=Fastest, seconds=3, seed=1)
    >>> result.transport
    'mptcp/own:Fastest'
    >>> session = tributary.run("los", transport="session", scheduler=Fastest, seconds=3, seed=1)
    >>> session.transport, session.goodput_mbps > 50
    ('own:Fastest', True)
    """

    batch: int = 16384

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def assign(self, now: float, window: Window, subflows: tuple[Subflow, ...]) -> Choice:
        """Choose where the next segment goes.

        Called while segments wait and a subflow has room.

        Parameters
        ----------
        now : float
            Virtual time in seconds.
        window : Window
            The data.
        subflows : tuple of Subflow
            The subflows that are up.

        Returns
        -------
        Subflow, int, tuple or None
            The subflow for segment ``window.next``, or its id; with a second item, another segment of the batch, such as
            ``window.last``. ``None`` waits until something happens.
        """
        raise NotImplementedError

    def reinject(self, now: float, window: Window, subflows: tuple[Subflow, ...]) -> Choice:
        """Choose a segment to send again on another subflow.

        Called when nothing new can be sent, and before new data while only silent subflows carry segment ``window.first``.
        The returned subflow alone means segment ``window.first``. ``None``, the default, sends nothing again.
        """
        return None

    def on_event(self, now: float, kind: Literal["up", "down"], number: int) -> None:
        """Learn that subflow ``number`` came up or ended."""


class CongestionController:
    """A congestion control of TCP, also below MPTCP and sessions: decides how much may be in flight.

    One is made for each end of a subflow. Its attributes are read after each call.

    Parameters
    ----------
    mss : int
        Payload bytes of a full segment.
    initial_window : int
        First window in bytes.
    seed : int
        Seed for whatever it chooses at random.

    Attributes
    ----------
    window : float
        Bytes that may be in flight, at least ``mss``.
    slow_start_threshold : float or None
        In bytes; ``None`` until there is one.
    pacing_rate : float or None
        In bit/s; ``None`` leaves pacing to TCP.
    """

    slow_start_threshold: float | None = None
    pacing_rate: float | None = None

    def __init__(self, mss: int, initial_window: int, seed: int) -> None:
        self.mss = mss
        self.seed = seed
        self.window: float = initial_window

    def on_ack(self, ack: Ack) -> None:
        """Bytes were acknowledged."""
        raise NotImplementedError

    def on_loss(self, loss: Loss) -> None:
        """Data was lost: once per recovery, and for each time-out."""
        raise NotImplementedError

    def on_recovery_end(self, now: float) -> None:
        """The recovery is over."""


class BitrateRule:
    """A rule of the DASH player: decides the quality of each segment.

    Examples
    --------
    >>> import tributary
    >>> class Lowest(tributary.BitrateRule):
    ...     def choose(self, view):
    ...         return 0
    >>> tributary.play("los", rule=Lowest, seconds=20).switches
    0
    """

    def choose(self, view: PlayerView) -> int | tuple[int, float]:
        """Choose the quality of segment ``view.next``; with a second item, seconds to wait before it is requested."""
        raise NotImplementedError

    def abandon(self, view: PlayerView, quality: int, share: float, elapsed: float) -> int | None:
        """Choose the quality to request in place of a running download.

        Parameters
        ----------
        view : PlayerView
            The player.
        quality : int
            Quality of the download.
        share : float
            Part of it that has arrived, 0 to 1.
        elapsed : float
            Seconds since the request.

        Returns
        -------
        int or None
            ``None``, the default, continues the download.
        """
        return None
