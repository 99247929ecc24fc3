"""A server that answers with bytes as they are given, however wrong they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class RawServer:
    """Where it listens, and how many requests reached it."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list[bytes])


@asynccontextmanager
async def answering(*pieces: bytes, hold: bool = False) -> AsyncGenerator[RawServer]:
    """Answer every request with these bytes and close; with `hold` keep silent after them."""
    server, released = RawServer(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.writelines(pieces)
        await writer.drain()
        if hold:
            await released.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        released.set()
        listening.close()
        await listening.wait_closed()
