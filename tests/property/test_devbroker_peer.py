"""Whatever a client sends, the dev broker answers or hangs up; nothing of it may raise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.devbroker.core import Broker
from spark_stomp.devbroker.peer import Faults, Peer
from spark_stomp.protocol import NEED_DATA, FrameDecoder, ServerConfig

VERSIONS = ("1.0", "1.1", "1.2", "lenient")
COMMANDS = [
    *("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT"),
    *("DISCONNECT", "CONNECT"),
]
NAMES = [
    *("destination", "id", "ack", "receipt", "transaction", "message-id", "subscription"),
    *("prefetch-count", "browser", "content-length", "", "k"),
]
VALUES = [
    *("/queue/a", "/topic/t", "1", "0", "", "true", "client", "client-individual"),
    *("a\rb", "é", r"\c", "a:b", " x "),
]

headers = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=6)
frames = st.builds(
    lambda command, pairs, body: (
        "\n".join([command, *(f"{name}:{value}" for name, value in pairs), "", ""]).encode() + body + b"\0"
    ),
    st.sampled_from(COMMANDS),
    headers,
    st.sampled_from([b"", b"body"]),
)


def connected(broker: Broker, version: str) -> Peer:
    peer = Peer(broker, ServerConfig(VERSIONS), None, Faults(), "s")
    if version == "lenient":
        peer.receive(b"connect\nusername: u\n\n\0", 0.0)
    else:
        peer.receive(f"CONNECT\naccept-version:{version}\nhost:/\n\n\0".encode(), 0.0)
    assert peer.version == version
    peer.connection.data_to_send()
    return peer


@given(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS), st.lists(frames, max_size=12))
def test_frames_of_any_kind(version: str, other: str, sent: list[bytes]) -> None:
    broker = Broker()
    witness, peer = connected(broker, other), connected(broker, version)
    witness.receive(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0", 0.0)
    for data in sent:
        peer.receive(data, 0.0)
        broker.dispatch()
    for listener, spoken in ((peer, version), (witness, other)):
        decoder = FrameDecoder(spoken)
        decoder.receive_data(listener.connection.data_to_send())
        while decoder.next_event() is not NEED_DATA:
            pass


@given(st.binary(max_size=200))
def test_octets_of_any_kind(data: bytes) -> None:
    for start in (b"", b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"):
        peer = Peer(Broker(), ServerConfig(VERSIONS), None, Faults(), "s")
        peer.receive(start + data, 0.0)
        peer.receive_eof(1.0)
        assert peer.finished
