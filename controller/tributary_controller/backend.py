"""What a backend offers to the REST interface. No network code."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from tributary_controller.events import EventBus

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class PathState:
    """One path at one moment. A value is None while it is unknown; no value is NaN or negative.

    `rtt_ms`: median of the last second, host to host. `loss`: share of packets lost, 0 to 1, in the worse direction.
    `random_loss`: share of probes lost in each direction while no queue was long. `rate_mbps`: what the path carries,
    in the busier direction. `at`: seconds since 1970 of the last measurement. `enabled`: False after removal; the path
    is measured further. `reason`: why it is down.
    """

    id: str
    local: str
    remote: str
    rtt_ms: float | None
    loss: float | None
    random_loss: float | None
    rate_mbps: float | None
    up: bool
    at: float | None
    enabled: bool
    reason: str | None
    via: tuple[str, ...]

    def document(self) -> dict[str, object]:
        return {
            "id": self.id,
            "local": self.local,
            "remote": self.remote,
            "rtt_ms": rounded(self.rtt_ms, 3),
            "loss": rounded(self.loss, 5),
            "random_loss": rounded(self.random_loss, 5),
            "rate_mbps": rounded(self.rate_mbps, 4),
            "up": self.up,
            "at": rounded(self.at, 3),
            "enabled": self.enabled,
            "reason": self.reason,
            "via": list(self.via),
        }


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


class Backend(Protocol):
    """Paths of one host or network. `add` and `remove` raise `Problem`."""

    name: str
    events: EventBus

    def paths(self) -> list[PathState]:
        """Every known path, removed ones too, in the order of their numbers."""
        ...

    async def add(self, local: Address, remote: Address) -> tuple[PathState, bool]:
        """Adds a path, or enables it again; True when it was unknown before."""
        ...

    async def remove(self, path_id: str) -> PathState:
        """Takes a path out of use. It stays measured where that is possible."""
        ...

    def health(self) -> dict[str, object]:
        """What works and what does not, as JSON. `ok` is always there."""
        ...
