"""Changes a network that ``tributary-lab emu run SCENARIO --control FILE`` emulates, while it runs.

Needs nothing of the rest of the package: the socket takes one line of JSON a connection and answers with another.

>>> from tributary.emulation import Emulation
>>> radios = Emulation("radios")  # the FILE of --control
>>> radios.set("wifi", rate_mbps=5, loss=0.02, direction="down")  # doctest: +SKIP
>>> radios.set("wifi")  # the scenario's again  # doctest: +SKIP
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, cast

__all__ = ["Emulation", "EmulationError", "Link"]

_PATIENCE = 5.0


class EmulationError(Exception):
    """Nobody listens at the socket, or the network refuses the change; then nothing has changed."""


@dataclass(frozen=True)
class Link:
    """One direction of a path, now.

    Attributes
    ----------
    path, direction
        The path's name, and ``"down"`` (towards the client) or ``"up"``.
    rate_mbps
        Its rate in Mbit/s.
    loss
        Long-run share of lost packets, 0 to 1.
    blocked
        Whether everything is dropped by a change.
    delivered_bytes, queue_bytes
        Bytes delivered since the start, and bytes in its queue.
    """

    path: str
    direction: str
    rate_mbps: float
    loss: float
    blocked: bool
    delivered_bytes: int
    queue_bytes: int


class Emulation:
    """A running emulation.

    Parameters
    ----------
    control
        The socket: the ``FILE`` of ``emu run --control FILE``.
    """

    def __init__(self, control: str | PathLike[str]) -> None:
        self._control = fspath(control)

    def links(self) -> list[Link]:
        """What every link is now.

        Raises
        ------
        EmulationError
            Nobody listens at the socket.
        """
        return self._ask({})

    def set(
        self,
        path: str,
        *,
        rate_mbps: float | None = None,
        loss: float | None = None,
        blocked: bool = False,
        direction: Literal["down", "up"] | None = None,
    ) -> list[Link]:
        """Put these values in place of the scenario's on a path, until the next change; what is not given is the scenario's.

        Parameters
        ----------
        path
            The path's name.
        rate_mbps
            A constant rate of IP packets, Mbit/s.
        loss
            Lose packets with this probability, independently.
        blocked
            Drop everything silently.
        direction
            Only this direction.

        Returns
        -------
        list[Link]
            What every link is afterwards.

        Raises
        ------
        EmulationError
            Nobody listens at the socket, the path is unknown, or a value is out of range.
        """
        asked = {"path": path, "direction": direction, "rate_mbps": rate_mbps, "loss": loss, "blocked": blocked}
        return self._ask({name: value for name, value in asked.items() if value is not None})

    def _ask(self, request: Mapping[str, object]) -> list[Link]:
        try:
            with socket.socket(socket.AF_UNIX) as stream:
                stream.settimeout(_PATIENCE)
                stream.connect(self._control)
                stream.sendall(json.dumps(request).encode() + b"\n")
                answer = cast("dict[str, Any]", json.loads(stream.makefile().readline()))
        except (OSError, ValueError) as error:
            way_out = "start the network with `tributary-lab emu run SCENARIO --control FILE`"
            raise EmulationError(f"{self._control}: {error}; {way_out}") from error
        if "error" in answer:
            raise EmulationError(str(answer["error"]))
        return [Link(**link) for link in cast("list[dict[str, Any]]", answer["links"])]
