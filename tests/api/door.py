"""A real door on a real socket, and the little client that knocks at it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import uvicorn

from dragoman.api.app import build_app
from dragoman.api.keys import ensure_keys, key_file
from dragoman.providers import adapter_for
from dragoman.providers.base import Account
from dragoman.providers.transport import Transport
from dragoman.rewrite.advisor import Advisor
from dragoman.rewrite.classifier import SAFE_DEFAULT
from dragoman.rewrite.contracts import ClassifierResult
from dragoman.rewrite.orchestrator import Classify
from dragoman.rewrite.words import Surface
from dragoman.sandbox.server import Sandbox
from dragoman.settings import DoorSettings, ReviewSettings, Settings
from tests import postgres


async def unasked(request_id: UUID, message: str, surface: Surface) -> ClassifierResult:
    """A classifier that has nothing to say."""
    del request_id, message, surface
    return SAFE_DEFAULT


def asking(sandbox: Sandbox) -> Classify:
    """The real classifier's call, at this sandbox."""

    async def classify(request_id: UUID, message: str, surface: Surface) -> ClassifierResult:
        transport = Transport({"127.0.0.1"})
        try:
            adapter = adapter_for("openai_responses", transport, "main")
            account = Account("default", sandbox.base_url, "test-key")
            return await Advisor(adapter, account, "sandbox-tiny").classify(
                request_id, message, surface
            )
        finally:
            await transport.aclose()

    return classify


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Door:
    """The whole application behind a socket of this machine, in a thread."""

    def __init__(
        self,
        home: Path,
        database: str | None,
        *,
        host: str = "127.0.0.1",
        classify: Classify = unasked,
        dsn_of: Callable[[str], str] | None = None,
        review: ReviewSettings | None = None,
        user_keys: Sequence[Path] = (),
    ) -> None:
        ensure_keys(home)
        self.home = home
        self.settings = Settings(
            home=home,
            door=DoorSettings(host=host, user_keys=tuple(user_keys)),
            review=review or ReviewSettings(),
        )
        self.app = build_app(self.settings, dsn_of or self._dsn_of(database), classify)
        config = uvicorn.Config(self.app, port=0, log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @staticmethod
    def _dsn_of(database: str | None) -> Callable[[str], str]:
        if database is None:  # a port that nobody listens at
            return lambda role: f"host=127.0.0.1 port=1 user=dragoman_{role} dbname=gone"
        return lambda role: postgres.dsn(f"dragoman_{role}", database)

    def key(self, holder: str) -> str:
        """The key of a holder, as its file has it."""
        return key_file(self.home, holder).read_text(encoding="ascii")  # type: ignore[arg-type]

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        host: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request; a body that is not bytes is sent as JSON."""
        sent = {"Host": host or f"127.0.0.1:{self.port}"} | (headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {self.key(key) if key in HOLDERS else key}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Reply:
        """A GET."""
        return self.ask("GET", path, **more)

    def post(self, body: object, key: str | None = "orchestrator") -> Reply:
        """A message for the rewrite pipeline."""
        return self.ask("POST", "/v1/rewrites", body, key=key)

    @property
    def port(self) -> int:
        return self._server.servers[0].sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        pause = threading.Event()
        while not self._server.started:
            assert self._thread.is_alive()
            pause.wait(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.app.state.console.close()
        self._server.should_exit = True
        self._thread.join(timeout=15)
        assert not self._thread.is_alive()


HOLDERS = ("orchestrator", "operator")
