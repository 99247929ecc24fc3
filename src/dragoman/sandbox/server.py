"""The sandbox as a server: in a thread of a test, or as a process of its own.

>>> with Sandbox(speed=60) as sandbox:
...     sandbox.fault({"on": "create", "do": "drop_after"})
...     sandbox.ledger()["creates"]
[]
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.app import build_app
from dragoman.sandbox.batches import Pace
from dragoman.sandbox.clock import Clock
from dragoman.sandbox.state import State
from dragoman.sandbox.workspace import Workspace


class Line(H11Protocol):
    """HTTP/1.1 that hands the connection to the application, so that a fault can cut it."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Put the connection into the state that each request sees."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "line": transport}


class Sandbox:
    """A provider on a socket of this machine. It listens from the moment it is made.

    With `state` it goes on after a restart, even after kill -9, where it was; without, it forgets.
    """

    def __init__(
        self,
        *,
        speed: float = 1.0,
        pace: Pace | None = None,
        seed: int = 0,
        keys: Collection[str] = (),
        address: tuple[str, int] = ("127.0.0.1", 0),
        state: Path | None = None,
    ) -> None:
        space = Workspace(Clock(speed), pace or Pace(), seed)
        self._state = State(space, state)
        self._socket = socket.create_server(address)
        # asyncio sets this only on sockets that name their protocol; without it each answer that
        # is written in two pieces waits 40 ms for an acknowledgement.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host, self._port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            build_app(space, keys, self._state.save),
            http=Line,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.serve, name="sandbox", daemon=True)

    @property
    def base_url(self) -> str:
        """What an account's base_url, or an SDK's, is set to."""
        return f"{self.control_url}/v1"

    @property
    def control_url(self) -> str:
        """Where the clock, the fault script and the ledger are, under /_sandbox."""
        return f"http://{self._host}:{self._port}"

    def serve(self) -> None:
        """Serve until told to stop; in the main thread SIGTERM and Ctrl-C tell it too."""
        self._server.run(sockets=[self._socket])

    def ledger(self) -> JSONObject:
        """Everything that was uploaded, created, run and deleted."""
        return cast("JSONObject", self._ask("GET", "/_sandbox/ledger"))

    def traffic(self) -> JSONObject:
        """How many requests came of each kind, and how many answers were made at one time."""
        return cast("JSONObject", self._ask("GET", "/_sandbox/traffic"))

    def fault(self, *entries: JSONObject) -> None:
        """Arm faults; the next matching event meets them."""
        self._ask("POST", "/_sandbox/faults", list(entries))

    def clear_faults(self) -> None:
        """Let nothing more go wrong."""
        self._ask("DELETE", "/_sandbox/faults")

    def advance(self, seconds: float) -> None:
        """Let the sandbox's clock jump, and its batches with it."""
        self._ask("POST", "/_sandbox/advance", {"seconds": seconds})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        self._state.close()

    def _ask(self, method: str, path: str, body: JSON = None) -> JSON:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            connection.request(method, path, orjson.dumps(body))
            answer = connection.getresponse()
            data = cast("JSON", orjson.loads(answer.read()))
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(data)
        return data
