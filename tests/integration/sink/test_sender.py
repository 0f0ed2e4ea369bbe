"""The sender: success means that every message was confirmed, and the unconfirmed ones are bounded."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from support.brokers.base import free_ports
from support.certificates import Authority
from support.fronts import tls_front
from support.logins import CountedUsers
from support.options import sink_options
from support.proxy import FaultProxy, Way
from support.scripted import CLOSE, DIFFERS, RIGHTS_AWAY, RabbitMQ, ScriptedBroker, header_of, receipt_for
from support.slices import encoded, slices
from support.tcp import says, stomp_server
from support.waiting import PATIENCE, pause, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.columns import SinkColumns
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, DestinationRefused, LoginRefused, ReceiptTimeout, TlsRefused
from spark_stomp.logs import lines_about
from spark_stomp.sink.encoder import row_encoder
from spark_stomp.sink.sender import Sender
from spark_stomp.status.sink import TaskFigures

QUEUE = "/queue/out"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


def bodies(count: int) -> list[bytes]:
    return [b"body %d" % number for number in range(count)]


@contextmanager
def sending(
    where: str | Callable[[socket.socket], None], *, patient: bool = False, **options: Any
) -> Iterator[Sender]:
    """A sender to the broker at this URL, or to one that a test scripts."""
    with ExitStack() as stack:
        url = where if isinstance(where, str) else stack.enter_context(stomp_server(where))
        yield stack.enter_context(
            Sender(sink_options(url, **options), patient=patient, login_accepted=patient)
        )


def send(sender: Sender, count: int, size: int = 10) -> None:
    for part in slices(bodies(count), size):
        sender.send(part)


def finish(sender: Sender, *bodies: bytes, first: int = 0, destination: str = QUEUE) -> TaskFigures:
    """Send these, and wait until all is confirmed."""
    sender.send(encoded(bodies, destination, first))
    return sender.finish()


@pytest.mark.rule("S.1")
@pytest.mark.parametrize("window", [1, 7, 1000])
def test_all_messages_arrive_in_order_and_are_confirmed(devbroker: DevBroker, window: int) -> None:
    with sending(devbroker.url, receiptWindow=window) as sender:
        send(sender, 100)
        assert sender.finish().confirmed == 100
    assert devbroker.bodies(QUEUE) == bodies(100)
    wait_until(lambda: devbroker.disconnects == 1, what="the DISCONNECT")


def test_nothing_to_send_opens_no_connection(devbroker: DevBroker) -> None:
    with sending(devbroker.url) as sender:
        sender.send(encoded([]))
        assert (sender.finish().confirmed, sender.figures.connections) == (0, 0)
    assert devbroker.connects == 0


@pytest.mark.rule("S.2")
def test_the_window_bounds_what_is_unconfirmed(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    options = {"receiptWindow": 5, "receiptTimeout": "200ms", "blockedTimeout": "200ms"}
    with sending(devbroker.url, **options) as sender:
        with pytest.raises(ReceiptTimeout, match=r"confirmed 0 messages .* 5 messages without .*/queue/out"):
            send(sender, 10)
        assert sender.figures.confirmed == 0
    assert devbroker.queue(QUEUE).enqueued == 5


@pytest.mark.rule("S.2")
def test_memory_is_bounded_if_the_broker_reads_nothing(devbroker: DevBroker) -> None:
    """The window, what is being sent, and the slice that was just encoded."""
    options = {"receiptTimeout": "200ms", "blockedTimeout": "200ms", "receiptWindowBytes": "8m"}
    with FaultProxy(devbroker.port) as proxy, sending(proxy.url, **options) as sender:
        sender.open()
        proxy.hold(Way.TO_BROKER)
        tracemalloc.start()
        try:
            with pytest.raises(ReceiptTimeout):
                for number in range(100):
                    sender.send(encoded([b"x" * (1 << 20)], first=number))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert 7 << 20 < peak < 14 << 20


def send_row(sender: Sender, destination: str) -> None:
    """As a task that encodes it."""
    columns = SinkColumns(("body", "destination"), False)
    encoder = row_encoder(sink_options("stomp://h"), columns, *sender.open())
    (part,) = encoder.slices(pa.record_batch({"body": [b"x"], "destination": [destination]}))
    sender.send(part)
    sender.finish()


@pytest.mark.rule("S.14")
def test_a_queue_that_another_connection_has_as_exclusive_is_there() -> None:
    """RabbitMQ takes what is sent to it, and refuses to say more to those who ask."""
    words = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could"
    rabbit = RabbitMQ(silent=words)
    with sending(rabbit.broker.serve) as sender:
        send_row(sender, "/amq/queue/mine")
        assert sender.figures.confirmed == 1
    assert rabbit.questions == ["mine"]


@pytest.mark.rule("S.4")
def test_a_broker_that_reads_no_disconnect_was_blocked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As RabbitMQ under an alarm: what it had read before is confirmed."""
    monkeypatch.setattr("spark_stomp.transport.connection._DISCONNECT_TIMEOUT", 0.2)
    with DevBroker() as broker, sending(broker.url) as sender:
        sender.send(encoded([b"x"]))
        wait_until(lambda: sender.figures.confirmed == 1, what="the receipt")
        broker.faults.answer_nothing = True
        figures = sender.finish()
        assert figures.confirmed == 1 and figures.blocked_seconds >= 0.2
        assert "did not confirm DISCONNECT" in caplog.text and "memory or disk is full" in caplog.text
        # The next tasks of the query find the same.
        broker.faults.answer_nothing = False
        with sending(broker.url) as again:
            again.send(encoded([b"x"]))
            wait_until(lambda: again.figures.confirmed == 1, what="the receipt")
            broker.faults.answer_nothing = True
            assert again.finish().blocked_seconds >= 0.2
    assert caplog.text.count("did not confirm DISCONNECT") == 1


