"""The token's file, and which names are this server's."""

import os
import stat
from pathlib import Path

import pytest

from tributary_controller import access, cli


def test_a_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "run" / "token"
    made = access.token_in(file)
    assert len(made) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert access.token_in(file) == made, "a restart keeps the token"
    assert access.token_in(tmp_path / "other") != made
    assert os.listdir(file.parent) == ["token"]


def test_a_token_of_ones_own_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert access.token_in(file) == "0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["", "abc\n", "0123456789 abcdef", "0123456789abcdef\nmore", "x" * 5000, "0123456789abcdeé"]
)
def test_a_text_that_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(access.BadToken, match="at least 16"):
        access.token_in(file)


def test_a_file_that_others_can_read_or_replace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    for mode in (0o640, 0o604, 0o666):
        file.chmod(mode)
        with pytest.raises(access.BadToken, match="chmod 600"):
            access.token_in(file)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(access.BadToken, match="may write to"):
        access.token_in(shared / "token")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for unusable in (tmp_path, tmp_path / "pipe", file / "below"):
        with pytest.raises(access.BadToken, match="--token-file"):
            access.token_in(unusable)


def test_the_default_file_is_in_the_directory_of_control_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert access.default_token_file(8181) == Path("/run/user/7/tributary/controller-8181.token")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert access.default_token_file(1) == Path(f"/tmp/tributary-{os.geteuid()}/controller-1.token")


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(access.Access("secret"))


@pytest.mark.parametrize(
    ("host", "socket", "ours"),
    [
        ("127.0.0.1:8181", "127.0.0.1", True),
        ("localhost", "::1", True),
        ("[::1]:80", "::1", True),
        ("[0:0::1]", "::1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("named.example", "10.0.0.1", True),
        ("localhost", "10.0.0.1", False),
        ("10.0.0.2", "10.0.0.1", False),
        ("2130706433", "127.0.0.1", False),
        ("::1", "::1", False),
        ("user@127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1:x", "127.0.0.1", False),
        ("127.0.0.1/", "127.0.0.1", False),
        ("named.example.", "10.0.0.1", False),
    ],
)
def test_names_of_this_server(host: str, socket: str, ours: bool) -> None:
    assert access.names_this(host, socket, frozenset({"named.example"})) is ours


def test_names_for_this_server_are_read() -> None:
    assert cli.hostname("Controller.Example") == "controller.example"
    assert cli.hostname("[fd00::1]") == "fd00::1"
    for bad in ("", "a:80", "http://a", "a/b"):
        with pytest.raises(cli.Unusable, match="--host"):
            cli.hostname(bad)
