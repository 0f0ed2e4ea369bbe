"""Messages and errors that are not true, from a broker that a test scripts."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from support.proxy import FaultProxy
from support.receivers import receiving
from support.scripted import (
    CLOSE,
    NO_STREAM,
    RIGHTS_AWAY,
    RabbitMQ,
    ScriptedBroker,
    header_of,
    message,
    receipt_for,
)
from support.tcp import tcp_server
from support.waiting import pause, wait_until

from spark_stomp.errors import (
    AcksRefused,
    ConnectionLost,
    DestinationRefused,
    RemoteProtocolError,
    StompError,
    UnsupportedError,
)
from spark_stomp.quoting import counted

REFUSED = b"User a is not authorized to read"


class TestRefusedAcks:
    @pytest.mark.rule("4.11")
    @pytest.mark.parametrize(
        ("server", "count", "connections"),
        [(b"x", 3, 3), (b"ActiveMQ/6", 1, 5)],
        ids=["prefetch unknown", "one message at last"],
    )
    def test_three_in_a_row_fail_the_query_and_name_the_message(
        self, server: bytes, count: int, connections: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", 0.01)

        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                most = int(header_of(frame, b"activemq.prefetchSize") or b"3")
                return b"".join(map(message, range(1, 1 + min(most, 3))))
            return b"ERROR\nmessage:%b\n\n\0" % REFUSED if b"ACK\n" in frame else b""

        broker = ScriptedBroker(server, asked)
        with receiving(broker.serve, idHeader="message-id") as receiver:
            receiver.wait_received(3)
            receiver.acknowledge(3)
            failure = receiver.wait_failed()
        assert isinstance(failure, AcksRefused)
        assert f"Of {counted(count, 'message')} without a receipt the first is 'a1'" in failure.message
        assert REFUSED.decode() in failure.message
        assert broker.connections == connections

    @pytest.mark.rule("4.11")
    def test_words_that_are_not_known_end_the_query_at_reconnect_timeout(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", 0.01)

        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                return message(1)
            return b"ERROR\nmessage:try again later\n\n\0" if b"ACK\n" in frame else b""

        broker = ScriptedBroker(b"ActiveMQ/6", asked)
        options = {"reconnectTimeout": "2s", "reconnectDelay": "100ms", "reconnectDelayMax": "200ms"}
        with receiving(broker.serve, idHeader="message-id", **options) as receiver:
            receiver.wait_received(1)
            receiver.acknowledge(1)
            assert isinstance(receiver.wait_failed(), AcksRefused)
        assert broker.connections > 5

    @pytest.mark.rule("4.11")
    def test_a_broker_that_stops_refuses_nothing(self) -> None:
        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"ACK") and number < 5:
                return b"ERROR\nmessage:the broker is being stopped\n\n\0"
            return message(1) if frame.startswith(b"SUBSCRIBE") else b""

        with receiving(ScriptedBroker(b"x", asked).serve, idHeader="message-id") as receiver:
            receiver.wait_received(1)
            receiver.acknowledge(1)
            wait_until(lambda: receiver.status().connection.reconnects == 4, what="the next connection")
            wait_until(lambda: not receiver.deliveries.acks_pending, what="the receipt")
            assert receiver.status().failure is None

    @pytest.mark.rule("4.11")
    def test_a_receipt_in_between_starts_the_count_again(self) -> None:
        """On each connection the second ACK is refused; what it was for is ACKed first on the next one."""
        acked: dict[int, int] = {}  # the message by the connection

        def asked(number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                return b"".join(message(one) for one in range(1, 9) if one not in acked.values())
            found = re.search(rb"^ACK\nid:a(\d+)", frame)
            if found is not None and number in acked:
                return b"ERROR\nmessage:no\n\n\0"
            if found is not None:
                acked[number] = int(found[1])
            return b""

        broker = ScriptedBroker(b"x", asked)
        with receiving(broker.serve, idHeader="message-id") as receiver:
            receiver.wait_received(8)
            receiver.offer(8)
            for upto in range(1, 6):
                receiver.acknowledge(upto)
                wait_until(lambda one=upto: one in acked.values(), what="the receipt")
            assert receiver.status().failure is None
        assert broker.connections >= 5


@pytest.mark.rule("4.10")
@pytest.mark.parametrize(("version", "header"), [("1.2", "ack"), ("1.1", "message-id")])
def test_a_message_that_no_ack_can_name_fails_the_query(version: str, header: str) -> None:
    """As CoilMQ 1.1.0, whose producers may set message-id, and which refuses each ACK under 1.2."""

    def asked(number: int, frame: bytes) -> bytes:
        if frame.startswith(b"ACK"):
            return b"ERROR\nmessage:No message-id specified for ACK command.\n\n\0"
        return re.sub(rb"\n%b:.+" % header.encode(), b"", message(1)) if b"SUBSCRIBE" in frame else b""

    broker = ScriptedBroker(b"x", asked, version.encode())
    with receiving(broker.serve, acceptVersions=version) as receiver:
        wait_until(lambda: receiver.status().failure or receiver.status().received, what="an end")
        refused = receiver.status().failure
    assert isinstance(refused, RemoteProtocolError)
    assert f"no ACK can name over STOMP {version}: it has no {header} header" in refused.message
    assert refused.message.endswith("acceptVersions = 1.1") == (version == "1.2")
    assert broker.connections == 1


@pytest.mark.rule("4.2")
@pytest.mark.parametrize(("server", "told"), [(b"x", 1), (b"ActiveMQ-Artemis/2", 0)])
def test_many_unmarked_repeats_are_worth_one_warning(
    server: bytes, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Two nodes that number alike. Artemis marks only the first message after a lost connection."""

    def asked(number: int, frame: bytes) -> bytes:
        found = [message(one, headers=[b"timestamp:1"]) for one in range(150)] * 2
        return b"".join(found) if frame.startswith(b"SUBSCRIBE") else b""

    given = {"idHeader": "message-id"} if server == b"x" else {}
    with receiving(ScriptedBroker(server, asked).serve, **given) as receiver:
        wait_until(lambda: receiver.status().counts.reattached == 150, what="the repeats")
        assert receiver.status().received == 150
    assert caplog.text.count("did not mark them as redelivered") == told


