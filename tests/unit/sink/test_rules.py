"""Options and dialects to frames: one spelling here, that of each broker on the wire."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codec import decode
from support.hostile_headers import COMMANDS
from support.options import sink_options

from spark_stomp.brokers import dialect_named
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import RowTooLarge, RowUnencodable, SinkRowError, UnsupportedError
from spark_stomp.protocol import Frame
from spark_stomp.sink.encoder import row_encoder
from spark_stomp.sink.rules import send_rules

BROKERS = ["activemq", "artemis", "rabbitmq", "devbroker", "generic"]


def frame(broker: str, row: dict[str, Any], **options: Any) -> Frame:
    """The frame of one row."""
    given = {"destination": "/queue/a"} | options
    parsed = sink_options("stomp://broker", **given)
    types = {"headers": pa.map_(pa.string(), pa.string()), "ttl": pa.int64()}
    batch = pa.record_batch({name: pa.array([value], types.get(name)) for name, value in row.items()})
    columns = SinkColumns(tuple(row), pa.types.is_string(batch.schema.field("body").type))
    parts = row_encoder(parsed, columns, "1.2", dialect_named(broker)).slices(batch)
    (found,) = decode("1.2", [bytes(part.data) for part in parts]).frames
    assert isinstance(found, Frame)
    return found


LETTERS = {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}
TYPE = ("type", "amqp-1.0")


@pytest.mark.parametrize("broker", ["rabbitmq", "generic"])
@pytest.mark.parametrize("headers", [[], [("expiration", "banana")]])
class TestTheTypeOfEncodedBodies:
    """With and without a row that takes the slow path."""

    @pytest.mark.parametrize("body", [b"\0Sw\xa1\1a", b"\0Sv\x45"])
    def test_it_goes_with_a_section_of_amqp(self, broker: str, headers: Any, body: bytes) -> None:
        row = {"body": body, "headers": [TYPE, *headers]}
        assert frame(broker, row, **LETTERS).get("type") == "amqp-1.0"

    @pytest.mark.parametrize("body", ["a", b"", b"\0", "{}"])
    def test_it_goes_with_nothing_else(self, broker: str, headers: Any, body: str | bytes) -> None:
        row = {"body": body, "headers": [("other", "amqp-1.0"), TYPE, *headers]}
        sent = frame(broker, row, **LETTERS)
        assert (sent.get("type"), sent.get("other")) == (None, "amqp-1.0")

    def test_another_type_is_no_matter(self, broker: str, headers: Any) -> None:
        row = {"body": b"a", "headers": [("type", "order"), *headers]}
        assert frame(broker, row, **LETTERS).get("type") == "order"


@pytest.mark.parametrize("broker", BROKERS)
class TestOnEveryBroker:
    def test_messages_are_persistent(self, broker: str) -> None:
        assert frame(broker, {"body": b""}).get("persistent") == "true"
        assert frame(broker, {"body": b""}, persistent="false").get("persistent") is None
        assert frame(broker, {"body": b"", "persistent": False}).get("persistent") is None
        assert frame(broker, {"body": b""}, persistent="unset").get("persistent") is None
        assert (
            frame(broker, {"body": b"", "persistent": True}, persistent="unset").get("persistent") == "true"
        )
        assert frame(broker, {"body": b""}, sendHeaders='{"persistent": "false"}').get("persistent") is None

    def test_options_and_columns_of_the_same_meaning(self, broker: str) -> None:
        names = ("priority", "correlation-id", "reply-to")
        given = '{"correlation-id": "c", "reply-to": "/queue/r"}'
        options = {"priority": 7, "sendHeaders": given}
        row = {"priority": 3, "correlation_id": "d", "reply_to": "/queue/s"}
        for sent, expected in (
            (frame(broker, {"body": b""}, **options), ["7", "c", "/queue/r"]),
            (frame(broker, {"body": b""} | row, **options), ["3", "d", "/queue/s"]),
            (frame(broker, {"body": b""}), [None, None, None]),
        ):
            assert [sent.get(name) for name in names] == expected

    def test_what_a_delivery_says_of_itself_does_not_travel_on(self, broker: str) -> None:
        delivery = {
            "subscription": "0", "content-length": "5", "message-id": "25,31", "destination": "/queue/old",
            "redelivered": "true", "persistent": "false", "receipt": "s100", "ack": "25,31",
            "timestamp": "1", "transaction": "t", "Receipt": "r", "CONTENT-LENGTH": "5",
        }  # fmt: skip
        sent = frame(broker, {"body": b"", "headers": [*delivery.items(), ("x-own", "1")]})
        assert {name for name, _ in sent.headers} - {"destination-type"} == {
            "destination", "persistent", "x-own", "receipt", "content-length"
        }  # fmt: skip
        assert (sent.get("destination"), sent.get("content-length"), sent.get("persistent")) == (
            "/queue/a", "0", "true"
        )  # fmt: skip


COMMANDED = [(broker, name) for broker, names in COMMANDS.items() for name in names]
# Values with which RabbitMQ keeps a queue.
LASTING = {"durable": "true", "exclusive": "false", "auto-delete": "false"}


class TestHeadersThatCommandTheBroker:
    """None of a row reaches a frame; what the options say does."""

    @pytest.mark.rule("S.13")
    @pytest.mark.parametrize(("broker", "name"), COMMANDED)
    def test_stay_behind(self, broker: str, name: str) -> None:
        sent = frame(broker, {"body": b"", "headers": [(name, "hostile"), ("x-own", "1")]})
        assert "hostile" not in {value for _, value in sent.headers}
        assert sent.get("x-own") == "1"

    @pytest.mark.parametrize(("broker", "name"), [pair for pair in COMMANDED if pair[1] != "x-expires"])
    def test_go_out_if_an_option_says_so(self, broker: str, name: str) -> None:
        row = {"body": b"", "headers": [(name, "hostile")]}
        meant = LASTING.get(name, "meant")
        assert frame(broker, row, sendHeaders=json.dumps({name: meant})).get(name) == meant
        assert frame(broker, row | {name: meant}, headerColumns=json.dumps([name])).get(name) == meant

    @pytest.mark.rule("S.13")
    @pytest.mark.parametrize("broker", ["rabbitmq", "generic"])
    @pytest.mark.parametrize(
        ("name", "value"),
        [("durable", "false"), ("durable", "no"), ("exclusive", "true"), ("auto-delete", "True"),
         ("x-expires", "60000"), ("persistent", "False")],
    )  # fmt: skip
    def test_delete_no_queue(self, broker: str, name: str, value: str) -> None:
        with pytest.raises(UnsupportedError, match=f"sendHeaders cannot go to .*: {name} is '{value}'"):
            frame(broker, {"body": b""}, sendHeaders=json.dumps({name: value}))
        if name != "persistent":
            with pytest.raises(SinkRowError, match=f"its {name} is '{value}', and must"):
                frame(broker, {"body": b"", name: value}, headerColumns=name)
        assert frame("activemq", {"body": b""}, sendHeaders=json.dumps({name: value})).get(name) == value

    @pytest.mark.parametrize("broker", ["activemq", "artemis", "generic"])
    @given(rest=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=20))
    def test_may_be_new_ones_of_a_broker(self, broker: str, rest: str) -> None:
        for prefix in ("AMQ_", "JMS_"):
            sent = frame(broker, {"body": b"", "headers": [(f"{prefix}{rest}", "hostile")]})
            assert "hostile" not in {value for _, value in sent.headers}

    @pytest.mark.rule("S.13")
    def test_of_an_unknown_broker_are_those_of_all_in_any_case(self) -> None:
        for name in COMMANDS["generic"]:
            sent = frame("generic", {"body": b"", "headers": [(name.swapcase(), "hostile")]})
            assert "hostile" not in {value for _, value in sent.headers}

    @pytest.mark.parametrize("broker", BROKERS)
    @pytest.mark.parametrize(
        "name",
        ["type", "app-id", "JMSXGroupID", "_AMQ_GROUP_ID", "x-request-id", "x-stream-filter-value", "id"],
    )
    def test_others_travel_on(self, broker: str, name: str) -> None:
        """Also those that are like a command of another broker."""
        assert frame(broker, {"body": b"", "headers": [(name, "1")]}).get(name) == "1"


class TestDeadLettersStay:
    @pytest.mark.parametrize(
        "header", ["x-message-ttl", "x-max-length", "x-dead-letter-exchange", "expires", "expiration"]
    )
    def test_whatever_send_headers_say_of_their_queue(self, header: str) -> None:
        row = {"body": b"", "priority": 77}
        options = {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}
        said = {header: "9", "x-queue-type": "quorum", "own": "1"} | LASTING
        letter = frame("rabbitmq", row, sendHeaders=json.dumps(said), **options)
        assert letter.get("destination") == "/queue/dead"
        assert letter.get(header) is None
        kept = [letter.get(name) for name in ("x-queue-type", "own", "persistent", *LASTING)]
        assert kept == ["quorum", "1", "true", *LASTING.values()]
        # A message may be told so.
        assert frame("rabbitmq", {"body": b""}, sendHeaders=json.dumps(said)).get(header) == "9"

    def test_where_a_queue_needs_a_header(self) -> None:
        options = {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}
        letter = frame("artemis", {"body": b"", "priority": 77}, **options)
        assert letter.get("destination-type") == "ANYCAST"


class TestValuesThatABrokerEndsTheConnectionFor:
    @pytest.mark.rule("S.9")
    def test_header_lines_of_activemq(self) -> None:
        """It takes 10 KiB, name and colon included."""
        longest = "x" * (10_240 - len("own:"))
        row = {"body": b"", "headers": [("own", longest)]}
        assert frame("activemq", row).get("own") == longest
        for name, value in (("own", longest + "x"), ("correlation-id", longest)):
            with pytest.raises(RowTooLarge, match="this broker"):
                frame("activemq", {"body": b"", "headers": [(name, value)]})
        assert frame("rabbitmq", {"body": b"", "headers": [("own", longest + "x")]}).get("own")

    @pytest.mark.rule("S.9")
    @pytest.mark.parametrize(
        ("broker", "takes"), {"rabbitmq": False, "activemq": False, "artemis": True}.items()
    )
    @pytest.mark.parametrize("header", [("own", "C:\\new"), ("C:\\".replace(":", ""), "x")])
    @pytest.mark.parametrize("version", ["1.0", "lenient"])
    @pytest.mark.parametrize("by_option", [False, True])
    def test_a_backslash_without_escapes(
        self, broker: str, takes: bool, header: tuple[str, str], version: str, by_option: bool
    ) -> None:
        """These unescape it all the same: what it was is lost, or the connection."""
        mine, every = ([], dict([header])) if by_option else ([header], {})
        batch = pa.record_batch(
            {"body": pa.array([b""]), "headers": pa.array([mine], pa.map_(pa.string(), pa.string()))}
        )
        options = sink_options("stomp://broker", destination="/queue/a", sendHeaders=json.dumps(every))
        columns = SinkColumns(("body", "headers"), False)
        rows = row_encoder(options, columns, version, dialect_named(broker))
        if takes:
            assert sum(len(part) for part in rows.slices(batch)) == 1
        else:
            with pytest.raises(RowUnencodable, match="a backslash"):
                list(rows.slices(batch))

    @pytest.mark.rule("S.9")
    @pytest.mark.parametrize("broker", BROKERS)
    @pytest.mark.parametrize("value", ["", "banana", "-1", "10", "4.0", " 4", "4\n", "99999999999"])
    def test_priority(self, broker: str, value: str) -> None:
        with pytest.raises(SinkRowError, match=r"its priority is .*, and must be from 0 to 9"):
            frame(broker, {"body": b"", "headers": [("priority", value)]})
        assert frame(broker, {"body": b"", "headers": [("priority", "9")]}).get("priority") == "9"

    @pytest.mark.parametrize("broker", ["activemq", "artemis", "generic"])
    @pytest.mark.parametrize("value", ["", "banana", "-1", "4.0", "9" * 19, "1" * 20])
    def test_time_to_live_as_a_time(self, broker: str, value: str) -> None:
        with pytest.raises(SinkRowError, match=r"its expires is .*, and must be a time in ms, or 0"):
            frame(broker, {"body": b"", "headers": [("expires", value)]})
        for good in ("0", "1700000000000", str(1 << 62)):
            assert frame(broker, {"body": b"", "headers": [("expires", good)]}).get("expires") == good

    @pytest.mark.parametrize("broker", ["rabbitmq", "generic"])
    @pytest.mark.parametrize("value", ["", "banana", "-1", "0", "4.0", "315360000001", "1" * 20])
    def test_time_to_live_as_a_duration(self, broker: str, value: str) -> None:
        with pytest.raises(SinkRowError, match=r"its expiration is .*, and must be from 1 to"):
            frame(broker, {"body": b"", "headers": [("expiration", value)]})
        for good in ("1", "60000", "314999999999"):
            assert frame(broker, {"body": b"", "headers": [("expiration", good)]}).get("expiration") == good

    @pytest.mark.parametrize("broker", ["rabbitmq", "activemq", "generic"])
    def test_timestamp(self, broker: str) -> None:
        """A column of that name, as the source has it, is text like 2026-01-01 00:00:00Z."""
        with pytest.raises(SinkRowError, match="its timestamp is 'now', and must be a whole number"):
            frame(broker, {"body": b"", "timestamp": "now"}, headerColumns="timestamp")
        for since in ("1764245000", "1764245000123456789"):  # in seconds and, as some producers do, in ns
            row = {"body": b"", "timestamp": since}
            assert frame(broker, row, headerColumns="timestamp").get("timestamp") == since

    @pytest.mark.parametrize(
        ("broker", "value"),
        [
            *(("rabbitmq", value) for value in ("/foo/bar", "/queue/", "/queue/a/b", "/temp-queue/a", "a/b")),
            *(("activemq", value) for value in ("/queue/", "/topic/ ", "/queue/,", "/remote-temp-queue/")),
        ],
    )
    def test_reply_to(self, broker: str, value: str) -> None:
        for row in ({"headers": [("reply-to", value)]}, {"reply_to": value}):
            with pytest.raises(SinkRowError, match=f"its reply-to is '{value}', and must"):
                frame(broker, {"body": b"", **row})

    @pytest.mark.parametrize("broker", BROKERS)
    @pytest.mark.parametrize("value", ["", "name", "/queue/a", "/topic/a.b"])
    def test_reply_to_that_every_broker_takes(self, broker: str, value: str) -> None:
        assert frame(broker, {"body": b"", "headers": [("reply-to", value)]}).get("reply-to") == value

    @pytest.mark.parametrize("value", ["name", "a name", ""])
    @pytest.mark.parametrize("prefix", ["/reply-queue/", "queue://"])
    def test_reply_to_as_rabbitmq_and_artemis_deliver_it(self, prefix: str, value: str) -> None:
        """AMQP clients of RabbitMQ know the name alone."""
        row = {"body": b"", "headers": [("reply-to", prefix + value)]}
        assert frame("rabbitmq", row).get("reply-to") == value
        assert frame("artemis", row).get("reply-to") == prefix + value

    def test_a_name_that_is_no_destination_without_its_prefix(self) -> None:
        row = {"body": b"", "headers": [("reply-to", "/reply-queue/a/b"), ("own", "/reply-queue/a")]}
        sent = frame("rabbitmq", row)
        assert (sent.get("reply-to"), sent.get("own")) == ("/reply-queue/a/b", "/reply-queue/a")

    @pytest.mark.rule("S.9")
    @pytest.mark.parametrize(
        "name",
        ["correlation-id", "reply-to", "type", "content-type", "content-encoding", "app-id",
         "amqp-message-id"],
    )  # fmt: skip
    @pytest.mark.parametrize("text", ["x", "\u00fc", "\n"])
    def test_short_strings_of_amqp(self, name: str, text: str) -> None:
        longest = (text * 255).encode()[:255].decode(errors="ignore")
        row = {"body": b"", "headers": [(name, longest)]}
        assert frame("rabbitmq", row).get(name) == longest
        longer = {"body": b"", "headers": [(name, longest + "xx")]}
        with pytest.raises(SinkRowError, match=f"its {name} is .*, and must have at most 255 bytes"):
            frame("rabbitmq", longer)
        with pytest.raises(UnsupportedError, match=f"{name} is .*, and must have at most 255 bytes"):
            frame("rabbitmq", {"body": b""}, sendHeaders=json.dumps({name: longest + "xx"}))
        assert frame("artemis", longer).get(name) == longest + "xx"

    @pytest.mark.rule("S.9")
    def test_header_names_of_amqp(self) -> None:
        name = "\u00fc" * 127 + "x"
        assert frame("rabbitmq", {"body": b"", "headers": [(name, "v")]}).get(name) == "v"
        for row, options in (
            ({"headers": [(name + "x", "v")]}, {}),
            ({name + "x": "v"}, {"headerColumns": name + "x"}),
        ):
            with pytest.raises(SinkRowError, match=r"header name '.*' has more than 255 bytes"):
                frame("rabbitmq", {"body": b"", **row}, **options)
        with pytest.raises(UnsupportedError, match=r"header name '.*' has more than 255 bytes"):
            frame("rabbitmq", {"body": b""}, sendHeaders=json.dumps({name + "x": "v"}))
        assert frame("activemq", {"body": b"", "headers": [(name + "x", "v")]}).get(name + "x") == "v"

    @pytest.mark.parametrize(("name", "value"), [("priority", "10"), ("expiration", "0")])
    def test_options_are_held_to_them_too(self, name: str, value: str) -> None:
        with pytest.raises(UnsupportedError, match=f"{name} is '{value}', and must.*or leave it out"):
            frame("rabbitmq", {"body": b""}, sendHeaders=json.dumps({name: value}))


@pytest.mark.parametrize("broker", ["activemq", "artemis", "devbroker"])
def test_time_to_live_as_a_time(broker: str) -> None:
    before = time.time() * 1000
    for row, options in (({"body": b""}, {"ttl": "90s"}), ({"body": b"", "ttl": 90_000}, {"ttl": "1s"})):
        expires = float(frame(broker, row, **options).get("expires") or 0) - 90_000
        assert before - 1 <= expires <= time.time() * 1000 + 1


def test_time_to_live_as_a_duration() -> None:
    assert frame("rabbitmq", {"body": b""}, ttl="90s").get("expiration") == "90000"
    assert frame("rabbitmq", {"body": b"", "ttl": 5}, ttl="90s").get("expiration") == "5"
    assert frame("rabbitmq", {"body": b"", "ttl": None}).get("expiration") is None


def test_time_to_live_that_the_broker_refuses() -> None:
    """RabbitMQ takes ten years. It would end the connection, for the option as for the column."""
    assert frame("rabbitmq", {"body": b""}, ttl="3644d").get("expiration") == "314841600000"
    with pytest.raises(UnsupportedError, match=r"ttl cannot .*rabbitmq.* from 1 to 314999999999 ms"):
        frame("rabbitmq", {"body": b""}, ttl="3650d")
    with pytest.raises(SinkRowError, match=r"from 1 to 314999999999 ms"):
        frame("rabbitmq", {"body": b"", "ttl": 315_360_000_000})
    assert frame("artemis", {"body": b""}, ttl="3650d").get("expires")


def test_time_to_live_on_a_broker_that_has_none() -> None:
    with pytest.raises(UnsupportedError, match=r"ttl is given.*generic"):
        frame("generic", {"body": b""}, ttl="1s")
    with pytest.raises(UnsupportedError, match="ttl is given"):
        frame("generic", {"body": b"", "ttl": 1})


class TestText:
    @pytest.mark.parametrize("broker", ["activemq", "artemis"])
    @pytest.mark.parametrize(
        ("body", "kind", "text"),
        [("a", "auto", True), (b"a", "auto", False), ("a", "bytes", False), (b"a", "text", True)],
    )
    def test_goes_without_a_length(self, broker: str, body: object, kind: str, text: bool) -> None:
        sent = frame(broker, {"body": body}, messageType=kind)
        assert (sent.get("content-length") is None) == text
        assert sent.body == b"a"

    @pytest.mark.parametrize("broker", ["rabbitmq", "devbroker", "generic"])
    def test_is_no_matter_elsewhere(self, broker: str) -> None:
        assert frame(broker, {"body": "a\0"}, messageType="text").get("content-length") == "2"


class TestIds:
    @pytest.mark.parametrize(("broker", "header"), [("artemis", "_AMQ_DUPL_ID"), ("rabbitmq", "dedup-id")])
    def test_go_into_the_header_of_the_broker(self, broker: str, header: str) -> None:
        assert len(frame(broker, {"body": b"", "k": 1}, dedupKey="k").get(header) or "") == 32

    def test_go_into_the_header_asked_for(self) -> None:
        assert frame("artemis", {"body": b"x"}, dedupKey="body", dedupHeader="id").get("id")


def test_artemis_says_what_the_destination_is_and_not_what_an_earlier_one_was() -> None:
    row = {"body": b"", "headers": [("destination-type", "MULTICAST")]}
    assert frame("artemis", row).get("destination-type") == "ANYCAST"
    assert frame("artemis", row, destination="/topic/a").get("destination-type") is None


@pytest.fixture
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.sink.encoder._once._said", set())


@pytest.mark.usefixtures("nothing_said")
class TestWarnings:
    @pytest.mark.parametrize("destination", ["/topic/a", "/exchange/e/k"])
    def test_a_topic_is_said_once(self, destination: str, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(3):
            frame("rabbitmq", {"body": b""}, destination=destination)
        assert caplog.text.count(f"{destination} is a topic on this broker (rabbitmq)") == 1

    def test_topics_without_number_are_not_all_said(self, caplog: pytest.LogCaptureFixture) -> None:
        """One for each user, as it may be: neither the log nor memory grows with them."""
        for number in range(200):
            frame("rabbitmq", {"body": b""}, destination=f"/topic/{number}")
        assert caplog.text.count("is a topic") == 100

    def test_topics_of_later_rows_are_said_too_and_only_of_rows_that_are_sent(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """In a later slice, of a later task, whatever came before."""
        targets = [*["/queue/a"] * 3, "/topic/late", "/exchange/e", "/topic/late", None, "/topic/unsent"]
        bodies = [b""] * (len(targets) - 1) + [None]
        batch = pa.record_batch({"body": pa.array(bodies, pa.binary()), "destination": pa.array(targets)})
        options = sink_options("stomp://broker", receiptWindow=2, onError="drop")
        for _ in range(2):
            columns = SinkColumns(("body", "destination"), False)
            rows = row_encoder(options, columns, "1.2", dialect_named("rabbitmq"))
            sent = sum(len(part) for part in rows.slices(batch))
        assert sent == 6
        said = [record.getMessage().partition(" is a topic") for record in caplog.records]
        named = [line.rpartition(" ")[2] for line, topic, _ in said if topic]
        assert named == ["/topic/late", "/exchange/e"]

    def test_topics_of_dead_letters_are_said(self, caplog: pytest.LogCaptureFixture) -> None:
        frame("rabbitmq", {"body": b""}, onError="deadletter", deadLetterDestination="/topic/dead")
        assert "/topic/dead is a topic" in caplog.text


def test_slices_are_bounded_however_large_the_window_is() -> None:
    """A column of frames has 32-bit offsets."""
    options = sink_options("stomp://broker", receiptWindowBytes="64g")
    rules = send_rules(options, SinkColumns(("body",), False), "1.2", dialect_named("rabbitmq"))
    assert rules.most_bytes == 256 << 20
