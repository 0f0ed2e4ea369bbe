"""Rows to outgoing messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_stomp.arrow.outgoing import OutgoingMessage, outgoing_messages
from spark_stomp.errors import SinkRowError
from spark_stomp.schema import SinkColumns

TYPES = {
    "body": pa.binary(),
    "destination": pa.string(),
    "content_type": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
}


def messages(
    rows: dict[str, list[Any]],
    *,
    destination: str | None = None,
    send_headers: tuple[tuple[str, str], ...] = (),
    text: bool = False,
) -> list[OutgoingMessage]:
    types = TYPES | {"body": pa.string()} if text else TYPES
    arrays = [pa.array(values, types[name]) for name, values in rows.items()]
    batch = pa.RecordBatch.from_arrays(arrays, list(rows))
    columns = SinkColumns(tuple(rows), text)
    return list(outgoing_messages(batch, columns, destination=destination, send_headers=send_headers))


def test_every_column() -> None:
    rows = {
        "headers": [[("a", "1"), ("b", "2")], None],
        "body": [b"\0\xff", b""],
        "destination": ["/queue/x", "/queue/y"],
        "content_type": ["text/plain", None],
    }
    assert messages(rows) == [
        OutgoingMessage("/queue/x", (("a", "1"), ("b", "2"), ("content-type", "text/plain")), b"\0\xff"),
        OutgoingMessage("/queue/y", (), b""),
    ]


def test_text_is_sent_as_utf8() -> None:
    assert messages({"body": ["ü"]}, destination="/q", text=True)[0].body == "ü".encode()


def test_the_option_destination_wins() -> None:
    rows = {"body": [b"", b""], "destination": ["/queue/x", None]}
    assert [m.destination for m in messages(rows, destination="/queue/o")] == ["/queue/o", "/queue/o"]


def test_row_headers_override_send_headers_and_content_type_overrides_both() -> None:
    rows = {
        "body": [b"", b""],
        "headers": [[("a", "row"), ("content-type", "row")], []],
        "content_type": ["column", None],
    }
    send_headers = (("a", "option"), ("b", "option"), ("content-type", "option"))
    first, second = messages(rows, destination="/q", send_headers=send_headers)
    assert first.headers == (("a", "row"), ("b", "option"), ("content-type", "column"))
    assert second.headers == send_headers


def test_a_null_value_leaves_its_header_as_it_was() -> None:
    rows = {"body": [b""], "headers": [[("a", None), ("b", None)]]}
    assert messages(rows, destination="/q", send_headers=(("a", "1"),))[0].headers == (("a", "1"),)


def test_null_body_names_the_row() -> None:
    with pytest.raises(SinkRowError, match=r"row 1 of the batch \(destination '/q'\).* body is null"):
        messages({"body": [b"", None]}, destination="/q")


@pytest.mark.parametrize("value", [None, ""])
def test_no_destination_names_the_row(value: str | None) -> None:
    with pytest.raises(SinkRowError, match=r"row 1 of the batch.*option `destination`"):
        messages({"body": [b"", b""], "destination": ["/q", value]})


def test_no_destination_column_and_no_option() -> None:
    with pytest.raises(SinkRowError, match="row 0"):
        messages({"body": [b""]})


@pytest.mark.parametrize(
    "name", ["destination", "receipt", "transaction", "content-length", "Destination", ""]
)
def test_headers_of_the_connector_are_refused(name: str) -> None:
    with pytest.raises(SinkRowError, match=f"row 0 .* sets the header {name!r}"):
        messages({"body": [b""], "headers": [[(name, "x")]]}, destination="/q")


def test_rows_before_a_bad_one_come_first() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", None], pa.binary())], ["body"])
    rest = outgoing_messages(batch, SinkColumns(("body",), False), destination="/q", send_headers=())
    assert next(rest).body == b"a"
    with pytest.raises(SinkRowError):
        next(rest)
