"""Rows to frames: what is refused and how it is said, what is dropped, and what becomes a dead letter."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.codec import decode

from spark_stomp.brokers.outgoing import Outgoing
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import (
    BrokerError,
    FrameEncodeError,
    RowNotText,
    RowTooLarge,
    RowUnencodable,
    RowWithoutKey,
    SinkRowError,
)
from spark_stomp.protocol import Frame, Limits
from spark_stomp.protocol.encoder import HeaderNames, ValueRule
from spark_stomp.sink.encoder import RowEncoder
from spark_stomp.sink.rules import SendRules, TimeToLive
from spark_stomp.sink.window import EncodedSlice, receipt_id

TYPES = {
    "body": pa.binary(),
    "destination": pa.string(),
    "content_type": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
    "persistent": pa.bool_(),
    "priority": pa.int32(),
    "ttl": pa.int64(),
}


def batch_of(rows: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    """Values, or arrays as they are."""
    kinds = TYPES | types
    arrays = {name: values for name, values in rows.items() if isinstance(values, pa.Array)}
    made = {name: pa.array(rows[name], kinds.get(name)) for name in rows.keys() - arrays.keys()}
    return pa.record_batch({name: (arrays | made)[name] for name in rows})


def encoder_for(batch: pa.RecordBatch, **rules: Any) -> RowEncoder:
    given = {"version": "1.2", "destination": "/q"} | rules
    return RowEncoder(SinkColumns(tuple(batch.schema.names), False), SendRules(**given), lambda: 1000.0)


def slices(rows: dict[str, Any], **rules: Any) -> list[EncodedSlice]:
    batch = batch_of(rows)
    return list(encoder_for(batch, **rules).slices(batch))


def frames(rows: dict[str, Any], **rules: Any) -> list[Frame]:
    return decode(rules.get("version", "1.2"), [bytes(part.data) for part in slices(rows, **rules)]).frames


def not_utf8(*values: bytes) -> pa.Array:
    """Strings as Spark's ``cast(binary as string)`` makes them."""
    octets = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), octets.buffers())


