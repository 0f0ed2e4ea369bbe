"""Fronts for the dev broker, which speaks plain TCP only: TLS, WebSocket, both, and a line that can be cut.

Each runs in its own thread and moves bytes. It knows nothing of STOMP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from support.waiting import PATIENCE

SUBPROTOCOLS = [Subprotocol(name) for name in ("v12.stomp", "v11.stomp", "v10.stomp")]
Front = Callable[[], Awaitable[Any]]
"""Starts a server of asyncio or of websockets."""


def tls_front(port: int, context: ssl.SSLContext, host: str = "127.0.0.1") -> AbstractContextManager[int]:
    """TLS in front of ``port``, at the address ``host``; yields its own port."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await _together(_copy(reader, inner_writer), _copy(inner_reader, writer), writer, inner_writer)

    return _running(lambda: asyncio.start_server(accept, host, 0, ssl=context))


def websocket_front(
    port: int,
    context: ssl.SSLContext | None = None,
    received: list[str | bytes] | None = None,
    host: str = "127.0.0.1",
) -> AbstractContextManager[int]:
    """WebSocket in front of ``port``, at the address ``host``; yields its own port.

    What clients send is kept in ``received``.
    """
    kept = [] if received is None else received

    async def accept(socket: ServerConnection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await _together(_from_client(socket, writer, kept), _to_client(reader, socket), writer)

    settings: Any = {"ssl": context, "subprotocols": SUBPROTOCOLS, "max_size": None, "compression": None}
    return _running(lambda: serve(accept, host, 0, **settings))


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
    """``front`` in a loop in its own thread, for as long as the context lasts."""
    ports: SimpleQueue[int] = SimpleQueue()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def live() -> None:
        server = await front()
        ports.put(next(iter(server.sockets)).getsockname()[1])
        await over.wait()
        remaining = asyncio.all_tasks() - {asyncio.current_task()}
        for task in remaining:
            task.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)
        server.close()
        await server.wait_closed()
        for _ in range(10):
            # What was aborted is closed by callbacks, TLS layer by layer.
            await asyncio.sleep(0)

    def run() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(live())
            loop.run_until_complete(loop.shutdown_asyncgens())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    port = ports.get(timeout=PATIENCE)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
