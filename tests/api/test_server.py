"""The door as a process runs it: listens, says where, and stops with a stream still open."""

from __future__ import annotations

import asyncio
import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.api import serve
from dragoman.core.errors import BadSetting
from dragoman.sandbox.server import Sandbox
from dragoman.settings import DoorSettings, ProviderSettings, Settings
from tests import postgres
from tests.eventually import eventually_async


def settings_of(home: Path, sandbox: Sandbox, port: int = 0) -> Settings:
    provider = ProviderSettings(name="local", base_url=sandbox.base_url)
    return Settings(home=home, provider=provider, door=DoorSettings(port=port))


def test_a_door_says_where_it_listens_and_stops_when_told(database: str, tmp_path: Path) -> None:
    """The file holds the real address, health is told, and an open stream delays no end."""

    async def run() -> None:
        stop = asyncio.Event()
        door = asyncio.ensure_future(
            serve(settings, lambda role: postgres.dsn(f"dragoman_{role}", database), stop)
        )
        file = tmp_path / "run" / "door.url"
        await eventually_async(file.exists)
        at = urlsplit(file.read_text(encoding="utf-8").strip())
        line = http.client.HTTPConnection(at.hostname or "", at.port, timeout=10)
        stream = await asyncio.to_thread(open_stream, line)
        assert (await asyncio.to_thread(stream.readline)) == b"event: swap\n"
        stop.set()
        async with asyncio.timeout(4):
            await door
        stream.close()
        line.close()
        with pytest.raises(OSError):
            socket.create_connection((at.hostname, at.port), timeout=1)

    with Sandbox() as sandbox:
        settings = settings_of(tmp_path, sandbox)
        asyncio.run(run())


def open_stream(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.request("GET", "/stream?page=overview")
    return connection.getresponse()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    """BadSetting names host and port; no file says that anything listens."""
    with Sandbox() as sandbox, socket.create_server(("127.0.0.1", 0)) as taken:
        settings = settings_of(tmp_path, sandbox, taken.getsockname()[1])
        with pytest.raises(BadSetting):
            asyncio.run(serve(settings, str, asyncio.Event()))
    assert not (tmp_path / "run" / "door.url").exists()
