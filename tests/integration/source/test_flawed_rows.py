"""Messages of other protocols on their way: rows like any other, whose kinds are counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.driven import MODES, Run

from spark_stomp.columns import Projection
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
OCTETS = b"\xff\x01\xfe"
NATIVE = [("JMS_AMQP_NATIVE", "true")]
COLUMNS = ("body", "headers", "stable_id", "malformed")


@pytest.mark.rule("7.10")
@pytest.mark.parametrize("mode", MODES)
def test_octets_in_a_header_change_nothing_else(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    """Not if they are the stable id, and not after a restart, which brings them again."""
    for number in range(3):
        devbroker.publish(QUEUE, b"%d" % number, raw=b"x-id:%b%d\n" % (OCTETS, number))
    options = {"url": devbroker.url, "destination": QUEUE, "idHeader": "x-id", **MODES[mode](tmp_path)}
    with Run(options, COLUMNS) as run:
        rows = run.gather(3)
        assert [row["body"] for row in rows] == [b"0", b"1", b"2"]
        ids = [f"{OCTETS.decode('latin-1')}{number}" for number in range(3)]
        assert [row["stable_id"] for row in rows] == ids
        assert all("'x-id'" in row["malformed"] for row in rows)
        devbroker.drop_connections()
        devbroker.publish(QUEUE, b"3")
        run.commit()
        (last,) = run.gather(1)
        assert (last["body"], last["malformed"]) == (b"3", None)
        run.commit()
        assert run.status.document["totals"]["headers_not_text"] == 3
    with Run(options, COLUMNS) as run:
        devbroker.publish(QUEUE, b"4")
        assert [row["body"] for row in run.gather(1)] == [b"4"]


@pytest.mark.rule("7.11")
def test_bodies_that_cannot_be_decoded_are_counted_as_often_as_they_are_read(devbroker: DevBroker) -> None:
    devbroker.publish(QUEUE, b"\0Sw\xa1\3abc", NATIVE)
    devbroker.publish(QUEUE, b"\0Sw\x01", NATIVE)
    options = {"url": devbroker.url, "destination": QUEUE, "broker": "activemq"}
    with Run(options, ("body", "malformed")) as run:
        rows = run.gather(2)
        assert [row["body"] for row in rows] == [b"abc", b"\0Sw\x01"]
        assert run.status.document["totals"]["bodies_undecoded"] == 1
        assert run.read() == rows
        assert run.status.document["totals"]["bodies_undecoded"] == 2


@pytest.mark.rule("7.14")
@pytest.mark.parametrize("mode", MODES)
def test_bodies_that_do_not_fit_are_counted_for_each_destination(
    devbroker: DevBroker, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = pa.struct([("a", pa.int64())])
    chosen = Projection(("body", "rescued"), pa.schema([("body", kind), ("rescued", pa.binary())]))
    others = "/queue/b"
    devbroker.publish_many(QUEUE, [b'{"a":1}', b'{"a":"x"}', b"[]"])
    devbroker.publish_many(others, [b'{"a":2}', b'{"a":1,"a":2}'])
    names = f'["{QUEUE}", "{others}"]'
    options = {"url": devbroker.url, "destination": names, **MODES[mode](tmp_path)}
    with Run(options, chosen) as run:
        rows = run.gather(5)
        assert sorted(row["rescued"] or b"" for row in rows) == [
            *[b"", b""],
            *[b"[]", b'{"a":"x"}', b'{"a":1,"a":2}'],
        ]
        document = run.status.document
        found = document["unfit"]
        assert {name: one["reason"] for name, one in found.items()} == {
            QUEUE: "a is a string that does not fit bigint",
            others: "a field twice: a",
        }
        # As often as they were read.
        counts = [found[name]["bodies"] for name in (QUEUE, others)]
        assert counts[0] % 2 == 0 and counts[1] > 0 and document["totals"]["bodies_unfit"] == sum(counts)
        assert all(one["first_at"] <= one["last_at"] for one in found.values())
        run.commit()
        devbroker.publish(QUEUE, b"null")
        run.gather(1)
        again = run.status.document["unfit"][QUEUE]
        assert again["bodies"] > counts[0] and again["reason"] == found[QUEUE]["reason"]
        assert again["first_at"] == found[QUEUE]["first_at"] < again["last_at"]
    lines = [text for text in caplog.messages if "does not fit, the first: " in text]
    assert len(lines) == 2
    why = "a is a string that does not fit bigint"
    assert f"{QUEUE}: 2 messages with a body that does not fit, the first: {why}" in str(lines)
