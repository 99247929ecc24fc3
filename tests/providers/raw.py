"""A server that answers with bytes as they are given, however wrong they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class RawServer:
    """Where it listens, and how many requests reached it."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list[bytes])


@asynccontextmanager
async def answering(
    *pieces: bytes, hold: bool = False, until: bytes = b"\r\n\r\n"
) -> AsyncGenerator[RawServer]:
    """Answer every request with these bytes and close; with `hold` keep silent after them."""
    server, released = RawServer(), asyncio.Event()
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            server.requests.append(await reader.readuntil(until))
            writer.writelines(pieces)
            await writer.drain()
            if hold:
                await released.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.create_task(serve(reader, writer)))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        released.set()
        listening.close()
        await listening.wait_closed()
        await asyncio.gather(*serving)
