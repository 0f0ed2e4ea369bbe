"""``onMalformed=column``: a malformed message is a row like any other, with the reason beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.columns import projection_of
from support.driven import MODES, Run
from support.options import source_options
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import MalformedMessageError, OptionError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.source.journal_log import stable_ids
from spark_stomp.source.reads import RowSettings

QUEUE = "/queue/a"
BAD = b"no colon\n"
LONG = b"x:%b\n" % (b"y" * 70_000)
COLUMNS = ("body", "malformed", "destination", "message_id", "stable_id", "sequence")

pytestmark = pytest.mark.rule("7.7")


class Column(Run):
    """A run with ``onMalformed=column``."""

    def __init__(self, broker: DevBroker, columns: tuple[str, ...] = COLUMNS, **further: Any) -> None:
        given = {"url": broker.url, "destination": QUEUE, "onMalformed": "column"}
        super().__init__(given, columns, **further)


def good_bad_good(broker: DevBroker) -> None:
    broker.publish(QUEUE, b"bad 0", raw=BAD)
    broker.publish_many(QUEUE, [b"good 1", b"good 2"])
    broker.publish(QUEUE, b"bad 3", raw=LONG)
    broker.publish(QUEUE, b"bad 4", raw=BAD)
    broker.publish(QUEUE, b"good 5")


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """What the bodies are numbered: a malformed one ends with its BAD."""
    return [int(row["body"].rstrip(b"\0")[-1:]) for row in rows]


def reattached(run: Run) -> int:
    return sum(one.counts.reattached for one in run.status.receivers)


@pytest.mark.parametrize("mode", MODES)
def test_rows_in_order_acked_like_any(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    good_bad_good(devbroker)
    with Column(devbroker, **MODES[mode](tmp_path)) as run:
        rows = run.gather(6)
        assert numbers(rows) == [row["sequence"] for row in rows] == list(range(6))
        assert [bool(row["malformed"]) for row in rows] == [True, False, False, True, True, False]
        assert all(row["destination"] == QUEUE and row["message_id"] for row in rows)
        assert "no colon" in rows[0]["malformed"] and "more than 65536" in rows[3]["malformed"]
        assert rows[0]["body"].startswith(b"MESSAGE\n") and BAD in rows[0]["body"]
        assert run.read() == rows
        run.commit()
        wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="the ACKs")
        assert sum(one.counts.malformed for one in run.status.receivers) == 3


@pytest.mark.parametrize("mode", [*MODES][1:])
@pytest.mark.parametrize("limit", ["64k", "1m"])
def test_a_restart_replays_them_from_the_journal(
    devbroker: DevBroker, tmp_path: Path, mode: str, limit: str
) -> None:
    """The same rows with the same reasons, whatever the limits are by then; redelivered, they are no rows."""
    good_bad_good(devbroker)
    further = MODES[mode](tmp_path)
    with Column(devbroker, **further) as run:
        rows = run.gather(6)
        assert [bool(row["malformed"]) for row in rows] == [True, False, False, True, True, False]
    with Column(devbroker, **further, maxHeaderLineBytes=limit) as again:
        again.start, again.end = run.start, run.end
        assert again.read() == rows
        if mode == "journal":
            wait_until(lambda: reattached(again) == 6, what="all of them again")
        again.commit()
        wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="the ACKs")
        assert again.reader.latestOffset(again.start, None) == again.start


@pytest.mark.rule("7.8")
def test_a_journal_of_them_is_not_read_without_the_column(devbroker: DevBroker, tmp_path: Path) -> None:
    """They would look like good ones."""
    good_bad_good(devbroker)
    with Column(devbroker, journal=str(tmp_path / "journal")) as run:
        run.gather(6)
    given = {"url": devbroker.url, "destination": QUEUE, "journal": str(tmp_path / "journal")}
    with Run(given) as again:
        again.start, again.end = run.start, run.end
        with pytest.raises(MalformedMessageError, match="onMalformed=column"):
            again.read()


@pytest.mark.rule("7.8")
class TestTheColumnIsRequired:
    @pytest.mark.parametrize("key", ["onMalformed", "bodyDecodeErrors"])
    def test_by_the_options_that_fill_it(self, key: str) -> None:
        options = source_options("stomp://h", **{key: "column"})
        with pytest.raises(OptionError, match=rf"{key} = column needs the column `malformed`.*\.schema\("):
            RowSettings.of(options, projection_of("body"))
        assert RowSettings.of(options, projection_of("body", "malformed"))

    def test_by_no_other(self) -> None:
        assert RowSettings.of(source_options("stomp://h"), projection_of("body"))
        assert RowSettings.of(source_options("stomp://h"), projection_of("body", "malformed"))


class TestIdsOfAnEarlierRun:
    def test_each_by_its_own_frame(self) -> None:
        """A frame that cannot be read has none, and takes none of another."""
        frames = [
            b"MESSAGE\nx-id:1\nx:\0\ncontent-length:0\n\n\0",
            b"MESSAGE\nx:\0\ncontent-length:0\n\n\0",
            b"MESSAGE\nx-id:3\n" + LONG + b"\n\0",
        ]
        ends = [sum(map(len, frames[: count + 1])) for count in range(3)]
        batch = FrameBatch(b"".join(frames), ends, 0, 0, "1.2", "generic", "r", "why")
        assert stable_ids(batch, "x-id") == [b"1", None, b"3"]

    @pytest.mark.rule("7.10")
    def test_of_a_broker_whose_acks_name_another_header_than_a_producers(self) -> None:
        """Artemis: the producer's ``ack`` comes first, and may be any octets."""
        frames = [b"MESSAGE\nmessage-id:%d\nack:\0\ncontent-length:0\n\n\0" % number for number in (1, 2)]
        batch = FrameBatch(b"".join(frames), [len(frames[0]), 2 * len(frames[0])], 0, 0, "1.2", "artemis")
        assert stable_ids(batch, "message-id") == [b"1", b"2"]
