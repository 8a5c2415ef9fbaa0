"""The server's side of `lab.emulated`: a process in the server's network namespace, which stays until it is ended."""

import signal

from tributary_controller.lab.emulated import die_with_parent


def main() -> None:
    die_with_parent()
    signal.pause()


if __name__ == "__main__":
    main()