def failure(rabbit: RabbitMQ, destination: str = "/queue/a", **options: str) -> StompError | None:
    """The failure of a receiver of this broker; None if it takes the messages."""
    with receiving(rabbit.broker.serve, destination, **options) as receiver:
        wait_until(lambda: receiver.status().failure or receiver.status().received == 3, what="an end")
        assert receiver.status().received == (0 if receiver.status().failure else 3)
        return receiver.status().failure


class Empty(RabbitMQ):
    """Its queues bring nothing."""

    def _asked(self, number: int, frame: bytes) -> bytes:
        answer = super()._asked(number, frame)
        return answer if answer.startswith(b"ERROR") else b""

    def refuse(self, error: str) -> None:
        """Answer with this whoever asks what a queue is."""
        self._refusal = error


class TestStreams:
    @pytest.mark.rule("7.9")
    @pytest.mark.parametrize("allow_loss", ["true", "false"])
    def test_are_refused(self, allow_loss: str) -> None:
        rabbit = RabbitMQ("a")
        refused = failure(rabbit, allowLoss=allow_loss)
        assert isinstance(refused, UnsupportedError)
        assert "/queue/a is a stream" in refused.message
        assert rabbit.questions == ["a"]

    @pytest.mark.rule("7.9")
    def test_are_refused_before_if_the_queue_is_only_named(self) -> None:
        rabbit = RabbitMQ("a", header=b"own:header")
        assert isinstance(failure(rabbit, "/amq/queue/a"), UnsupportedError)
        assert rabbit.broker.connections == 2

    @pytest.mark.rule("7.9")
    @pytest.mark.parametrize(
        ("answer", "apart"),
        [
            ({"kind": "classic"}, False),
            ({"kind": "quorum"}, False),
            ({"relayed": True}, False),
            ({"relayed": True}, True),
        ],
    )
    def test_queues_are_not(self, answer: dict[str, Any], apart: bool) -> None:
        """They are asked for before SUBSCRIBE, and because of the header of their first message.

        Spring's relay may send the receipt before the error, in one piece or in two.
        """
        rabbit = RabbitMQ(**answer)
        rabbit.broker.apart = apart
        assert failure(rabbit) is None
        assert rabbit.questions == ["a", "a"]

    @pytest.mark.rule("4.8")
    @pytest.mark.parametrize("destination", ["/queue/a", "/amq/queue/a"])
    def test_an_end_right_after_the_receipt_is_no_answer_and_tried_again(self, destination: str) -> None:
        """As a relay ends that has lost the ERROR."""

        class Ending(RabbitMQ):
            def _asked(self, number: int, frame: bytes) -> bytes:
                answer = super()._asked(number, frame)
                if answer.startswith(b"ERROR") and len(self.questions) == 1:
                    return receipt_for(frame) + CLOSE
                return answer

        rabbit = Ending()
        assert failure(rabbit, destination) is None
        assert len(rabbit.questions) > 1

    def test_a_queue_that_is_not_there_is_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        rabbit = RabbitMQ("nobody", silent="NOT_FOUND - no queue 'a' in vhost '/'")
        assert failure(rabbit) is None
        (told,) = [one for one in caplog.messages if "has no queue" in one]
        assert "RabbitMQ has no queue /queue/a: the subscription declares it, and it is empty" in told

    def test_a_queue_that_was_not_there_is_told_until_it_brings_a_message(self) -> None:
        rabbit = Empty("nobody", silent="NOT_FOUND - no queue 'a' in vhost '/'")
        with receiving(rabbit.broker.serve) as receiver:
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            assert receiver.status().missing == {"/queue/a": None}
            rabbit.broker.sockets[0].sendall(message(1))
            wait_until(lambda: receiver.status().missing == {}, what="the first message")

    @pytest.mark.rule("7.12")
    @pytest.mark.parametrize("required", [False, True])
    def test_a_queue_that_is_deleted_is_not_made_anew_without_a_word(
        self, required: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        rabbit, now = Empty("nobody"), time.time()
        with (
            tcp_server(rabbit.broker.serve, together=True) as port,
            FaultProxy(port) as proxy,
            receiving(proxy.url, failOnMissingQueue=str(required)) as receiver,
        ):
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            proxy.cut()
            wait_until(lambda: receiver.status().connection.connections == 2, what="another connection")
            assert receiver.status().missing == {} and "deleted" not in caplog.text
            rabbit.refuse("NOT_FOUND - no queue 'a' in vhost '/'")
            proxy.cut()
            if required:
                refused = receiver.wait_failed()
                assert isinstance(refused, DestinationRefused)
                assert "/queue/a was deleted while this query ran, and failOnMissingQueue" in str(refused)
                return
            wait_until(lambda: receiver.status().missing, what="what is missing")
            assert now <= (receiver.status().missing["/queue/a"] or 0.0) <= time.time()
            assert "/queue/a was deleted while this query ran. The subscription makes it anew" in caplog.text
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            # The last one was for the question.
            rabbit.broker.sockets[-2].sendall(message(1))
            wait_until(lambda: receiver.status().missing == {}, what="the first message")

    @pytest.mark.rule("7.12")
    def test_without_an_answer_a_query_goes_on_after_a_lost_connection(self) -> None:
        rabbit = Empty("nobody")
        with (
            tcp_server(rabbit.broker.serve, together=True) as port,
            FaultProxy(port) as proxy,
            receiving(proxy.url, failOnMissingQueue="true") as receiver,
        ):
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            rabbit.refuse("internal_error")
            proxy.cut()
            wait_until(lambda: receiver.status().connection.connections == 2, what="another connection")
            assert receiver.status().missing == {}

    @pytest.mark.parametrize(
        ("answer", "kind", "words"),
        [
            ("NOT_FOUND - no queue 'a' in vhost '/'", DestinationRefused, "/queue/a is not there, and fail"),
            ("ACCESS_REFUSED - access to queue", UnsupportedError, "cannot be known: the login may not read"),
            ("PRECONDITION_FAILED - invalid arg 'x-stream-offset'", type(None), ""),
        ],
    )
    def test_a_queue_that_must_be_there(self, answer: str, kind: type, words: str) -> None:
        rabbit = RabbitMQ("nobody", silent=answer)
        refused = failure(rabbit, failOnMissingQueue="true")
        assert isinstance(refused, kind) and words in str(refused)

    @pytest.mark.rule("4.8")
    def test_that_the_server_of_rights_is_away_is_no_answer(self) -> None:
        """It passes: it is no right that the login lacks."""
        rabbit = Empty("nobody", silent=RIGHTS_AWAY)
        with receiving(rabbit.broker.serve, failOnMissingQueue="true", reconnectDelay="20ms") as receiver:
            wait_until(lambda: len(rabbit.questions) > 1, what="another question")
            rabbit.refuse(NO_STREAM)
            wait_until(lambda: receiver.status().subscribed, what="the subscription")

    def test_all_that_must_be_there_are_asked_for(self) -> None:
        rabbit, queues = RabbitMQ("nobody"), [f"/queue/q{number}" for number in range(25)]
        with receiving(rabbit.broker.serve, queues, failOnMissingQueue="true") as receiver:
            receiver.wait_received(75)
        assert len(rabbit.questions) == 25

    def test_another_broker_that_does_not_tell_whether_it_is_there(self) -> None:
        with receiving(
            ScriptedBroker(b"x", lambda number, frame: b"").serve, failOnMissingQueue="true"
        ) as one:
            refused = one.wait_failed()
        assert isinstance(refused, UnsupportedError) and "how to ask this broker (generic)" in str(refused)

    def test_at_most_twenty_are_asked_for(self) -> None:
        rabbit = RabbitMQ("nobody")
        with receiving(rabbit.broker.serve, [f"/queue/q{number}" for number in range(25)]) as receiver:
            receiver.wait_received(75)
        assert rabbit.questions == [f"q{number}" for number in range(20)]

    @pytest.mark.rule("7.9")
    @pytest.mark.parametrize("prefix", ["/queue/", "/amq/queue/"])
    def test_of_several_the_right_one_is_named(self, prefix: str) -> None:
        names = [f"{prefix}{one}" for one in "abc"]
        rabbit = RabbitMQ("b")
        with receiving(rabbit.broker.serve, names) as receiver:
            refused = receiver.wait_failed()
        assert isinstance(refused, UnsupportedError)
        assert f"{names[1]} is a stream" in refused.message
        assert rabbit.questions == ["a", "b"]

    @pytest.mark.rule("7.9")
    def test_a_queue_that_is_replaced_by_a_stream(self) -> None:
        """Each connection looks at its first message."""
        rabbit = RabbitMQ("nobody")
        with (
            tcp_server(rabbit.broker.serve, together=True) as port,
            FaultProxy(port) as proxy,
            receiving(proxy.url, "/amq/queue/a") as receiver,
        ):
            receiver.wait_received(3)
            rabbit.streams = {"a"}
            proxy.cut()
            assert isinstance(receiver.wait_failed(), UnsupportedError)
            assert rabbit.questions == ["a", "a"]

    def test_nor_is_what_hangs_on_an_exchange(self) -> None:
        rabbit = RabbitMQ()
        assert failure(rabbit, "/topic/a", allowLoss="true") is None
        assert rabbit.broker.connections == 1

    @pytest.mark.rule("7.9")
    @pytest.mark.parametrize("destination", ["/queue/a", "/amq/queue/a"])
    def test_without_an_answer_nothing_is_taken(self, destination: str) -> None:
        rabbit = RabbitMQ(silent="internal_error")
        error = failure(rabbit, destination, reconnectTimeout="1s")
        # What RabbitMQ means is not known, so it is asked again.
        assert isinstance(error, ConnectionLost) and "internal_error" in error.message
        assert len(rabbit.questions) > 1

    @pytest.mark.rule("4.8")
    def test_a_broker_that_cannot_be_asked_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its messages come on each connection, which lives until the question has failed."""
        monkeypatch.setattr("spark_stomp.transport.retry._PROVED", 0.1)

        class Closing(RabbitMQ):
            def _asked(self, number: int, frame: bytes) -> bytes:
                if b"x-stream-offset" in frame:
                    pause(0.2)
                    return CLOSE
                return super()._asked(number, frame)

        rabbit = Closing()
        rabbit.broker.apart = True
        assert isinstance(failure(rabbit, reconnectTimeout="1s"), ConnectionLost)


@pytest.mark.rule("4.8")
def test_connections_that_serve_nobody_are_given_up() -> None:
    """The broker closes the connection at each ACK, after one more message."""

    def asked(number: int, frame: bytes) -> bytes:
        if frame.startswith(b"ACK"):
            return message(1 + number) + CLOSE
        return message(1) if frame.startswith(b"SUBSCRIBE") else b""

    options = {"idHeader": "message-id", "reconnectTimeout": "3s"}
    with receiving(ScriptedBroker(b"x", asked).serve, **options) as receiver:
        receiver.wait_received(1)
        receiver.acknowledge(1)
        assert isinstance(receiver.wait_failed(), ConnectionLost)
