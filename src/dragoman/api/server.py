"""The door as a process: listens, says where, and stops when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

import structlog
import uvicorn

from dragoman.api.app import build_app
from dragoman.api.cells import Check, DSNOf
from dragoman.api.keys import ensure_keys
from dragoman.compose import wired
from dragoman.core.errors import BadSetting
from dragoman.settings import DoorSettings, Settings
from dragoman.store.files import write_file

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")

_GRACE_S = 5


async def serve(
    settings: Settings, dsn_of: DSNOf, stop: asyncio.Event, check: Check | None = None
) -> None:
    """Listen until told to stop; the address that was really taken is in home/run/door.url.

    >>> await serve(settings, server.dsn, stop)  # doctest: +SKIP
    """
    ensure_keys(settings.home)
    async with wired(settings) as providers:
        app = build_app(settings, dsn_of, providers.advisor().classify, check)
        with _listening(settings.door) as listener:
            server = Server(
                _config(app), settings.home / "run" / "door.url", _url(settings, listener)
            )
            await _run(server, listener, stop, app.state.console.close)


class Server(uvicorn.Server):
    """uvicorn that leaves signals to its caller and says when it listens."""

    def __init__(self, config: uvicorn.Config, file: Path, url: str) -> None:
        super().__init__(config)
        self._file = file
        self._address = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, then write down where."""
        await super().startup(sockets)
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._file, f"{self._address}\n", 0o644)
        log.info("listening", url=self._address)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave them alone: the process decides when it stops."""
        yield


async def _run(server: Server, listener: socket.socket, stop: asyncio.Event, close: object) -> None:
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    told = asyncio.ensure_future(stop.wait())
    await asyncio.wait([serving, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    server.should_exit = True
    if callable(close):
        close()
    await serving


def _config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # FastAPI is an ASGI application
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
    )


@contextlib.contextmanager
def _listening(door: DoorSettings) -> Generator[socket.socket]:
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    try:
        listener = socket.create_server((door.host, door.port), family=family)
    except OSError:
        raise BadSetting(f"door.host {door.host} port {door.port} cannot be listened on") from None
    with listener:
        # asyncio sets this only on sockets that name their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _url(settings: Settings, listener: socket.socket) -> str:
    host = f"[{settings.door.host}]" if ":" in settings.door.host else settings.door.host
    return f"http://{host}:{listener.getsockname()[1]}"
