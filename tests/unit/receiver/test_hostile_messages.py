"""Messages that say of themselves what is not so, from a broker that a test scripts."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest
from support.options import source_options
from support.receivers import LoneReceiver, running
from support.tcp import tcp_server
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import AcksRefused, UnsupportedError
from spark_stomp.receiver.stream_check import may_be_stream


class ScriptedBroker:
    """Answers each connection with CONNECTED, and each receipt; ``asked`` answers other frames."""

    def __init__(self, server: bytes, asked: Callable[[int, bytes], bytes]) -> None:
        self.connections = 0
        self._server = server
        self._asked = asked

    def serve(self, connection: socket.socket) -> None:
        self.connections += 1
        number, data = self.connections, b""
        while True:
            piece = connection.recv(1 << 16)
            if not piece:
                return
            data += piece
            *frames, data = data.split(b"\0")
            for frame in frames:
                connection.sendall(self._answer(number, frame.lstrip(b"\n")))

    def _answer(self, number: int, frame: bytes) -> bytes:
        if frame.startswith(b"CONNECT"):
            return b"CONNECTED\nversion:1.2\nserver:%b\n\n\0" % self._server
        answer = self._asked(number, frame)
        receipt = re.search(rb"\nreceipt:(.+)\n", frame)
        if receipt is None or answer.startswith(b"ERROR"):
            return answer
        return b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt[1] + answer


def message(number: int, *headers: bytes, body: bytes = b"x") -> bytes:
    head = b"subscription:0\nmessage-id:%d\nack:a%d\ndestination:/queue/a" % (number, number)
    return b"MESSAGE\n%b\n\n%b\0" % (b"\n".join((head, *headers)), body)


def received(receiver: LoneReceiver, count: int) -> None:
    wait_until(lambda: receiver.status().received >= count, what=f"{count} frames")


class TestRefusedAcks:
    @pytest.mark.rule("4.11")
    def test_three_in_a_row_fail_the_query_and_name_the_message(self) -> None:
        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                return b"".join(map(message, range(1, 4)))
            return b"ERROR\nmessage:AMQ339018 acknowledging message a2\n\n\0" if b"ACK\n" in frame else b""

        broker = ScriptedBroker(b"x", asked)
        with tcp_server(broker.serve) as port:
            options = source_options(f"stomp://127.0.0.1:{port}", idHeader="message-id")
            with running(options) as receiver:
                received(receiver, 3)
                receiver.offer(3)
                receiver.acknowledge(3)
                wait_until(lambda: receiver.status().failure is not None, what="the failure")
                failure = receiver.status().failure
        assert isinstance(failure, AcksRefused)
        assert "'a2'" in str(failure) and "AMQ339018" in str(failure)
        assert broker.connections == 3

    @pytest.mark.rule("4.11")
    def test_a_receipt_in_between_begins_anew(self) -> None:
        """On each connection the second ACK is refused; what it was for is ACKed first on the next one."""
        acked: dict[int, int] = {}  # the message by the connection

        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                return b"".join(message(one) for one in range(1, 9) if one not in acked.values())
            found = re.search(rb"^ACK\nid:a(\d+)", frame)
            if found is None:
                return b""
            if number in acked:
                return b"ERROR\nmessage:no\n\n\0"
            acked[number] = int(found[1])
            return b""

        broker = ScriptedBroker(b"x", asked)
        with (
            tcp_server(broker.serve) as port,
            running(source_options(f"stomp://127.0.0.1:{port}", idHeader="message-id")) as receiver,
        ):
            received(receiver, 8)
            receiver.offer(8)
            for upto in range(1, 6):
                receiver.acknowledge(upto)
                wait_until(lambda one=upto: one in acked.values(), what="the receipt")
            assert receiver.status().failure is None
        assert broker.connections >= 5


class TestUnmarkedRepeats:
    @pytest.mark.rule("4.2")
    @pytest.mark.parametrize(("server", "told"), [(b"x", 1), (b"ActiveMQ-Artemis/2", 0)])
    def test_many_are_worth_one_warning(
        self, server: bytes, told: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Two nodes that number alike. Artemis marks only the first message after a lost connection."""

        def asked(number: int, frame: bytes) -> bytes:
            if not frame.startswith(b"SUBSCRIBE"):
                return b""
            return b"".join(message(one, b"timestamp:1") for one in range(150)) * 2

        with tcp_server(ScriptedBroker(server, asked).serve) as port:
            url = f"stomp://127.0.0.1:{port}"
            given = {"idHeader": "message-id"} if server == b"x" else {}
            with running(source_options(url, **given)) as receiver:
                wait_until(lambda: receiver.status().counts.reattached == 150, what="the repeats")
                assert receiver.status().received == 150
        assert caplog.text.count("did not mark them as redelivered") == told


class TestStreams:
    OFFSET = b"x-stream-offset:7"

    @pytest.mark.rule("7.9")
    def test_the_broker_is_asked_once_and_believed(self) -> None:
        probes: list[bytes] = []

        def asked(number: int, frame: bytes) -> bytes:
            if not frame.startswith(b"SUBSCRIBE"):
                return b""
            if b"prefetch-count" in frame:
                return b"".join(message(one, self.OFFSET) for one in range(3))
            probes.append(frame)
            return message(9) if self.is_queue else self.REFUSED

        for self.is_queue in (True, False):
            probes.clear()
            broker = ScriptedBroker(b"RabbitMQ/3.10.8", asked)
            with (
                tcp_server(broker.serve, together=True) as port,
                running(source_options(f"stomp://127.0.0.1:{port}")) as receiver,
            ):
                if self.is_queue:
                    received(receiver, 3)
                    assert receiver.status().failure is None
                else:
                    wait_until(lambda one=receiver: one.status().failure is not None, what="the failure")
                    assert isinstance(receiver.status().failure, UnsupportedError)
                    assert receiver.status().received == 0
            assert len(probes) == 1

    REFUSED = b"ERROR\nmessage:precondition_failed\n\nconsumer prefetch count is not set for 'queue 'a''\0"
    is_queue = True

    def test_only_rabbitmq_has_them(self) -> None:
        frame = message(1, self.OFFSET)
        assert may_be_stream(dialect_named("rabbitmq"), frame)
        assert not may_be_stream(dialect_named("rabbitmq"), message(1))
        assert not may_be_stream(dialect_named("activemq"), frame)
