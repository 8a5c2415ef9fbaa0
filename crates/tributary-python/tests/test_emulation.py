"""Changes of a running emulation: what is asked, what is answered, and what is refused."""

import json
import socket
import threading
from pathlib import Path

import pytest
from tributary.emulation import Emulation, EmulationError, Link

LINK = {
    "path": "wifi",
    "direction": "down",
    "rate_mbps": 5.0,
    "loss": 0.02,
    "blocked": False,
    "delivered_bytes": 10,
    "queue_bytes": 0,
}


@pytest.fixture
def network(tmp_path: Path):
    """A socket that answers as the emulator does, and the requests that it got."""
    control, requests = tmp_path / "radios", []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen()

        def serve() -> None:
            while True:
                stream, _ = listener.accept()
                with stream:
                    request = json.loads(stream.makefile().readline())
                    requests.append(request)
                    if request.get("path") == "end":
                        return
                    known = request.get("path") in (None, "wifi")
                    answer = {"seconds": 1.5, "links": [LINK]} if known else {"error": "no path is called `lte`; there are wifi"}
                    stream.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield control, requests
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(control))
            last.sendall(b'{"path": "end"}\n')
        thread.join()


def test_changes_are_asked_for_and_links_are_returned(network):
    control, requests = network
    radios = Emulation(control)
    assert radios.links() == [Link(**LINK)]
    radios.set("wifi", rate_mbps=5, loss=0.02, direction="down")
    radios.set("wifi", blocked=True)
    assert requests == [
        {},
        {"path": "wifi", "rate_mbps": 5, "loss": 0.02, "direction": "down", "blocked": False},
        {"path": "wifi", "blocked": True},
    ]
    with pytest.raises(EmulationError, match="no path is called `lte`"):
        radios.set("lte")


def test_a_network_that_does_not_run_is_named_with_the_way_out(tmp_path):
    with pytest.raises(EmulationError, match=r"radios.*--control FILE"):
        Emulation(tmp_path / "radios").links()
