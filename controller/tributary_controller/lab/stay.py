"""The server's side of `lab.emulated`: says which process has the server's network namespace, and stays until ended."""

import signal
from pathlib import Path

from tributary_controller.lab.emulated import die_with_parent, meeting_place


def main() -> None:
    die_with_parent()
    place = Path(meeting_place())
    written = place.with_suffix(".new")
    written.write_text(str(Path("/proc/self").resolve().name))
    written.rename(place)
    signal.pause()


if __name__ == "__main__":
    main()