class TestARowThatIsRefused:
    """Of rows that name their destinations; ``onError`` says what becomes of it."""

    NO = "/queue/no"

    def write(self, sender: Sender, to: list[str], **options: str) -> TaskFigures:
        columns = SinkColumns(("body", "destination", "kind"), False)
        chosen = sink_options("stomp://h", headerColumns="kind", **options)
        encoder = row_encoder(chosen, columns, *sender.open())
        sender.instead = encoder.instead
        rows = {"body": [b"%d" % at for at in range(len(to))], "destination": to, "kind": ["k"] * len(to)}
        for part in encoder.slices(pa.record_batch(rows)):
            sender.send(part)
        return sender.finish()

    @pytest.mark.rule("S.5", "S.9")
    @pytest.mark.parametrize("at", [[0], [1], [3], [0, 1, 3]])
    def test_is_dropped_and_the_others_are_sent_once(
        self, at: list[int], caplog: pytest.LogCaptureFixture
    ) -> None:
        to = [self.NO if place in at else QUEUE for place in range(4)]
        with DevBroker(refuse=(self.NO,)) as broker, sending(broker.url) as sender:
            figures = self.write(sender, to, onError="drop")
            # All of them are known after the first one. After the last message no connection is needed.
            assert broker.connects == 2 - (at == [3])
            bodies = broker.bodies(QUEUE)
        assert set(bodies) == {b"%d" % place for place in range(4) if place not in at}
        assert (figures.dropped, figures.confirmed) == (len(at), 4 - len(at))
        assert len(bodies) <= figures.confirmed + figures.resent
        assert "a row cannot be sent" in caplog.text and "refused SEND to /queue/no" in caplog.text

    @pytest.mark.rule("S.9")
    def test_if_it_is_the_last_one_no_connection_is_needed_any_more(self) -> None:
        with DevBroker(refuse=(self.NO,)) as broker, sending(broker.url, receiptWindow=1) as sender:
            figures = self.write(sender, [QUEUE, self.NO], onError="drop")
            assert (figures.dropped, figures.confirmed, broker.connects) == (1, 1, 1)

    @pytest.mark.rule("S.9")
    def test_goes_to_the_dead_letters(self) -> None:
        with DevBroker(refuse=(self.NO,)) as broker, sending(broker.url) as sender:
            dead = {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}
            figures = self.write(sender, [QUEUE, self.NO, QUEUE], **dead)
            assert broker.bodies("/queue/dead") == [b"1"]
            assert set(broker.bodies(QUEUE)) == {b"0", b"2"}
        assert (figures.dead_lettered, figures.confirmed) == (1, 3)

    @pytest.mark.rule("S.9")
    @pytest.mark.parametrize(
        "options", [{"onError": "drop"}, {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}]
    )
    def test_what_refused_once_is_known_for_the_task(self, options: dict[str, str]) -> None:
        """Each further one would cost a connection, and the broker a login."""
        to = [self.NO, QUEUE, self.NO] * 100
        small = {"receiptWindow": 20}
        with DevBroker(refuse=(self.NO,)) as broker, sending(broker.url, **small) as sender:
            figures = self.write(sender, to, **options, receiptWindow="20")
            assert broker.connects == 2
            assert set(broker.bodies(QUEUE)) == {b"%d" % place for place in range(1, 300, 3)}
            dead = broker.bodies("/queue/dead")
        assert figures.dropped + figures.dead_lettered == 200
        assert len(set(dead)) == figures.dead_lettered

    @pytest.mark.rule("S.9")
    def test_a_refusal_because_of_one_message_says_nothing_of_the_next_one(self) -> None:
        words = b"ERROR\n\nPRECONDITION_FAILED - invalid expiration 'x'\0"
        broker = ScriptedBroker(
            b"RabbitMQ/4.3.6", lambda _, frame: words if frame.endswith(b"\n\n1") else b""
        )
        with sending(broker.serve) as sender:
            figures = self.write(sender, [QUEUE] * 4, onError="drop")
        assert (figures.dropped, figures.confirmed, broker.connections) == (1, 3, 3)

    def test_after_the_second_one_in_a_row_there_is_a_pause(self) -> None:
        """Of destinations that refuse one after the other."""
        names = [f"/queue/no.{number}" for number in range(6)]
        begun = time.monotonic()
        with DevBroker(refuse=names) as broker, sending(broker.url, reconnectDelay="200ms") as sender:
            figures = self.write(sender, [*names, QUEUE], onError="drop")
        assert (figures.dropped, figures.confirmed, figures.connections) == (6, 1, 7)
        assert time.monotonic() - begun >= 1.0

    @pytest.mark.rule("S.9", "S.14")
    @pytest.mark.parametrize(
        "options", [{"onError": "drop"}, {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}]
    )
    def test_a_queue_that_is_not_there_is_its_rows_problem(self, options: dict[str, str]) -> None:
        rabbit = RabbitMQ(silent="NOT_FOUND - no queue 'gone' in vhost '/'")
        with sending(rabbit.broker.serve) as sender:
            figures = self.write(sender, [QUEUE, "/amq/queue/gone", QUEUE, "/amq/queue/gone"], **options)
        assert (figures.dropped + figures.dead_lettered, figures.connections) == (2, 1)
        assert figures.confirmed == 2 + figures.dead_lettered
        assert rabbit.questions == ["gone"]

    @pytest.mark.rule("S.14")
    def test_nothing_is_sent_while_the_server_of_rights_is_away(self) -> None:
        """It may not be there, and RabbitMQ would confirm and drop what is sent."""
        rabbit = RabbitMQ(silent=RIGHTS_AWAY)
        with sending(rabbit.broker.serve, reconnectTimeout="500ms", reconnectDelay="50ms") as sender:
            with pytest.raises(ConnectionLost, match="returned an error: timeout"):
                self.write(sender, ["/amq/queue/gone"], onError="drop")
            assert (sender.figures.dropped, sender.figures.confirmed) == (0, 0)
        assert len(rabbit.questions) > 1

    @pytest.mark.rule("S.14")
    def test_a_queue_of_dead_letters_that_is_not_there_fails_the_task(self) -> None:
        rabbit = RabbitMQ(silent="NOT_FOUND - no queue 'gone' in vhost '/'")
        dead = {"onError": "deadletter", "deadLetterDestination": "/amq/queue/dead"}
        with (
            sending(rabbit.broker.serve) as sender,
            pytest.raises(DestinationRefused, match="/amq/queue/dead"),
        ):
            self.write(sender, [QUEUE, "/amq/queue/gone"], **dead)

    @pytest.mark.rule("S.9")
    def test_is_found_also_if_the_broker_does_not_name_it(self) -> None:
        def asked(_: int, frame: bytes) -> bytes:
            return b"ERROR\nmessage:not authorized\n\n\0" if b"destination:/queue/no" in frame else b""

        broker = ScriptedBroker(b"x", asked)
        with sending(broker.serve) as sender:
            figures = self.write(sender, [QUEUE, self.NO, QUEUE], onError="drop")
        assert (figures.dropped, figures.confirmed, broker.connections) == (1, 2, 3)

    @pytest.mark.rule("S.5", "S.9")
    @pytest.mark.parametrize("named", [False, True])
    @pytest.mark.parametrize(
        "server", [b"RabbitMQ/4.3.6", b"ActiveMQ/6.3.1", b"ActiveMQ-Artemis/2.56.0", b"x"]
    )
    @pytest.mark.parametrize("words", ["NOT_FOUND - queue 'q' is being moved", "try again", ""])
    def test_is_none_if_the_words_are_not_known(self, server: bytes, words: str, named: bool) -> None:
        """The row is neither dropped nor a dead letter: the task fails at reconnectTimeout."""

        def asked(_: int, frame: bytes) -> bytes:
            if b"destination:/queue/no" not in frame:
                return b""
            receipt = b"receipt-id:%b\n" % header_of(frame, b"receipt") if named else b""
            return b"ERROR\nmessage:%b\n%b\n\0" % (words.encode(), receipt)

        options = {"reconnectTimeout": "500ms", "reconnectDelay": "50ms", "reconnectDelayMax": "100ms"}
        broker = ScriptedBroker(server, asked)
        with sending(broker.serve, **options) as sender:
            with pytest.raises(ConnectionLost):
                self.write(sender, [QUEUE, self.NO, QUEUE], onError="drop")
            assert sender.figures.dropped == 0
        assert broker.connections > 3

    @pytest.mark.rule("S.5", "S.9")
    @pytest.mark.parametrize(
        "reason", ["{function_clause,[]}", "{timeout,{gen_server,call,[]}}", "noconnection"]
    )
    def test_is_none_if_the_error_is_about_a_subscription(self, reason: str) -> None:
        """The sink has none. RabbitMQ says so of any failure of its own code."""

        def asked(connection: int, frame: bytes) -> bytes:
            died = b"ERROR\nmessage:AMQP channel died\n\nReason: %b\0" % reason.encode()
            return died if connection <= 2 and frame.startswith(b"SEND") else b""

        broker = ScriptedBroker(b"RabbitMQ/4.3.6", asked)
        with sending(broker.serve, reconnectDelay="20ms") as sender:
            figures = self.write(sender, [QUEUE], onError="drop")
        assert (figures.dropped, figures.confirmed, broker.connections) == (0, 1, 3)

    @pytest.mark.rule("S.5")
    @pytest.mark.parametrize(
        ("refused", "options"),
        [
            (NO, {"onError": "fail"}),
            ("/queue/dead", {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}),
        ],
    )
    def test_fails_the_task_otherwise(self, refused: str, options: dict[str, str]) -> None:
        fails = pytest.raises(DestinationRefused, match=f"refused SEND to {refused}")
        with DevBroker(refuse=(self.NO, refused)) as broker, sending(broker.url) as sender, fails:
            self.write(sender, [QUEUE, self.NO], **options)

    @pytest.mark.rule("S.5")
    def test_is_the_querys_problem_if_the_option_names_the_destination(self) -> None:
        columns, chosen = (
            SinkColumns(("body",), False),
            sink_options("stomp://h", destination=self.NO, onError="drop"),
        )
        with DevBroker(refuse=(self.NO,)) as broker, sending(broker.url) as sender:
            encoder = row_encoder(chosen, columns, *sender.open())
            sender.instead = encoder.instead
            (part,) = encoder.slices(pa.record_batch({"body": [b"x"]}))
            with pytest.raises(DestinationRefused):
                sender.send(part)
                sender.finish()


