"""What a connection to PostgreSQL asks for, with a server and with a pooler before it."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from fairlead import Failure
from fairlead.store import open_store
from fairlead.store.link import connect
from servers import Postgres

_CIPHERS = (80877103, 80877104)
_SHOWN = ("tcp_keepalives_idle", "tcp_user_timeout", "lock_timeout")


def _startup(line: socket.socket) -> bytes:
    """What a client says before all else; it may ask whether the line can be ciphered, and is told that it cannot."""
    while True:
        size, code = struct.unpack("!II", _exactly(line, 8))
        rest: bytes = _exactly(line, size - 8)
        if code not in _CIPHERS:
            return struct.pack("!II", size, code) + rest
        line.sendall(b"N")


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def test_the_request_for_a_connection_says_already_when_silence_means_that_its_machine_is_gone() -> None:
    """A machine that vanished right after it was connected kept its connection, and all it locked, for two hours."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as client:
        port = server.getsockname()[1]
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?keepalives_idle=7&options=-c%20lock_timeout%3D9s"
        opening = client.submit(open_store, url=url)
        line, _ = server.accept()
        with line:
            said = _startup(line)
        with pytest.raises(Failure):
            opening.result()
    words = said.split(b"options\0")[1].split(b"\0")[0].split(b"-c ")
    settings = dict(
        word.strip().split(b"=") for word in words if word
    )  # as PostgreSQL does: the last one counts
    assert settings[b"tcp_keepalives_idle"] == b"7"
    assert settings[b"tcp_user_timeout"] == b"20000"
    assert settings[b"lock_timeout"] == b"9s"


def test_a_pooler_that_takes_no_options_is_told_them_in_a_statement_and_asked_once(
    postgres: Postgres, postgres_url: str
) -> None:
    """PgBouncer closes a connection that asks for options, with these words."""
    refused = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"

    refusals = []

    def between(line: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), line:
            said = _startup(line)
            if b"\0options\0" in said:
                refusals.append(said)
                line.sendall(b"E" + struct.pack("!I", len(refused) + 4) + refused)
                return
            with socket.create_connection(("127.0.0.1", postgres.port)) as far:
                far.sendall(said)
                while ready := select.select([line, far], [], [])[0]:
                    for one in ready:
                        data = one.recv(1 << 16)
                        (far if one is line else line).sendall(data)
                        if not data:
                            return

    database = urlsplit(postgres_url).path
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(8) as lines:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    lines.submit(between, server.accept()[0])

        lines.submit(serve)
        url = f"postgresql://postgres@127.0.0.1:{server.getsockname()[1]}{database}"
        with closing(open_store(url=url)) as store, closing(connect(url, lock_timeout="15s")) as connection:
            assert store.kind == "postgres"
            shown = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in _SHOWN]
        assert shown == [("15",), ("20000",), ("15s",)]
        assert len(refusals) == 1
        server.shutdown(socket.SHUT_RDWR)
