"""Keys of messages, made from their frames."""

from __future__ import annotations

from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.receiver.dedup import frame_keys


def key(name: bytes, body: bytes = b"body", destination: str = "/q", entry: str = "") -> MessageKey:
    data = b"MESSAGE\ndestination:%b\n\n%b\0" % (destination.encode(), body)
    (made,) = frame_keys(FrameBatch(data, [len(data)], 0, 0, "1.2", receiver=f"{entry}#0"), [name])
    assert made is not None
    return made