def test_a_frame_as_it_stands_on_the_wire() -> None:
    rows = {"headers": [[("a:", "1\n"), ("b", "2")], None], "body": [b"\0\xff", b""]}
    rows |= {"destination": ["/queue/x", "/topic/y"], "content_type": ["text/plain", None]}
    (one,) = slices(rows, destination=None, headers=(("persistent", "true"),), queue_headers=(("kind", "q"),))
    assert bytes(one.data) == (
        b"SEND\ndestination:/queue/x\nkind:q\npersistent:true\ncontent-type:text/plain\na\\c:1\\n\nb:2\n"
        b"receipt:%b\ncontent-length:2\n\n\0\xff\0"
        b"SEND\ndestination:/topic/y\npersistent:true\nreceipt:%b\ncontent-length:0\n\n\0"
    ) % (receipt_id(0).encode(), receipt_id(1).encode())
    assert [one.destination(0), one.destination(1)] == ["/queue/x", "/topic/y"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("bad", [[], [None]])
def test_errors_name_a_destination_as_rows_do(version: str, bad: list[None]) -> None:
    """Not as the frame spells it, whether the slice is encoded at once or row by row."""
    names = ["/queue/a\\b", "/queue/é", "/queue/plain"] + ([] if version == "1.0" else ["/queue/a:b\n"])
    rows = {"body": [b"x"] * len(names) + bad, "destination": names + ["/queue/bad"] * len(bad)}
    (part,) = slices(rows, version=version, destination=None, on_error="drop")
    assert [part.destination(n) for n in range(len(names))] == names


class TestSlices:
    def test_are_bounded_in_messages_and_receipts_go_on(self) -> None:
        batch = batch_of({"body": [b"%d" % n for n in range(5)]})
        encoder = encoder_for(batch, most_messages=2)
        parts = [*encoder.slices(batch), *encoder.slices(batch)]
        found = [(part.first_receipt, len(part)) for part in parts]
        assert found == [(0, 2), (2, 2), (4, 1), (5, 2), (7, 2), (9, 1)]

    def test_are_bounded_in_bytes_and_one_message_always_goes(self) -> None:
        rows = {"body": [b"x" * size for size in (400, 400, 5_000, 400, 400)]}
        assert [len(part) for part in slices(rows, most_bytes=1_100)] == [2, 1, 2]

    def test_of_large_types(self) -> None:
        """As with spark.sql.execution.arrow.useLargeVarTypes."""
        kind = pa.map_(pa.large_string(), pa.large_string())
        batch = batch_of(
            {"body": ["a", "b"], "destination": ["/x", "/y"], "headers": [[("a", "1")], [("b", "2")]]},
            body=pa.large_binary(), destination=pa.large_string(), headers=kind,
        )  # fmt: skip
        (one,) = encoder_for(batch.slice(1, 1), destination=None).slices(batch.slice(1, 1))
        assert bytes(one.data).startswith(b"SEND\ndestination:/y\nb:2\n")


class TestHeaders:
    def test_a_column_wins_over_the_map_and_that_over_the_options(self) -> None:
        headers = [[("a", "row"), ("content-type", "row")], [("content-type", "row")], []]
        rows = {"body": [b""] * 3, "headers": headers, "content_type": ["column", None, None]}
        options = (("a", "option"), ("b", "option"), ("content-type", "option"))
        found = [dict(frame.headers) for frame in frames(rows, headers=options)]
        assert [(one["a"], one["b"], one["content-type"]) for one in found] == [
            ("row", "option", "column"),
            ("option", "option", "row"),
            ("option", "option", "option"),
        ]

    def test_a_null_value_leaves_its_header_as_it_was(self) -> None:
        rows = {"body": [b""], "headers": [[("a", None), ("b", None)]]}
        (frame,) = frames(rows, headers=(("a", "1"),))
        assert (frame.get("a"), frame.get("b")) == ("1", None)

    def test_what_a_queue_needs_is_left_to_the_row_that_sets_it(self) -> None:
        headers, names = [None, [("kind", "row")], None], ["/queue/a", "/queue/a", "/topic/a"]
        rows = {"body": [b""] * 3, "destination": names, "headers": headers}
        found = frames(rows, destination=None, queue_headers=(("kind", "q"),))
        assert [frame.get("kind") for frame in found] == ["q", "row", None]

    @pytest.mark.parametrize(("absolute", "added"), [(True, 1_000_000), (False, 0)])
    def test_time_to_live_of_the_row_or_of_all(self, absolute: bool, added: int) -> None:
        found = frames({"body": [b"", b""], "ttl": [250, None]}, ttl=TimeToLive("expires", absolute, 500))
        assert [frame.get("expires") for frame in found] == [str(added + 250), str(added + 500)]

    def test_columns_of_simple_types(self) -> None:
        rows = {"body": [b""] * 2, "n": pa.array([7, None], pa.int64()), "f": [True, False], "s": ["ü:", ""]}
        first, second = frames(rows, columns=(("n", "n"), ("f", "flag"), ("s", "s")))
        assert [first.get(name) for name in ("n", "flag", "s")] == ["7", "true", "ü:"]
        assert [second.get(name) for name in ("n", "flag", "s")] == [None, "false", ""]

    def test_times_are_in_utc_whatever_the_zone_of_the_session(self) -> None:
        """Spark 4.0 gives them in UTC, later releases in the session's zone."""
        for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
            at = pa.array([1_700_000_000_123_456, None], pa.timestamp("us", zone))
            found = frames({"body": [b"", b""], "at": at}, columns=(("at", "at"),))
            assert [frame.get("at") for frame in found] == ["2023-11-14 22:13:20.123456Z", None]

    def test_a_time_without_a_zone_stays_so(self) -> None:
        at = pa.array([1_700_000_000_123_456], pa.timestamp("us"))
        (found,) = frames({"body": [b""], "at": at}, columns=(("at", "at"),))
        assert found.get("at") == "2023-11-14 22:13:20.123456"

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
    def test_years(self, zone: str) -> None:
        """Beyond these Arrow has other years, or no text at all."""
        last = 253_402_300_800_000_000
        columns = (("at", "at"),)
        for good, text in (
            (-62_135_596_800_000_000, "0001-01-01 00:00:00.000000Z"),
            (last - 1, "9999-12-31 23:59:59.999999Z"),
        ):
            rows = {"body": [b""], "at": pa.array([good], pa.timestamp("us", zone))}
            assert [sent.get("at") for sent in frames(rows, columns=columns)] == [text]
        times = pa.array([-62_135_596_800_000_001, last, (1 << 63) - 1, -(1 << 63)], pa.timestamp("us", zone))
        days = pa.array([-719_163, 2_932_897, (1 << 31) - 1], pa.int32()).cast(pa.date32())
        for bad in (column.slice(n, 1) for column in (times, days) for n in range(len(column))):
            rows = {"body": [b""], "at": bad}
            with pytest.raises(SinkRowError, match="its at is not within the years 1 to 9999"):
                frames(rows, columns=columns)
            (letter,) = frames(rows, columns=columns, on_error="deadletter", dead_letter="/dead")
            assert letter.get("at") is None


class TestIds:
    @pytest.mark.rule("S.11")
    def test_tell_rows_apart_and_stay_the_same(self) -> None:
        rows = {"body": [b""] * 5, "a": ["ab", "a", "ab", None, "c"], "b": ["c", "bc", "c", "c", None]}
        found = [frame.get("id") for frame in frames(rows, dedup_key=("a", "b"), dedup_header="id")]
        assert found[0] == found[2] and len(set(found)) == 4
        # A golden value: another release must give a row that is sent again the same id.
        assert found[0] == "709cf327ef95531b685902e50b513a88"

    def test_do_not_depend_on_the_type_of_a_number(self) -> None:
        ids = set()
        for kind in (pa.int8(), pa.int64()):
            rows = {"body": [b""], "k": pa.array([5], kind)}
            ids |= {frame.get("id") for frame in frames(rows, dedup_key=("k",), dedup_header="id")}
        assert len(ids) == 1

    def test_of_nothing_are_refused(self) -> None:
        with pytest.raises(RowWithoutKey, match=r"row 1 .*dedupKey"):
            slices({"body": [b"", b""], "k": ["a", None]}, dedup_key=("k",), dedup_header="id")


@pytest.mark.parametrize(("body", "error"), [(b"a\0", RowUnencodable), (b"\xff", RowNotText)])
def test_text_messages_are_text(body: bytes, error: type[SinkRowError]) -> None:
    with pytest.raises(error, match=r"row 1 .*its body"):
        slices({"body": [b"a", body]}, text=True)


LIMITS = Limits(max_header_line=30, max_headers=9, max_body=50, max_frame=150)
# What is wrong, the class of the error, and what the text says.
BAD_ROWS: list[tuple[dict[str, Any], type[SinkRowError], str]] = [
    ({"body": None}, SinkRowError, "its body is null"),
    ({"destination": None}, SinkRowError, "no destination: set the option `destination`"),
    ({"destination": ""}, SinkRowError, "no destination"),
    ({"headers": [("", "x")]}, SinkRowError, "a header has no name"),
    ({"headers": [(" a", "x")]}, RowUnencodable, "header name ' a' begins or ends with a blank"),
    ({"headers": [("a", "x\0")]}, RowUnencodable, "header 'a' of SEND holds NUL"),
    ({"headers": [("a\0b", "x")]}, RowUnencodable, "header 'a\\\\x00b' of SEND holds NUL"),
    ({"destination": "/q\0"}, RowUnencodable, "header 'destination' of SEND holds NUL"),
    ({"content_type": "x\0"}, RowUnencodable, "header 'content-type' of SEND holds NUL"),
    ({"priority": 10}, SinkRowError, "its priority is '10', and must be from 0 to 9"),
    ({"priority": None, "headers": [("priority", "4.0")]}, SinkRowError, "its priority is '4.0', and must"),
    ({"ttl": None, "headers": [("t", "-1")]}, SinkRowError, "its t is '-1', and must be a number"),
    ({"headers": [("kept", "a\nb")]}, SinkRowError, r"its kept is 'a\\nb', and must be one line"),
    ({"ttl": 0}, SinkRowError, "its ttl is 0 ms, and must be more than 0"),
    ({"body": b"x" * 51}, RowTooLarge, "its body has 51 bytes; maxBodyBytes allows 50"),
    ({"headers": [("abc", "x" * 27)]}, RowTooLarge, "the header 'abc' has 31 bytes; maxHeaderLineBytes"),
    ({"content_type": "x" * 20}, RowTooLarge, "the header 'content-type' has 33 bytes"),
    ({"headers": [(f"h{n}", "") for n in range(5)]}, RowTooLarge, "it has 10 headers; maxHeaders"),
    (
        {"body": b"x" * 50, "headers": [(f"h{n}", "x" * 26) for n in range(3)]},
        RowTooLarge,
        r"its frame has \d+ bytes; maxFrameBytes allows 150",
    ),
]  # fmt: skip
GOOD = {"body": b"good", "destination": "/x", "headers": None, "content_type": None, "priority": 4, "ttl": 1}
RULES: dict[str, Any] = {
    "destination": None,
    "limits": LIMITS,
    "columns": (("content_type", "content-type"), ("priority", "priority")),
    "ttl": TimeToLive("t", False, None),
    "outgoing": Outgoing(
        HeaderNames(frozenset()),
        (
            ValueRule("priority", "0*[0-9]", "be from 0 to 9"),
            ValueRule("t", "[0-9]+", "be a number"),
            ValueRule("kept", "(?s:.*\n.*)", "be one line", allowed=False),
        ),
    ),
}


def with_bad(bad: dict[str, Any]) -> dict[str, Any]:
    rows = [GOOD, GOOD, GOOD | bad, GOOD]
    return {name: [row[name] for row in rows] for name in GOOD}


class TestRowsThatCannotBeSent:
    @pytest.mark.parametrize(("bad", "error", "text"), BAD_ROWS)
    def test_fail_before_any_row_of_their_slice(
        self, bad: dict[str, Any], error: type[SinkRowError], text: str
    ) -> None:
        batch = batch_of(with_bad(bad))
        encoder = encoder_for(batch, most_messages=3, **RULES)
        with pytest.raises(error, match=f"row 2 of its partition .*cannot be sent: .*{text}") as raised:
            next(encoder.slices(batch))
        assert type(raised.value) is error

    def test_are_counted_over_batches_and_slices(self) -> None:
        batch = batch_of({"body": [b"1", b"2", b"3"], "destination": ["/x", "/y", None]})
        encoder = encoder_for(batch, destination=None, most_messages=2)
        good = batch.slice(0, 2)
        assert len(list(encoder.slices(good))) == 1
        parts = encoder.slices(batch)
        assert len(next(parts)) == 2
        with pytest.raises(SinkRowError, match=r"row 4 of its partition .*destination \(none\)"):
            next(parts)

    @pytest.mark.parametrize(
        "rows",
        [
            {"body": [b"", b""], "destination": not_utf8(b"/x", b"\xff")},
            {"body": [b"", b""], "content_type": not_utf8(b"/x", b"\xff")},
            {"body": not_utf8(b"", b"\xff")},
        ],
    )
    def test_strings_that_are_not_utf8(self, rows: dict[str, Any]) -> None:
        with pytest.raises(RowNotText, match=r"row 1 .*is not valid UTF-8"):
            slices(rows, destination=None if "destination" in rows else "/q")


def test_options_that_the_version_cannot_carry_are_refused_before_any_row() -> None:
    with pytest.raises(FrameEncodeError, match="'a'"):
        encoder_for(batch_of({"body": []}), version="1.0", headers=(("a", "\n"),))


@pytest.mark.parametrize("given", ["columns", "dedup_header"])
def test_a_name_that_the_version_cannot_carry_is_refused_before_any_row(given: str) -> None:
    """As a header line of 1.0, ``a:b`` is the header ``a``."""
    name: dict[str, Any] = {"columns": (("a:b", "a:b"),)}
    if given == "dedup_header":
        name = {"dedup_key": ("a:b",), "dedup_header": "a:b"}
    batch = batch_of({"body": [b""], "a:b": pa.array(["x"])})
    with pytest.raises(FrameEncodeError, match="'a:b'"):
        encoder_for(batch, version="1.0", **name)


@pytest.mark.parametrize("absolute", [True, False])
def test_a_time_to_live_too_large_to_be_added_to_a_time(absolute: bool) -> None:
    """It would wrap around to a time long ago, and the broker would confirm the message and drop it."""
    ttl = TimeToLive("expires", absolute, None)
    with pytest.raises(SinkRowError, match="its ttl is 9223372036854775807 ms"):
        slices({"body": [b""], "ttl": [2**63 - 1]}, ttl=ttl)


class TestDrop:
    def test_the_others_are_sent_and_receipts_have_no_gap(self, caplog: pytest.LogCaptureFixture) -> None:
        rows = {"body": [b"0", None, b"2", None], "destination": ["/x", "/y", "/x", None]}
        (one,) = slices(rows, destination=None, on_error="drop")
        assert (len(one), one.dropped, one.dead_lettered) == (2, 2, 0)
        assert receipt_id(1).encode() in bytes(one.frames(1, 2))
        assert caplog.text.count("cannot be sent") == 1
        assert "[STOMP_SINK_ROW_INVALID] row 1" in caplog.text

    def test_the_others_of_a_large_slice_are_sent_in_order(self) -> None:
        """It is halved until few rows are left to go one by one."""
        bodies = [None if n in (3, 250, 251) else b"%d" % n for n in range(500)]
        found = frames({"body": bodies}, on_error="drop")
        assert [frame.body for frame in found] == [body for body in bodies if body is not None]
        assert [frame.get("receipt") for frame in found] == [receipt_id(n) for n in range(497)]
        letters = frames({"body": bodies}, on_error="deadletter", dead_letter="/dead")
        assert [n for n, frame in enumerate(letters) if frame.get("destination") == "/dead"] == [3, 250, 251]


class TestDeadLetters:
    RULES: dict[str, Any] = RULES | {
        "on_error": "deadletter",
        "dead_letter": "/queue/dead",
        "limits": Limits(),
    }

    @pytest.mark.rule("S.9", "S.10")
    def test_take_the_row_s_place_with_the_reason(self) -> None:
        bad = {
            "headers": [("a", "1"), ("b", "\0"), (" c", "x"), ("kept", "\n")],
            "content_type": "text/plain",
        }
        found = frames(with_bad(bad), **self.RULES, headers=(("persistent", "true"),))
        assert [frame.get("destination") for frame in found] == ["/x", "/x", "/queue/dead", "/x"]
        assert [frame.get("receipt") for frame in found] == [receipt_id(n) for n in range(4)]
        letter = dict(found[2].headers)
        assert letter.pop("dead-letter-reason").startswith("[STOMP_SINK_ROW_")
        assert letter == {
            "destination": "/queue/dead",
            "persistent": "true",
            "a": "1",
            "content-type": "text/plain",
            "dead-letter-from": "/x",
            "receipt": receipt_id(2),
            "content-length": "4",
        }
        assert found[2].body == b"good"

    @pytest.mark.rule("S.9")
    def test_of_a_frame_that_the_broker_refuses(self) -> None:
        rows = {"body": [b"\0x"], "destination": ["/no:w"], "headers": [[("a", "1:\n"), ("b", "2")]]}
        encoder = encoder_for(batch_of(rows), **self.RULES)
        (encoded,) = encoder.slices(batch_of(rows))
        instead = encoder.instead([bytes(encoded.data)], BrokerError("it is gone"))
        assert instead is not None and (instead.first_receipt, instead.dead_lettered) == (1, 1)
        assert instead.destinations == {"/queue/dead"}
        (letter,) = decode("1.2", [bytes(instead.data)]).frames
        assert letter.body == b"\0x"
        assert dict(letter.headers) == {
            "destination": "/queue/dead",
            "a": "1:\n",
            "b": "2",
            "dead-letter-from": "/no:w",
            "dead-letter-reason": "[STOMP_SINK_ROW_REFUSED] it is gone",
            "receipt": receipt_id(1),
            "content-length": "2",
        }

    @pytest.mark.rule("S.11")
    def test_have_the_headers_of_their_columns_and_the_id_of_the_row(self) -> None:
        rows = {
            "body": [b"0", b"1"],
            "order": pa.array([7, 7]),
            "persistent": [None, False],
            "priority": [4, 12],
        }
        columns = tuple((name, name) for name in ("order", "persistent", "priority"))
        rules = {"outgoing": RULES["outgoing"], "on_error": "deadletter", "dead_letter": "/dead"}
        good, bad = frames(rows, columns=columns, dedup_key=("order",), dedup_header="id", **rules)
        assert (bad.get("destination"), bad.get("order")) == ("/dead", "7")
        assert bad.get("id") == good.get("id") is not None
        assert (bad.get("persistent"), bad.get("priority")) == (None, None)

    def test_are_kept_whatever_is_said_of_the_message(self) -> None:
        """By the row, and by the options: how long it lives, and what the broker is to do."""
        said = ("priority", "expires", "expiration", "persistent", "command", "dead-letter-from", "a")
        rows = {"body": [b""], "headers": [[(name, "1") for name in said]], "order": pa.array([1])}
        headers = (("expires", "1"), ("expiration", "1"), ("own", "1"))
        outgoing = Outgoing(HeaderNames(frozenset({"command"})), ())
        left_out = {"columns": (("order", "command"),), "outgoing": outgoing}
        dead = {"on_error": "deadletter", "dead_letter": "/dead"}
        (letter,) = frames(rows, destination=None, headers=headers, **left_out, **dead)
        kept = ["destination", "own", "a", "dead-letter-reason", "receipt", "content-length"]
        assert [name for name, _ in letter.headers] == kept

    def test_octets_that_are_not_utf8_stay_what_they_are(self) -> None:
        rows = {"body": not_utf8(b"\xff")}
        (one,) = slices(rows, on_error="deadletter", dead_letter="/queue/dead")
        assert bytes(one.data).endswith(b"content-length:1\n\n\xff\0")

    def test_one_that_is_too_large_there_too_fails_the_task(self) -> None:
        limits = Limits(max_body=3)
        with pytest.raises(RowTooLarge, match=r"row 1 .* and not to deadLetterDestination: .* too large"):
            slices({"body": [b"1", b"1234"]}, on_error="deadletter", dead_letter="/d", limits=limits)


def test_maps_without_entries_as_spark_4_0_sends_them() -> None:
    """Of a column without values, the buffer of offsets is empty."""
    none = pa.StringArray.from_buffers(0, pa.py_buffer(b""), pa.py_buffer(b""))
    headers = pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), none, none)
    batch = pa.record_batch({"body": pa.array([b"x"]), "headers": headers})
    assert sum(len(part) for part in encoder_for(batch, destination="/queue/a").slices(batch)) == 1
