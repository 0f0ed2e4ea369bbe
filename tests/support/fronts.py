"""Fronts for the dev broker, which speaks plain TCP only: TLS, WebSocket, both, and a line that can be cut.

Each runs in a thread of its own and moves bytes; it knows nothing of STOMP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from support.waiting import PATIENCE

SUBPROTOCOLS = [Subprotocol(name) for name in ("v12.stomp", "v11.stomp", "v10.stomp")]
Front = Callable[[], "contextlib.AbstractAsyncContextManager[int]"]


@contextmanager
def tls_front(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """TLS in front of ``port``; yields its own port."""

    @asynccontextmanager
    async def front() -> AsyncIterator[int]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await _together(_copy(reader, inner_writer), _copy(inner_reader, writer), writer, inner_writer)

        async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context) as server:
            yield server.sockets[0].getsockname()[1]

    with _running(front) as front_port:
        yield front_port


@contextmanager
def websocket_front(
    port: int, context: ssl.SSLContext | None = None, received: list[str | bytes] | None = None
) -> Iterator[int]:
    """WebSocket in front of ``port``; yields its own port. What clients send is kept in ``received``."""
    kept = [] if received is None else received

    @asynccontextmanager
    async def front() -> AsyncIterator[int]:
        async def accept(socket: ServerConnection) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await _together(_from_client(socket, writer, kept), _to_client(reader, socket), writer)

        async with serve(
            accept, "127.0.0.1", 0, ssl=context, subprotocols=SUBPROTOCOLS, max_size=None, compression=None
        ) as server:
            yield next(iter(server.sockets)).getsockname()[1]

    with _running(front) as front_port:
        yield front_port


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _from_client(
    socket: ServerConnection, writer: asyncio.StreamWriter, kept: list[str | bytes]
) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        async for message in socket:
            kept.append(message)
            writer.write(message.encode() if isinstance(message, str) else message)
            await writer.drain()


async def _to_client(reader: asyncio.StreamReader, socket: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        # An odd size, so that messages end anywhere within frames.
        while data := await reader.read(1_001):
            await socket.send(data)


async def _together(one: Awaitable[None], other: Awaitable[None], *writers: asyncio.StreamWriter) -> None:
    """Both ways until either ends; then ``writers`` are closed."""
    tasks = [asyncio.ensure_future(way) for way in (one, other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Nothing is awaited before they are closed: this may be cancelled twice.
        for writer in writers:
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _running(front: Front) -> Iterator[int]:
    """``front`` in a loop in a thread of its own, for as long as the context lasts."""
    ports: list[int] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def live() -> None:
        async with front() as port:
            ports.append(port)
            ready.set()
            await over.wait()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        for _ in range(10):
            # What was aborted is closed by callbacks, TLS layer by layer.
            await asyncio.sleep(0)

    def run() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(live())
            loop.run_until_complete(loop.shutdown_asyncgens())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE), "the front did not start"
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