class TestRefusals:
    @pytest.mark.rule("S.5")
    def test_one_that_names_its_message_names_the_destination_and_is_final(self) -> None:
        with DevBroker(refuse=("/queue/no",)) as broker, sending(broker.url) as sender:
            sender.send(encoded([b"0", b"1"]))
            with pytest.raises(DestinationRefused, match=r"SEND to /queue/no.*confirmed 2 message") as error:
                finish(sender, b"2", first=2, destination="/queue/no")
            assert broker.connects == 1
        assert "1 message without a receipt may still arrive" in str(error.value)

    @pytest.mark.rule("S.5")
    def test_one_that_names_a_queue_with_other_arguments_is_final(self) -> None:
        """RabbitMQ's, which names no message."""
        words = DIFFERS.format("x-queue-type", "none", "the value 'quorum' of type 'longstr'").encode()
        rabbit = ScriptedBroker(
            b"RabbitMQ/3", lambda _, frame: b"ERROR\n\n%b\0" % words if frame.startswith(b"SEND") else b""
        )
        problem = r"sendHeaders = .*1 message without a receipt"
        with sending(rabbit.serve) as sender, pytest.raises(DestinationRefused, match=problem):
            finish(sender, b"x")
        assert rabbit.connections == 1

    BOTH = r"the broker refuses it, or the node of its queue is away"

    @pytest.mark.rule("S.5")
    @pytest.mark.parametrize(
        ("size", "hint"), [(5, "and RabbitMQ from 3.12.2 on accepts 4 MiB"), (3, "reject-publish")]
    )
    def test_a_connection_that_ends_without_a_word(
        self, size: int, hint: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The message is found: it goes alone, and the others are confirmed. So all copies are its own."""
        sent: list[bytes] = []

        def asked(_: int, frame: bytes) -> bytes:
            sent.extend([frame[-1:]] if frame.startswith(b"SEND") else [])
            return CLOSE if len(frame) > 1 << 20 else b""

        broker = ScriptedBroker(b"RabbitMQ/4", asked)
        options = {"reconnectTimeout": "3s", "reconnectDelayMax": "500ms"}
        with sending(broker.serve, **options) as sender, pytest.raises(ConnectionLost) as error:
            finish(sender, b"a", b"b", b"c" * (size << 20), b"d")
        for words in (hint, "alone was sent to /queue/out", self.BOTH, "within reconnectTimeout (3s)"):
            assert words in str(error.value)
        assert "confirmed 2 messages" in str(error.value)
        assert ("stomp.max_frame_size" in caplog.messages[0]) == (size == 5)
        assert set(b"".join(sent).removeprefix(b"abcabc").removeprefix(b"abc")) == {*b"c"}
        assert sum(self.BOTH in line for line in caplog.messages) == 1

    @pytest.mark.rule("S.5", "S.9")
    @pytest.mark.parametrize(
        "on_error",
        [{"onError": "drop"}, {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}],
    )
    def test_what_ends_connections_without_a_word_is_waited_for_and_never_left_out(
        self, on_error: dict[str, str]
    ) -> None:
        """The node of a classic queue is away, and comes back at the sixth connection."""

        def asked(connection: int, frame: bytes) -> bytes:
            away = connection < 6 and b"destination:/queue/away" in frame
            return CLOSE if away else b""

        options = {"reconnectDelay": "50ms", "reconnectDelayMax": "100ms"}
        rows = TestARowThatIsRefused()
        with sending(ScriptedBroker(b"RabbitMQ/4", asked).serve, **options) as sender:
            figures = rows.write(sender, [QUEUE, "/queue/away", QUEUE], **on_error)
        assert (figures.confirmed, figures.dropped, figures.dead_lettered) == (3, 0, 0)

    def test_connections_that_end_without_a_word_in_spite_of_progress(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A full queue of RabbitMQ with a slow consumer. The first connection may break for any reason."""
        sends: list[int] = []

        def asked(connection: int, frame: bytes) -> bytes:
            sends.extend([connection] if frame.startswith(b"SEND") else [])
            return CLOSE if sends.count(connection) > 1 and connection < 4 else b""

        with sending(ScriptedBroker(b"RabbitMQ/4", asked).serve, receiptWindow=2) as sender:
            assert finish(sender, *[b"x"] * 8).confirmed == 8
        lost = [text for text in caplog.messages if "connection lost" in text]
        assert ["reject-publish" in text for text in lost] == [False, True, True]

    @pytest.mark.rule("S.5")
    def test_one_that_names_no_message_is_about_the_one_that_is_alone(self) -> None:
        """RabbitMQ's never name one."""
        error = b"ERROR\nmessage:Unknown destination\n\n'/nonsense/x' is not valid\0"
        broker = ScriptedBroker(b"x", lambda _, frame: error if frame.startswith(b"SEND") else b"")
        problem = f"sent alone to {QUEUE}.*/nonsense/x"
        with sending(broker.serve) as sender, pytest.raises(DestinationRefused, match=problem):
            finish(sender, b"x")
        assert broker.connections == 1

    @pytest.mark.rule("S.5")
    @pytest.mark.parametrize(
        "error",
        [
            # The node that has the queue boots; its own code failed; it stops.
            b"message:not_found\n\nNOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is "
            b"down or inaccessible",
            b"message:Processing error\n\n",
            b"message:Server shutting down\n\n",
        ],
    )
    def test_one_that_may_pass_is_no_refusal_however_often_it_comes(self, error: bytes) -> None:
        """The broker is back at the fifth connection."""

        def asked(connection: int, frame: bytes) -> bytes:
            return b"ERROR\n%b\0" % error if frame.startswith(b"SEND") and connection < 5 else b""

        broker = ScriptedBroker(b"x", asked)
        with sending(broker.serve, reconnectDelay="100ms", reconnectDelayMax="200ms") as sender:
            assert finish(sender, b"x").confirmed == 1
        assert broker.connections == 5

    @pytest.mark.rule("S.3", "S.5")
    def test_one_that_may_pass_and_does_not_fails_the_task_in_time(self) -> None:
        error = b"ERROR\nmessage:Processing error\n\n\0"
        broker = ScriptedBroker(b"x", lambda _, frame: error if frame.startswith(b"SEND") else b"")
        problem = r"within reconnectTimeout \(1s\).*Processing error.*confirmed 0 messages"
        options = {"reconnectTimeout": "1s", "reconnectDelay": "100ms", "reconnectDelayMax": "100ms"}
        with sending(broker.serve, **options) as sender, pytest.raises(ConnectionLost, match=problem):
            finish(sender, b"x")
        assert broker.connections > 3

    @pytest.mark.rule("S.6")
    def test_one_in_the_middle_leaves_the_counts_right(self) -> None:
        """Receipts that came before it count; what follows was sent and is not known."""
        sent = count()

        def asked(_: int, frame: bytes) -> bytes:
            is_taken = not frame.startswith(b"SEND") or next(sent) < 2
            return b"" if is_taken else b"ERROR\nmessage:not allowed\n\n\0"

        with sending(ScriptedBroker(b"x", asked).serve) as sender:
            with pytest.raises(
                DestinationRefused, match=r"not allowed.*confirmed 2 messages .* 3 messages without"
            ):
                send(sender, 5)
                sender.finish()
            assert sender.figures.resent == 1

    @pytest.mark.rule("S.5")
    def test_a_long_destination_is_cut_in_the_log_and_in_the_error(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The end of the sentence, with the counts, is still shown. A colon is shown as the row has it."""
        # A process warns of few topics: others may have been before.
        monkeypatch.setattr("spark_stomp.sink.encoder._once._said", set())
        long = "/topic/" + "\x1b" * 10_000
        errors: list[str] = []
        for destination in (long, "/queue/a:b"):
            refused = pytest.raises(DestinationRefused)
            with DevBroker(refuse=(destination,)) as broker, sending(broker.url) as sender, refused as error:
                send_row(sender, destination)
            errors.append(str(error.value))
        for text in (errors[0], caplog.messages[0]):
            assert 100 < len(text) < 2_000 and text.isprintable() and "..." in text
        assert "confirmed 0 messages" in errors[0] and "SEND to /queue/a:b:" in errors[1]

    @pytest.mark.rule("S.5")
    @pytest.mark.usefixtures("quick_logins")
    @pytest.mark.parametrize("before", [1, 0])
    def test_or_accepted_from_an_earlier_batch(self, before: int, caplog: pytest.LogCaptureFixture) -> None:
        """A login that was accepted before is tried again: that of this task, and that of an earlier batch.

        Each task of a batch connects anew, and a password changes while many batches run.
        """
        users = {"ada": "right" if before else "changed"}
        login = {"login": "ada", "password": "right"}
        with DevBroker(users=users) as broker, sending(broker.url, patient=not before, **login) as sender:
            sender.send(encoded([b"0"] * before))
            users["ada"] = "changed"
            broker.drop_connections()
            finishing = threading.Thread(target=lambda: finish(sender, b"1", first=before))
            finishing.start()
            wait_until(lambda: caplog.text.count("[STOMP_LOGIN_REFUSED]") >= 2, what="two refusals")
            users["ada"] = "right"
            finishing.join(PATIENCE)
            assert sender.figures.confirmed == before + 1

    @pytest.mark.rule("S.5")
    @pytest.mark.parametrize("before", [1, 0])
    def test_a_certificate_that_is_refused_now_may_be_trusted_later(
        self, devbroker: DevBroker, tmp_path: Path, before: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The broker has another one already, and the file here is replaced later."""
        old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
        (trusted := tmp_path / "ca.pem").write_bytes((old if before else new).ca_file.read_bytes())
        identity = (old if before else new).issue()
        context = identity.server_context()
        with tls_front(devbroker.port, context) as port:
            url = f"stomp+ssl://127.0.0.1:{port}"
            with sending(url, patient=not before, tlsCaFile=trusted) as sender:
                sender.send(encoded([b"0"] * before))
                trusted.write_bytes(old.ca_file.read_bytes())
                later = new.issue()
                context.load_cert_chain(later.cert_file, later.key_file)
                devbroker.drop_connections()
                finishing = threading.Thread(target=lambda: finish(sender, b"1", first=before))
                finishing.start()
                wait_until(lambda: caplog.text.count("[STOMP_TLS_REFUSED]") >= 2, what="two refusals")
                (tmp_path / "new-ca.pem").write_bytes(new.ca_file.read_bytes())
                (tmp_path / "new-ca.pem").replace(trusted)
                finishing.join(PATIENCE)
                assert sender.figures.confirmed == before + 1

    @pytest.mark.rule("S.5")
    def test_a_certificate_that_was_never_trusted_fails_the_task_at_once(
        self, devbroker: DevBroker, tmp_path: Path
    ) -> None:
        context, other = Authority(tmp_path, "old").issue().server_context(), Authority(tmp_path, "new")
        with tls_front(devbroker.port, context) as port:
            url = f"stomp+ssl://127.0.0.1:{port}"
            with sending(url, tlsCaFile=other.ca_file) as sender, pytest.raises(TlsRefused):
                sender.open()

    @pytest.mark.rule("S.5")
    def test_a_broker_that_is_not_ready_is_waited_for_by_a_first_batch(self) -> None:
        """Apollo says so while it replays its log."""
        answers = [b"ERROR\nmessage:Virtual host stopped.\n\n\0"] * 2

        def serve(connection: socket.socket) -> None:
            says(answers.pop() if answers else b"CONNECTED\nversion:1.2\n\n\0")(connection)

        with sending(serve) as sender:
            sender.open()
            assert not answers and sender.figures.connections == 1

    @pytest.mark.rule("4.8", "S.5")
    @pytest.mark.parametrize("words", ["Access refused for user '{}'", "User {} is not authorized"])
    def test_a_login_that_is_called_like_the_end_of_a_broker_is_sent_once(self, words: str) -> None:
        connects: list[bytes] = []

        def serve(connection: socket.socket) -> None:
            connects.append(connection.recv(1 << 16))
            connection.sendall(b"ERROR\nmessage:Bad CONNECT\n\n%b\0" % words.format("shutdown").encode())

        login = {"login": "shutdown", "password": "wrong", "reconnectTimeout": "3s"}
        with stomp_server(serve) as url:
            for _ in range(2):
                with sending(url, **login) as sender, pytest.raises(LoginRefused):
                    sender.open()
        assert len(connects) == 1

    @pytest.mark.rule("S.5")
    def test_a_destination_that_is_called_so_is_refused(self) -> None:
        error = b"ERROR\nmessage:not authorized to write to address stopping\n\n\0"
        broker = ScriptedBroker(b"x", lambda _, frame: error if frame.startswith(b"SEND") else b"")
        with sending(broker.serve) as sender, pytest.raises(DestinationRefused, match="not authorized"):
            send_row(sender, "/queue/stopping")
        assert broker.connections == 1

    @pytest.mark.rule("S.5")
    def test_a_task_that_spark_tries_again_sends_a_refused_password_once(self) -> None:
        """Spark tries a task again at once, and most servers count the refusals."""
        users = CountedUsers(ada="right")
        with DevBroker(users=users) as broker:
            for _ in range(4):
                refused = pytest.raises(LoginRefused)
                with sending(broker.url, login="ada", password="wrong") as sender, refused:
                    sender.open()
            assert users.asked == 1

    @pytest.mark.rule("S.5")
    def test_a_login_that_stays_refused_fails_the_task_in_time(self) -> None:
        users = {"ada": "right"}
        options = {"login": "ada", "password": "right", "reconnectTimeout": "1s"}
        with DevBroker(users=users) as broker, sending(broker.url, **options) as sender:
            sender.open()
            users["ada"] = "changed"
            broker.drop_connections()
            with pytest.raises(LoginRefused, match=r"has refused it since .*passwordFile"):
                finish(sender, b"0")


class TestABrokenConnection:
    @pytest.mark.rule("S.3")
    def test_is_replaced_and_only_the_unconfirmed_are_sent_again(self, devbroker: DevBroker) -> None:
        with sending(devbroker.url) as sender:
            sender.send(encoded(bodies(3)))
            wait_until(lambda: sender.figures.confirmed == 3, what="the receipts")
            devbroker.faults.withhold_receipts = ("SEND",)
            sender.send(encoded([b"3", b"4"], first=3))
            wait_until(lambda: devbroker.queue(QUEUE).enqueued == 5, what="the messages")
            devbroker.faults.withhold_receipts = ()
            devbroker.drop_connections()
            wait_until(lambda: pumps() == [], what="the end of the pump")
            figures = finish(sender, b"5", first=5)
        assert devbroker.bodies(QUEUE) == [*bodies(3), b"3", b"4", b"3", b"4", b"5"]
        assert (figures.confirmed, figures.resent, figures.connections) == (6, 2, 2)

    @pytest.mark.rule("S.3")
    @pytest.mark.parametrize("cut_at", [0, 1, 30, 200, 1000, 3000])
    @pytest.mark.parametrize("way", Way)
    def test_anywhere_costs_nothing_but_repetitions(
        self, devbroker: DevBroker, way: Way, cut_at: int
    ) -> None:
        """Before, inside and after a receipt, and inside a SEND."""
        options = {"receiptWindow": 20}
        with FaultProxy(devbroker.port) as proxy, sending(proxy.url, **options) as sender:
            sender.open()
            proxy.cut_after(cut_at, way)
            send(sender, 100)
            figures = sender.finish()
            assert proxy.tripped
        arrived = devbroker.bodies(QUEUE)
        assert set(arrived) == set(bodies(100))
        assert (figures.confirmed, figures.connections) == (100, 2)
        assert len(arrived) - 100 <= figures.resent <= 20

    def test_that_the_broker_reports_itself_is_replaced_too(self) -> None:
        """As RabbitMQ does when it is stopped."""
        error = b"ERROR\nmessage:Server shutting down\n\n\0"
        with sending(ScriptedBroker(b"x", lambda number, _: error if number == 1 else b"").serve) as sender:
            assert finish(sender, b"x").resent == 1

    @pytest.mark.rule("S.3")
    def test_that_cannot_be_replaced_fails_within_the_time_for_it(self) -> None:
        with DevBroker() as broker:
            sender = Sender(sink_options(broker.url, reconnectTimeout="600ms"))
            broker.faults.withhold_receipts = ("SEND",)
            sender.send(encoded([b"x"]))
        begun = time.monotonic()
        with sender, pytest.raises(ConnectionLost, match=r"reconnectTimeout.*may still arrive.*/queue/out"):
            sender.finish()
        assert time.monotonic() - begun < 20

    @pytest.mark.rule("S.3")
    def test_is_replaced_however_long_the_one_before_confirmed_nothing(self) -> None:
        """The time of a connection without a receipt is no time without a connection."""

        def asked(connection: int, frame: bytes) -> bytes:
            if not frame.startswith(b"SEND") or connection > 2:
                return b""
            if connection == 2:
                pause(1.5)  # it was blocked, and is then restarted
            return CLOSE

        broker = ScriptedBroker(b"x", asked)
        with sending(broker.serve, reconnectTimeout="1s") as sender:
            assert finish(sender, b"x").confirmed == 1
        assert broker.connections == 3

    @pytest.mark.rule("S.3")
    def test_is_not_replaced_if_all_is_confirmed(self, caplog: pytest.LogCaptureFixture) -> None:
        """The broker goes between the last receipt and the end of the task."""
        with DevBroker() as broker:
            sender = Sender(sink_options(broker.url, reconnectTimeout="600ms"))
            sender.send(encoded([b"0", b"1"]))
            wait_until(lambda: sender.figures.confirmed == 2, what="the receipts")
        wait_until(lambda: pumps() == [], what="the end of the pump")
        with sender:
            figures = sender.finish()
        assert (figures.confirmed, figures.connections) == (2, 1)
        assert "connection lost" not in caplog.text

    @pytest.mark.rule("S.3")
    def test_is_not_replaced_if_the_last_receipt_came_just_before(self) -> None:
        """Both are read at once."""
        gone = b"ERROR\nmessage:Server shutting down\n\n\0"
        broker = ScriptedBroker(
            b"x", lambda _, frame: receipt_for(frame) + gone + CLOSE if frame.startswith(b"SEND") else b""
        )
        with sending(broker.serve) as sender:
            assert finish(sender, b"x").confirmed == 1
        assert broker.connections == 1

    def test_first_one_is_waited_for_if_the_broker_was_there_before(self) -> None:
        (port,) = free_ports(1)
        with sending(f"stomp://127.0.0.1:{port}", patient=True) as sender:
            opened = threading.Thread(target=sender.open)
            opened.start()
            with DevBroker(port=port):
                opened.join()
                assert finish(sender, b"x").confirmed == 1

    def test_another_version_is_not_sent_what_was_encoded_for_the_first(self, devbroker: DevBroker) -> None:
        options = {"reconnectTimeout": "600ms"}
        with (
            DevBroker(versions=("1.1",)) as other,
            FaultProxy(devbroker.port) as proxy,
            sending(proxy.url, **options) as sender,
        ):
            sender.open()
            proxy.target = other.port
            proxy.cut()
            with pytest.raises(ConnectionLost, match="another version of STOMP"):
                finish(sender, b"0")
            assert other.queue(QUEUE).enqueued == 0

    def test_a_failed_disconnect_does_not_undo_what_was_confirmed(
        self, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.transport.connection._DISCONNECT_TIMEOUT", 0.2)
        devbroker.faults.withhold_receipts = ("DISCONNECT",)
        with sending(devbroker.url) as sender:
            assert finish(sender, b"0").confirmed == 1


class TestWhatTheLogSaysOfAnOutage:
    """One line that the connection is lost, and one that another serves; every attempt only with debug."""

    def levels(self, caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
        return [record.levelname for record in caplog.records if words in record.getMessage()]

    def test_is_two_lines(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG", "spark_stomp")
        (port,) = free_ports(1)
        with ExitStack() as first:
            broker = first.enter_context(DevBroker(port=port))
            sender = first.enter_context(Sender(sink_options(broker.url, reconnectTimeout="1m")))
            first.pop_all()
        with sender:
            broker.faults.withhold_receipts = ("SEND",)
            sender.send(encoded([b"0", b"1"]))
            wait_until(lambda: broker.queue(QUEUE).enqueued == 2, what="the messages")
            broker.stop()
            finishing = threading.Thread(target=sender.finish)
            finishing.start()
            wait_until(lambda: len(self.levels(caplog, "trying again")) >= 3, what="attempts")
            with DevBroker(port=port):
                finishing.join(30.0)
            assert not finishing.is_alive()
            first_try, *more = self.levels(caplog, "trying again")
            assert first_try == "WARNING" and set(more) == {"DEBUG"}
            assert self.levels(caplog, "connection lost: ")[0] == "WARNING"
            assert self.levels(caplog, "connected again after ") == ["WARNING"]
            assert "s, 2 messages to send again" in caplog.text

    def test_a_broker_that_ends_each_connection_at_once_is_one_outage(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker = ScriptedBroker(b"x", lambda *_: CLOSE)
        options = {"reconnectTimeout": "2s", "reconnectDelayMax": "300ms"}
        with sending(broker.serve, **options) as sender, pytest.raises(ConnectionLost):
            finish(sender, b"x")
        assert broker.connections > 4
        # The second one says that it is always the same message.
        assert self.levels(caplog, "trying again") == ["WARNING", "WARNING"]
        assert self.levels(caplog, "connected") == []

    def test_the_pump_says_it_in_the_name_of_its_task(
        self, devbroker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        with lines_about(query="q", batch=3, partition=1), sending(devbroker.url) as sender:
            sender.send(encoded([b"0"]))
            wait_until(lambda: sender.figures.confirmed == 1, what="the receipt")
            devbroker.drop_connections()
            wait_until(lambda: pumps() == [], what="the end of the pump")
            sender.send(encoded([b"1"], first=1))
            wait_until(lambda: bool(self.levels(caplog, "connected again")), what="the line")
        assert {message.partition(": ")[0] for message in caplog.messages} == {"query=q batch=3 partition=1"}


def pumps() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stomp-sender")]


class TestWhileSparkComputes:
    def test_heartbeats_go_both_ways(self) -> None:
        with DevBroker(heartbeat=(1000, 1000)) as broker, sending(broker.url, heartbeat="1s,1s") as sender:
            sender.send(encoded([b"0"]))
            pause(3.0)
            assert finish(sender, b"1", first=1).confirmed == 2
            assert broker.connects == 1

    def test_a_refusal_is_raised_by_the_next_call(self) -> None:
        with (
            DevBroker(refuse=(QUEUE,)) as broker,
            sending(broker.url) as sender,
            pytest.raises(DestinationRefused, match=f"SEND to {QUEUE}"),
        ):
            sender.send(encoded([b"0"]))
            wait_until(lambda: pumps() == [], what="the end of the pump")
            sender.send(encoded([b"1"], first=1))

    @pytest.mark.rule("S.7")
    @pytest.mark.parametrize("finished", [True, False])
    def test_nothing_runs_on_after_the_sender(self, devbroker: DevBroker, finished: bool) -> None:
        with suppress(KeyError), sending(devbroker.url) as sender:
            send(sender, 1)
            assert len(pumps()) == 1
            if not finished:
                raise KeyError
            sender.finish()
        assert pumps() == []
        wait_until(lambda: devbroker.connections == 0, what="the end of the connection")


class TestABlockedBroker:
    @pytest.mark.rule("S.4")
    def test_is_waited_for_and_goes_on(self, devbroker: DevBroker, caplog: pytest.LogCaptureFixture) -> None:
        options = {"receiptTimeout": "200ms", "blockedTimeout": "60s", "receiptWindowBytes": "64m"}
        with FaultProxy(devbroker.port) as proxy, sending(proxy.url, **options) as sender:
            sender.open()
            proxy.hold(Way.TO_BROKER)
            heal = threading.Timer(1.0, proxy.heal)
            heal.start()
            for part in slices([b"x" * 500_000] * 100, 5):
                sender.send(part)
            figures = sender.finish()
            heal.join()
        assert (figures.confirmed, figures.resent, figures.connections) == (100, 0, 1)
        assert 0.2 <= figures.blocked_seconds < 30
        assert "and takes no more bytes: it counts as blocked" in caplog.text
        assert f"Find out why: {dialect_named('devbroker').blocked_advice}" in caplog.text
        assert "takes messages again; it was blocked" in caplog.text

    @pytest.mark.rule("S.4", "S.6")
    def test_is_given_up_in_time_with_the_counts(self, devbroker: DevBroker) -> None:
        options = {"receiptTimeout": "300ms", "blockedTimeout": "400ms", "receiptWindow": 10}
        with sending(devbroker.url, **options) as sender:
            send(sender, 10)
            wait_until(lambda: sender.figures.confirmed == 10, what="the receipts")
            devbroker.faults.withhold_receipts = ("SEND",)
            begun = time.monotonic()
            with pytest.raises(ReceiptTimeout, match=r"confirmed 10 messages .* 1 message without"):
                finish(sender, b"x", first=10)
            assert sender.figures.blocked_seconds >= 0.7
        assert 0.7 <= time.monotonic() - begun < 10
        assert devbroker.connects == 1

    @pytest.mark.rule("S.4")
    @pytest.mark.parametrize(("server", "blocked"), [("stomp-broker-js/1", False), ("RabbitMQ/4.3.6", True)])
    def test_a_broker_that_never_confirms_is_no_blocked_one_if_it_is_not_known(
        self, server: str, blocked: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        serve = says(b"CONNECTED\nversion:1.2\nserver:%b\n\n\0" % server.encode())
        options = {"receiptTimeout": "300ms", "blockedTimeout": "400ms"}
        with sending(serve, **options) as sender, pytest.raises(ReceiptTimeout) as error:
            send(sender, 3)
            sender.finish()
        assert ("none of 3 messages" in str(error.value) and "probe --scratch" in str(error.value)) != blocked
        assert ("counts as blocked" in caplog.text) == blocked
        assert "no more bytes" not in caplog.text  # it has read all of them

    @pytest.mark.rule("S.4")
    def test_messages_are_no_progress(self) -> None:
        message = b"MESSAGE\nsubscription:a\nmessage-id:1\ndestination:/q\n\n%b\0" % (b"x" * 300)

        def serve(connection: socket.socket) -> None:
            connection.recv(4096)
            connection.sendall(CONNECTED)
            connection.recv(4096)
            with suppress(OSError):
                while True:
                    connection.sendall(message * 2000)

        begun = time.monotonic()
        options = {"receiptTimeout": "300ms", "blockedTimeout": "300ms"}
        with sending(serve, **options) as sender, pytest.raises(ReceiptTimeout):
            finish(sender, b"0")
        assert time.monotonic() - begun < 30

    @pytest.mark.rule("S.4")
    def test_bytes_that_are_taken_are_progress(self) -> None:
        """A large message over a slow line has no receipt for long."""

        def serve(connection: socket.socket) -> None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            connection.recv(4096)
            connection.sendall(CONNECTED)
            received, head = 0, b""
            while received < 40 << 20:
                enough = min(received + (1 << 20), 40 << 20)
                while received < enough:
                    data = connection.recv(1 << 20)
                    head = head or data
                    received += len(data)
                pause(0.05)
            connection.sendall(receipt_for(head))
            while connection.recv(1 << 20):
                pass

        with sending(serve, receiptTimeout="1100ms", blockedTimeout="100ms") as sender:
            begun = time.monotonic()
            sender.send(encoded([b"x" * (40 << 20)]))
            sender._until_done(sender._await_receipts)
            assert sender.figures.confirmed == 1
        assert time.monotonic() - begun > 1.2


class TestSeveralAddresses:
    """What one does not confirm in time goes over another one."""

    OPTIONS: ClassVar = {"receiptTimeout": "400ms", "blockedTimeout": "400ms", "receiptWindow": 10}

    @pytest.mark.rule("S.4")
    def test_what_is_not_confirmed_is_sent_over_the_next_one(self, caplog: pytest.LogCaptureFixture) -> None:
        """As if the leader of a queue hangs: its node beats, and lets everyone in."""
        with DevBroker() as first, DevBroker() as second:
            first.faults.withhold_receipts = ("SEND",)
            options = self.OPTIONS | {"blockedTimeout": "5m"}
            with sending(f"{first.url},{second.url}", **options) as sender:
                send(sender, 30)
                figures = sender.finish()
            assert (figures.confirmed, figures.connections, figures.resent) == (30, 2, 10)
            assert 0.4 <= figures.blocked_seconds < 5
            assert second.bodies(QUEUE) == bodies(30) and len(first.bodies(QUEUE)) == 10
        assert "sent again over another address of url" in caplog.text

    @pytest.mark.rule("4.8", "S.3")
    @pytest.mark.parametrize("words", ["Processing error", "not ready yet"])
    def test_an_error_that_may_pass_may_be_the_nodes(self, words: str) -> None:
        """RabbitMQ names no request. The other node takes the messages."""

        def asked(_: int, frame: bytes) -> bytes:
            return b"ERROR\nmessage:%b\n\n\0" % words.encode() if frame.startswith(b"SEND") else b""

        broken = ScriptedBroker(b"RabbitMQ/4.3.6", asked)
        works = ScriptedBroker(b"RabbitMQ/4.3.6", lambda _, frame: b"")
        with (
            stomp_server(broken.serve) as first,
            stomp_server(works.serve) as second,
            sending(f"{first},{second}", reconnectDelay="20ms", reconnectTimeout="5s") as sender,
        ):
            send(sender, 10)
            assert sender.finish().confirmed == 10
        assert (broken.connections, works.connections) == (1, 1)

    @pytest.mark.rule("S.4")
    def test_each_is_tried_once_if_all_are_blocked(self) -> None:
        """As by an alarm of memory: a new connection sends one message alone, and it waits there."""
        with DevBroker() as first, DevBroker() as second, DevBroker() as third:
            brokers = (first, second, third)
            for one in brokers:
                one.faults.withhold_receipts = ("SEND",)
            begun = time.monotonic()
            url = ",".join(one.url for one in brokers)
            with (
                sending(url, **self.OPTIONS) as sender,
                pytest.raises(ReceiptTimeout, match="blockedTimeout"),
            ):
                send(sender, 30)
            assert [one.connects for one in brokers] == [1, 1, 1]
            assert [one.queue(QUEUE).enqueued for one in brokers] == [10, 1, 1]
        assert 1.6 <= time.monotonic() - begun < 10

    @pytest.mark.rule("S.4")
    def test_one_that_is_blocked_is_not_left_for_one_that_cannot_be_had(self) -> None:
        """It gets one more connection, and not one after the other."""
        (nobody,) = free_ports(1)
        with DevBroker() as broker:
            broker.faults.withhold_receipts = ("SEND",)
            url = f"{broker.url},stomp://127.0.0.1:{nobody}"
            with (
                sending(url, **self.OPTIONS) as sender,
                pytest.raises(ReceiptTimeout, match="blockedTimeout"),
            ):
                finish(sender, b"x")
            assert broker.connects == 2

    @pytest.mark.rule("S.4")
    def test_a_receipt_makes_all_of_them_good_again(self) -> None:
        with DevBroker() as first, DevBroker() as second:
            first.faults.withhold_receipts = ("SEND",)
            with sending(f"{first.url},{second.url}", **self.OPTIONS) as sender:
                sender.send(encoded([b"0"]))
                sender._until_done(sender._await_receipts)
                first.faults.withhold_receipts, second.faults.withhold_receipts = (), ("SEND",)
                figures = finish(sender, b"1", first=1)
            assert (figures.confirmed, figures.connections) == (2, 3)
            assert (first.connects, second.connects) == (2, 1)


class TestTheClock:
    @pytest.fixture(autouse=True)
    def no_pump(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a process that does not run for a while."""
        monkeypatch.setattr("spark_stomp.sink.sender.Worker", NoPump)

    def test_alone_proves_nothing(self, devbroker: DevBroker) -> None:
        options = {"receiptTimeout": "100ms", "blockedTimeout": "100ms"}
        with sending(devbroker.url, **options) as sender:
            send(sender, 3)
            pause(0.3)
            figures = sender.finish()
        assert (figures.confirmed, figures.blocked_seconds) == (3, 0)

    def test_counts_from_what_was_sent_last(self, devbroker: DevBroker) -> None:
        options = {"receiptTimeout": "300ms", "blockedTimeout": "300ms"}
        with sending(devbroker.url, **options) as sender:
            sender.open()
            pause(0.7)
            devbroker.faults.withhold_receipts = ("SEND",)
            begun = time.monotonic()
            with pytest.raises(ReceiptTimeout):
                finish(sender, b"0")
        assert 0.6 <= time.monotonic() - begun < 10


class NoPump:
    failure = None

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self, timeout: float) -> None:
        pass
