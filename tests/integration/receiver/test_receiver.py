"""The receiver against the dev broker: the window, ACKs with receipts, the orderly end, failures."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from support.certificates import Authority
from support.fronts import tls_front
from support.logins import CountedUsers
from support.options import source_options
from support.proxy import FaultProxy
from support.receivers import LoneReceiver, receiving
from support.scripted import NO_STREAM, OURS, ScriptedBroker, answer, message, opened
from support.tcp import says
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.deadline import Deadline
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    ClientIdInUse,
    ConnectFailed,
    ConnectionLost,
    LimitExceeded,
    LoginRefused,
    PasswordUnreadable,
    RangeUnavailable,
    StompError,
    TlsRefused,
)
from spark_stomp.receiver import ReceiverSettings, ReceiverStatus
from spark_stomp.receiver.subscription import Window
from spark_stomp.receiver.turns import Turn

QUEUE = "/queue/a"


@pytest.mark.rule("1.1")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_exactly_what_is_committed_is_acked(devbroker: DevBroker, version: str) -> None:
    devbroker.publish_many(QUEUE, [b"m%d" % number for number in range(100)])
    with receiving(devbroker.url, acceptVersions=version) as receiver:
        receiver.wait_received(100)
        receiver.offer(100)
        receiver.acknowledge(37)
        wait_until(lambda: receiver.status().acked == 37, what="the receipts")
        assert devbroker.queue(QUEUE).acked == 37
        with pytest.raises(RangeUnavailable):
            next(receiver.frames.batches(36, 40))
        receiver.acknowledge(20)
        assert receiver.status().ackable == 37
    assert devbroker.bodies(QUEUE) == [b"m%d" % number for number in range(37, 100)]


def test_acks_go_out_in_groups_while_messages_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.receiver.reading._ACK_GROUP", 10)
    monkeypatch.setattr("spark_stomp.receiver.reading._ACK_GROUPS", 2)
    sent = bytearray()
    receipts: list[int] = []

    def confirm(connection: socket.socket, count: int) -> None:
        while sent.count(b"receipt:") < len(receipts) + count:
            sent.extend(connection.recv(4096))
        for _ in range(count):
            receipts.append(sent.count(b"ACK\n"))
            asked = sent.split(b"receipt:")[len(receipts)].partition(b"\n")[0]
            connection.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % asked)

    def serve(connection: socket.socket) -> None:
        opened(connection, b"0,0")
        connection.sendall(b"".join(map(message, range(50))))
        while sent.count(b"receipt:") < 2:
            sent.extend(connection.recv(4096))
        # No receipt yet, and yet it reads on.
        connection.sendall(message(50))
        assert more_came.wait(PATIENCE)
        for _ in range(5):
            confirm(connection, 1)
        answer(connection)

    more_came = threading.Event()
    with receiving(serve) as receiver:
        receiver.wait_received(50)
        receiver.acknowledge(50)
        receiver.wait_received(51)
        assert receiver.deliveries.acks.awaited == 2
        more_came.set()
        wait_until(lambda: receiver.status().acked == 50, what="the receipts")
    assert sent.count(b"ACK\n") == 50
    # How many ACKs had come when each group was confirmed.
    assert receipts == sorted(receipts)
    assert receipts[0] == 20


def test_the_end_sends_all_groups(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.receiver.reading._ACK_GROUP", 3)
    devbroker.publish_many(QUEUE, [b"m"] * 100)
    with receiving(devbroker.url) as receiver:
        receiver.wait_received(100)
        receiver.offer(95)
        receiver.deliveries.log.commit(95)
    wait_until(lambda: devbroker.queue(QUEUE).depth == 5, what="95 ACKs")


@pytest.mark.rule("4.9")
def test_a_message_of_a_foreign_subscription_gets_neither_a_number_nor_an_ack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acks: list[bytes] = []
    foreign = {3, 4, 17}

    def serve(connection: socket.socket) -> None:
        opened(connection, b"0,0")
        frames = [message(number, subscription=b"9" if number in foreign else OURS) for number in range(20)]
        connection.sendall(b"".join(frames))
        acks.append(answer(connection))
        answer(connection)

    with receiving(serve) as receiver:
        receiver.wait_received(17)
        receiver.acknowledge(17)
        wait_until(lambda: receiver.status().acked == 17, what="the receipt")
        assert receiver.status().received == 17
    named = [int(line[4:]) for line in acks[0].split(b"\n") if line.startswith(b"id:a")]
    assert named == [number for number in range(20) if number not in foreign]
    assert caplog.text.count("the subscription '9'") == 1


@pytest.mark.rule("5.5")
def test_a_message_that_is_on_the_wire_is_no_silence() -> None:
    def serve(connection: socket.socket) -> None:
        opened(connection, b"0,0")
        begun.wait(PATIENCE)
        octets = message(1, body=b"x" * 400)
        for place in range(0, len(octets), 4):
            connection.sendall(octets[place : place + 4])
            if not place:
                dripping.set()
            if over.wait(0.01):
                break
        answer(connection)

    begun, dripping, over = threading.Event(), threading.Event(), threading.Event()
    with receiving(serve) as receiver:
        receiver.wait_subscribed()
        before = receiver.status().last_active
        begun.set()
        assert dripping.wait(PATIENCE)
        wait_until(lambda: receiver.status().last_active > before, what="a sign of life")
        received_then = receiver.status().received
        over.set()
    assert received_then == 0


@pytest.mark.rule("5.3")
class TestABrokerThatStopsEarly:
    """ActiveMQ, at a page that is smaller than the prefetch."""

    def test_counts_as_full_after_silence(
        self, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.receiver.subscription._STOPPED_AFTER", 0.3)
        devbroker.publish_many(QUEUE, [b"m"] * 3)
        with receiving(devbroker.url, broker="activemq") as receiver:
            receiver.wait_received(3)
            wait_until(lambda: receiver.status().window_full, what="a full window")
            receiver.acknowledge(3)
            wait_until(lambda: receiver.status().unacked == 0, what="the receipt")
            assert not receiver.status().window_full

    @pytest.mark.parametrize(
        ("destination", "options"),
        [
            (QUEUE, {"broker": "rabbitmq"}),
            (QUEUE, {"broker": "activemq", "journal": "/j", "ackAfter": "journal"}),
            ("/topic/a", {"broker": "activemq", "allowLoss": "true"}),
        ],
    )
    def test_others_do_not(self, destination: str, options: dict[str, object]) -> None:
        settings = ReceiverSettings.of(source_options("stomp://127.0.0.1", destination, **options))[0]
        turn = Turn(settings.destinations)
        assert not Window.of(dialect_named(str(options["broker"])), settings, turn, None, busy=1).stops_early


@pytest.mark.rule("2.2")
def test_each_log_has_its_own_id(devbroker: DevBroker) -> None:
    options = source_options(devbroker.url)
    assert len({LoneReceiver(options).deliveries.log.id for _ in range(100)}) == 100


@pytest.mark.rule("4.7")
def test_missing_receipts_of_acks_mean_a_dead_connection(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 5)
    devbroker.faults.withhold_receipts = ("ACK",)
    with receiving(devbroker.url, ackReceiptTimeout="500ms") as receiver:
        receiver.wait_received(5)
        receiver.acknowledge(5)
        assert receiver.status().acked == 0
        wait_until(lambda: receiver.status().connection.reconnects == 1, what="another connection")
        assert receiver.status().failure is None


@pytest.mark.rule("7.4")
def test_a_frame_over_the_limit_is_a_failure_and_stays_on_the_broker(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m", b"x" * 100_000])
    with receiving(devbroker.url, maxFrameBytes="50k") as receiver:
        assert isinstance(receiver.wait_failed(), LimitExceeded)
    devbroker.wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert devbroker.queue(QUEUE).depth == 2


def again(receiver: LoneReceiver, broker: DevBroker) -> None:
    """Break the connection and wait for the next one."""
    before = receiver.status().connection.reconnects
    broker.drop_connections()
    wait_until(lambda: receiver.status().connection.reconnects > before, what="another connection")
    receiver.wait_subscribed()


def bodies(receiver: LoneReceiver, low: int, high: int) -> list[bytes]:
    frames = b"".join(bytes(batch.data) for batch in receiver.frames.batches(low, high)).split(b"\0")[:-1]
    return [frame.split(b"\n\n", 1)[1] for frame in frames]


def figures(status: ReceiverStatus) -> tuple[int, int, int, int, int]:
    counts = status.counts
    return counts.redelivered, counts.reattached, counts.dropped, counts.other_body, counts.doubled


FIVE = [b"m0", b"m1", b"m2", b"m3", b"m4"]


class TestWhatMayNotBeRedelivered:
    """An unknown kind of destination may be a topic, and an unknown broker may forget its messages."""

    @pytest.mark.rule("2.4")
    @pytest.mark.parametrize("name", ["prices", "/queue/prices"])
    @pytest.mark.parametrize(("id_header", "rows"), [("message-id", 5), (None, 10)])
    def test_stays_when_the_connection_breaks(
        self,
        devbroker: DevBroker,
        id_header: str | None,
        rows: int,
        name: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        devbroker.publish_many(name, [b"m"] * 5)
        options = {} if id_header is None else {"idHeader": id_header}
        with receiving(devbroker.url, name, broker="generic", **options) as receiver:
            receiver.wait_received(5)
            devbroker.drop_connections()
            wait_until(lambda: devbroker.queue(name).redelivered == 5, what="the redelivery")
            receiver.wait_received(rows)
            receiver.acknowledge(rows)
            wait_until(lambda: devbroker.queue(name).depth == 0, what="the ACKs")
            assert receiver.status().received == rows
        assert caplog.text.count("whether prices is a queue or a topic is not known") == (name == "prices")
        assert caplog.text.count("spark-stomp probe URL --scratch QUEUE") == 1


class TestReconnect:
    @pytest.mark.rule("2.3", "4.3")
    def test_offered_messages_are_reattached_and_numbers_go_on(self, devbroker: DevBroker) -> None:
        devbroker.publish_many(QUEUE, FIVE)
        with receiving(devbroker.url) as receiver:
            receiver.wait_received(5)
            receiver.offer(5)
            again(receiver, devbroker)
            devbroker.publish(QUEUE, b"new")
            receiver.wait_received(6)
            assert bodies(receiver, 0, 6) == [*FIVE, b"new"]
            assert figures(receiver.status()) == (5, 5, 0, 0, 0)
            receiver.acknowledge(6)
            wait_until(lambda: devbroker.queue(QUEUE).acked == 6, what="the ACKs")
            wait_until(lambda: not receiver.status().acks_pending, what="the receipts")
            assert devbroker.connections == 1

    @pytest.mark.rule("4.6")
    def test_in_stomp_10_too_since_its_acks_are_cumulative(self, devbroker: DevBroker) -> None:
        devbroker.publish_many(QUEUE, FIVE)
        with receiving(devbroker.url, acceptVersions="1.0") as receiver:
            receiver.wait_received(3)
            receiver.offer(3)
            again(receiver, devbroker)
            receiver.wait_received(8)
            receiver.acknowledge(8)
            wait_until(lambda: devbroker.queue(QUEUE).acked == 5, what="the ACKs")

    @pytest.mark.rule("4.8")
    @pytest.mark.usefixtures("quick_logins")
    def test_a_login_that_is_refused_now_is_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        """The password is being changed, or the server that knows it is away."""
        users = {"ada": "right"}
        login = {"login": "ada", "password": "right"}
        with DevBroker(users=users) as broker, receiving(broker.url, **login) as receiver:
            receiver.wait_subscribed()
            users["ada"] = "changed"
            broker.drop_connections()
            wait_until(lambda: caplog.text.count("[STOMP_LOGIN_REFUSED]") >= 2, what="two refusals")
            assert "slowly because some servers lock an account" in caplog.text
            users["ada"] = "right"
            broker.publish_many(QUEUE, FIVE)
            receiver.wait_received(5)
            assert receiver.status().failure is None

    @pytest.mark.rule("4.8")
    def test_a_password_file_that_is_away_for_a_moment_is_read_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It has another password then. The old one is not even refused."""
        users = {"ada": "old"}
        (file := tmp_path / "password").write_text("old\n")
        login = {"login": "ada", "passwordFile": file}
        with DevBroker(users=users) as broker, receiving(broker.url, **login) as receiver:
            receiver.wait_subscribed()
            users["ada"] = "new"
            file.unlink()
            broker.drop_connections()
            wait_until(lambda: receiver.status().connection.attempts >= 2, what="two attempts")
            assert f"[STOMP_PASSWORD_UNREADABLE] passwordFile {file} cannot" in caplog.text
            file.write_text("new\n")
            broker.publish_many(QUEUE, FIVE)
            receiver.wait_received(5)
            assert broker.connects == 2
        assert "[STOMP_LOGIN_REFUSED]" not in caplog.text

    @pytest.mark.rule("4.8")
    def test_one_that_is_not_there_at_the_beginning_is_said_at_once(
        self, devbroker: DevBroker, tmp_path: Path
    ) -> None:
        with receiving(devbroker.url, login="ada", passwordFile=tmp_path / "no") as receiver:
            assert isinstance(receiver.wait_failed(), PasswordUnreadable)
        assert devbroker.connects == 0

    @pytest.mark.rule("4.8")
    def test_a_login_that_stays_refused_ends_it_in_time_and_is_not_tried_often(self) -> None:
        users = CountedUsers(ada="right")
        options = {"login": "ada", "password": "right", "reconnectTimeout": "1s"}
        with DevBroker(users=users) as broker, receiving(broker.url, **options) as receiver:
            receiver.wait_subscribed()
            users["ada"] = "changed"
            broker.drop_connections()
            failure = receiver.wait_failed()
            assert type(failure) is LoginRefused
            assert "has refused it since" in str(failure)
            assert receiver.status().connection.attempts <= 3
            # Once it was accepted, and once refused. The end of the limit is too soon to send it again.
            assert users.asked == 2

    @pytest.mark.rule("4.8")
    @pytest.mark.parametrize("late", ["all files", "the client's", "the key", "nothing comes"])
    def test_a_certificate_that_is_refused_now_is_tried_until_the_limit(
        self, devbroker: DevBroker, tmp_path: Path, late: str
    ) -> None:
        """The broker has new certificates, and the files here are replaced later, or one by one."""
        old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
        client = {name: authority.issue("client") for name, authority in (("old", old), ("new", new))}
        (live := tmp_path / "live").mkdir()

        def put(name: str, content: bytes) -> None:
            (live / "new").write_bytes(content)
            (live / "new").replace(live / name)

        def put_client(who: str, *, key: str) -> None:
            put("client.pem", client[who].cert_file.read_bytes())
            put("client.key", client[key].key_file.read_bytes())

        put("ca.pem", old.ca_file.read_bytes())
        put_client("old", key="old")
        files = {"tlsCaFile": "ca.pem", "tlsCertFile": "client.pem", "tlsKeyFile": "client.key"}
        options = {key: str(live / name) for key, name in files.items()}
        options |= {
            "reconnectTimeout": "1s" if late == "nothing comes" else "60s",
            "reconnectDelayMax": "250ms",
        }
        first = tls_front(devbroker.port, old.issue().server_context(old.ca_file))
        # Authorities overlap, but for one case: then a refusal is about one certificate.
        authority = old if late == "the client's" else new
        second = tls_front(devbroker.port, authority.issue().server_context(new.ca_file))
        with (
            first as before,
            second as after,
            FaultProxy(before) as proxy,
            receiving(f"stomp+ssl://127.0.0.1:{proxy.port}", **options) as receiver,
        ):
            receiver.wait_subscribed()
            if late == "the key":
                put("ca.pem", new.ca_file.read_bytes())
                put_client("new", key="old")
            proxy.target = after
            proxy.cut()
            if late == "nothing comes":
                failure = receiver.wait_failed()
                assert isinstance(failure, TlsRefused) and "succeeded before" in str(failure)
                return
            wait_until(lambda: receiver.status().connection.attempts > 2, what="refusals")
            put("ca.pem", authority.ca_file.read_bytes())
            put_client("new", key="new")
            wait_until(lambda: receiver.status().connection.connections == 2, what="the next one")

    @pytest.mark.rule("4.8")
    @pytest.mark.usefixtures("quick_logins")
    @pytest.mark.parametrize(("answers", "error"), [(99, ClientIdInUse), (1, ConnectionLost)])
    def test_a_client_id_that_is_still_in_use_is_asked_for_again(
        self, answers: int, error: type[StompError], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Also if the next answer is none: ActiveMQ 6.3.1 closed 34 of 400 such connections without its ERROR
        (November 2026)."""
        attempts: list[bytes] = []

        def serve(connection: socket.socket) -> None:
            attempts.append(connection.recv(1000))
            if len(attempts) <= answers:
                connection.sendall(b"ERROR\nmessage:Client\\c ada already connected\n\n\0")

        with receiving(serve, clientId="ada", reconnectTimeout="1s") as receiver:
            # Not that of the second attempt, but of the end of the time.
            assert isinstance(receiver.wait_failed(), error)
        assert len(attempts) >= 2
        told = caplog.text.count("noticed the end of the last connection with this clientId")
        assert told >= min(answers, 2)

    @pytest.mark.rule("4.8")
    def test_a_subscription_that_the_broker_ends_is_asked_for_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """RabbitMQ: a queue was deleted while SUBSCRIBEs to others had no receipt. None is blamed."""

        def asked(number: int, frame: bytes) -> bytes:
            if b"x-stream-offset" in frame:  # the question whether it is a stream, on a connection of its own
                return b"ERROR\nmessage:no\n\n%b\0" % NO_STREAM.format("rabbit_classic_queue").encode()
            refused = number == 1 and b"destination:/queue/b" in frame
            return b"ERROR\nmessage:Server cancelled subscription\n\n\0" if refused else b""

        with receiving(ScriptedBroker(b"RabbitMQ/3.10.8", asked).serve, [QUEUE, "/queue/b"]) as receiver:
            receiver.wait_subscribed()
        assert "Server cancelled subscription" in caplog.text and "/queue/b:" not in caplog.text

    @pytest.mark.rule("4.8")
    def test_a_broker_that_is_not_ready_at_the_beginning_is_waited_for(self) -> None:
        """Apollo says so while it replays its log."""
        broker = ScriptedBroker(b"Fake/1", lambda *_: b"")
        answers = [b"ERROR\nmessage:Virtual host stopped.\n\n\0"] * 2

        def serve(connection: socket.socket) -> None:
            says(answers.pop())(connection) if answers else broker.serve(connection)

        with receiving(serve) as receiver:
            receiver.wait_subscribed()
        assert not answers

    @pytest.mark.rule("7.2")
    def test_nobody_there_at_the_beginning_is_said_at_once(self) -> None:
        with DevBroker() as broker:
            url = broker.url
        with receiving(url, reconnectTimeout="1h") as receiver:
            assert isinstance(receiver.wait_failed(), ConnectFailed)

    def test_a_break_before_the_first_subscription_is_one_like_any_other(self, devbroker: DevBroker) -> None:
        devbroker.publish_many(QUEUE, FIVE)
        devbroker.faults.drop_after_frames = 1  # which is the SUBSCRIBE
        with receiving(devbroker.url) as receiver:
            wait_until(lambda: devbroker.connects >= 2, what="another connection")
            devbroker.faults.drop_after_frames = None
            receiver.wait_received(5)
            assert receiver.status().failure is None

    @pytest.mark.rule("4.8")
    def test_a_broker_that_stays_away_ends_it_in_time(self) -> None:
        with DevBroker() as broker:
            broker.publish_many(QUEUE, FIVE)
            receiver = LoneReceiver(source_options(broker.url, reconnectTimeout="1s"))
            receiver.start()
            receiver.wait_received(5)
            receiver.offer(5)
        wait_until(lambda: not receiver.status().subscribed, what="the loss")
        assert bodies(receiver, 0, 5) == FIVE
        failure = receiver.wait_failed()
        assert isinstance(failure, ConnectionLost)
        assert "reconnectTimeout (1s)" in str(failure)
        receiver.stop(Deadline.after(4))

    def test_the_end_does_not_wait_for_the_next_attempt(self) -> None:
        with DevBroker() as broker:
            receiver = LoneReceiver(source_options(broker.url))
            receiver.start()
            receiver.wait_subscribed()
        begun = time.monotonic()
        receiver.stop(Deadline.after(PATIENCE))
        assert time.monotonic() - begun < PATIENCE / 2


@pytest.mark.rule("4.7")
def test_receipts_that_keep_coming_are_patience_enough(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch confirmed group by group may take longer than ackReceiptTimeout altogether."""
    monkeypatch.setattr("spark_stomp.receiver.reading._ACK_GROUP", 10)
    devbroker.publish_many(QUEUE, [b"m"] * 100)
    with receiving(devbroker.url, ackReceiptTimeout="2s") as receiver:
        receiver.wait_received(100)
        slowly = receiver.deliveries.confirm
        monkeypatch.setattr(
            receiver.deliveries, "confirm", lambda receipt: (time.sleep(0.3), slowly(receipt))
        )
        begun = time.monotonic()
        receiver.acknowledge(100)
        wait_until(lambda: receiver.status().acked == 100, what="all receipts")
        assert time.monotonic() - begun > 2
        assert receiver.status().failure is None


@pytest.mark.rule("7.1")
@pytest.mark.parametrize("host", ["broker..example.com", "x" * 64 + ".example.com"])
def test_a_host_name_that_cannot_be_looked_up_is_a_failure_and_no_silence(host: str) -> None:
    with receiving(f"stomp://{host}:61613", connectTimeout="1s") as receiver:
        assert host in str(receiver.wait_failed())


def test_each_event_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Every attempt that failed only with debug."""
    caplog.set_level("DEBUG", "spark_stomp")
    with DevBroker() as broker:
        broker.publish_many(QUEUE, FIVE)
        with receiving(broker.url, reconnectTimeout="1s") as receiver:
            receiver.wait_received(5)
            receiver.offer(5)
            again(receiver, broker)
            broker.stop()
            receiver.wait_failed()
    peer = f"127.0.0.1:{broker.port}"
    expected = (
        ("INFO", f"subscribed to {QUEUE} at {peer}"),
        ("WARNING", "connection lost: [STOMP_CONNECTION_LOST] "),
        ("WARNING", "connected again after 0."),
        ("INFO", f"subscribed to {QUEUE} at {peer}"),
        ("WARNING", "connection lost: [STOMP_CONNECTION_LOST] "),
        ("ERROR", "ended: [STOMP_CONNECTION_LOST] "),
    )
    ours = [record for record in caplog.records if not record.name.startswith("spark_stomp.devbroker")]
    lines = [(record.levelname, record.getMessage()) for record in ours if record.levelname != "DEBUG"]
    assert len(lines) == len(expected), lines
    for (level, text), (wanted_level, begin) in zip(lines, expected, strict=True):
        assert level == wanted_level
        assert f"receiver={QUEUE}#0: {begin}" in text
    assert any("#0: no connection: " in record.getMessage() for record in ours if record.levelname == "DEBUG")
