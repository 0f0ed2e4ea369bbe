"""The dedup index: the quick way and the closer look, and nothing left behind; the keys in it."""

from __future__ import annotations

import hashlib

import pytest
from support.journals import key

from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.protocol import HEARTBEAT, Frame, FrameDecoder
from spark_stomp.receiver.blocks import Block, frame_keys
from spark_stomp.receiver.dedup import DedupIndex, RememberedKeys


def held(*keys: MessageKey) -> Block:
    """A block of messages with these keys."""
    batch = FrameBatch(b"", [0] * len(keys), 0, 0, "1.2")
    return Block(batch, [one.id for one in keys], made_keys=list(keys))


@pytest.fixture
def index() -> DedupIndex:
    return DedupIndex(max_remembered=3)


class TestHeld:
    @pytest.mark.parametrize("ids", [[b"3", b"1"], [b"3", b"3"], [b"3", None], [b"3", b""]])
    def test_a_known_repeated_or_missing_id_needs_a_closer_look(
        self, index: DedupIndex, ids: list[bytes | None]
    ) -> None:
        index.add_new([b"1"], held(key(b"1")))
        assert not index.add_new(ids, held())
        assert index.held == 1

    @pytest.mark.parametrize(
        ("other", "differs"),
        [
            (key(b"1", b"other"), True),
            (key(b"1"), False),
            (key(b"1", b"other", destination="/other"), False),
            (key(b"2", b"other"), False),
        ],
    )
    @pytest.mark.parametrize("known", ["held", "held with others", "committed"])
    def test_another_body_of_a_known_message_is_seen(
        self, index: DedupIndex, known: str, other: MessageKey, differs: bool
    ) -> None:
        if known == "committed":
            index.remember_unconfirmed([key(b"1")])
        else:
            index.add_new([b"1"], held(key(b"1")))
        if known == "held with others":
            index.add([key(b"1", b"third")], held(key(b"1", b"third")))
        assert index.has_other_body(other) is differs


def known_of(index: DedupIndex, *names: bytes) -> set[bytes]:
    return {one.id for one in index.find(key(name) for name in names)}


@pytest.mark.rule("4.5")
class TestUnconfirmed:
    """A message whose ACK is not confirmed may come again, unless many newer ones came."""

    def test_is_not_bounded_while_nothing_comes(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"%d" % number) for number in range(50)])
        assert len(known_of(index, *(b"%d" % number for number in range(50)))) == 50

    def test_is_forgotten_after_as_many_newer_ones(
        self, index: DedupIndex, caplog: pytest.LogCaptureFixture
    ) -> None:
        index.came(2)
        index.remember_unconfirmed([key(b"1"), key(b"2")])
        index.came(3)
        index.confirm([key(b"2")])
        index.remember_unconfirmed([key(b"3")])
        index.came(2)
        assert known_of(index, b"1", b"2", b"3") == {b"1", b"3"}
        assert (index.evicted, caplog.messages) == (0, [])
        index.came(1)
        assert known_of(index, b"1", b"2", b"3") == {b"3"}
        assert (index.remembered, index.evicted) == (1, 1)
        assert "1 message were not confirmed" in caplog.text
        index.came(3)
        assert (index.evicted, len(caplog.messages)) == (2, 1)


def test_what_is_at_risk_is_counted_once(index: DedupIndex) -> None:
    index.expect_doubles(3)
    assert [index.count_second_rows(2), index.count_second_rows(2), index.count_second_rows(2)] == [2, 1, 0]


class TestJournaled:
    """With a journal confirmed keys are remembered: a broker that is killed may forget what it confirmed."""

    @pytest.fixture
    def index(self) -> DedupIndex:
        return DedupIndex(max_remembered=3, journaled=True)

    @pytest.mark.rule("J.9")
    def test_confirmed_is_still_known(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        assert index.find([key(b"1")]) == {key(b"1"): None}
        assert not index.add_new([b"1"], held())

    @pytest.mark.rule("J.9")
    def test_the_newest_confirmed_are_known_whatever_is_unconfirmed(self, index: DedupIndex) -> None:
        stale = [b"stale %d" % number for number in range(50)]
        index.remember_unconfirmed(map(key, stale))
        index.remember_confirmed([key(b"1"), key(b"2"), key(b"3"), key(b"4")])
        assert known_of(index, *stale, b"1", b"2", b"3", b"4") == {*stale, b"2", b"3", b"4"}
        assert (index.remembered, index.evicted) == (53, 0)

    @pytest.mark.rule("J.9")
    def test_the_journal_gets_the_unconfirmed_last(self, index: DedupIndex) -> None:
        """It keeps the newest."""
        index.remember_unconfirmed(map(key, [b"1", b"2"]))
        index.remember_confirmed([key(b"3")])
        index.confirm([key(b"1")])
        assert index.take_unwritten() == [key(b"1"), key(b"3"), key(b"2")]

    def test_what_is_forgotten_before_is_not_written(self, index: DedupIndex) -> None:
        index.remember_confirmed(key(b"%d" % number) for number in range(50))
        assert index.take_unwritten() == [key(b"47"), key(b"48"), key(b"49")]

    def test_what_is_not_in_the_journal_yet_is_given_out_once(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        index.remember_confirmed([key(b"2"), None])
        assert index.take_unwritten() == [key(b"1"), key(b"2")]
        assert index.take_unwritten() == []

    def test_without_one_nothing_is_noted(self) -> None:
        index = DedupIndex()
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        assert (index.find([key(b"1")]), index.take_unwritten(), index.remembered) == ({}, [], 0)


class TestRemembered:
    def test_the_oldest_go_first_whatever_was_taken_out(self) -> None:
        remembered = RememberedKeys()
        keys = [key(b"%d" % number) for number in range(6)]
        remembered.add(keys)
        remembered.remove(keys[0])
        remembered.remove(keys[3])
        assert remembered.evict_oldest(2) == 2
        assert [one for one in keys if one in remembered] == keys[4:]
        assert remembered.evict_oldest(5) == 2
        assert len(remembered) == 0

    def test_an_id_may_mean_several_messages(self) -> None:
        remembered = RememberedKeys()
        one, other, third = (key(b"1", body) for body in (b"a", b"b", b"c"))
        remembered.add([one, other, one])
        remembered.add([third])
        assert all(known in remembered for known in (one, other, third))
        assert remembered.oldest(b"1") == one
        remembered.remove(one)
        assert one not in remembered
        assert (remembered.oldest(b"1"), len(remembered)) == (other, 2)
        remembered.remove(other)
        remembered.remove(third)
        assert (remembered.oldest(b"1"), remembered.has_any([b"1"])) == (None, False)

    def test_what_was_taken_out_and_came_again_is_the_youngest(self) -> None:
        remembered = RememberedKeys()
        remembered.add([key(b"1"), key(b"2")])
        remembered.remove(key(b"1"))
        remembered.add([key(b"1")])
        remembered.evict_oldest(1)
        assert (key(b"1") in remembered, key(b"2") in remembered) == (True, False)

    def test_an_id_keeps_its_place_while_any_message_of_it_is_left(self) -> None:
        remembered = RememberedKeys()
        remembered.add([key(b"1"), key(b"1", b"other"), key(b"2")])
        remembered.remove(key(b"1"))
        remembered.remove(key(b"1", b"unknown"))
        remembered.evict_oldest(1)
        assert (remembered.oldest(b"1"), remembered.oldest(b"2")) == (None, key(b"2"))

    @pytest.mark.rule("J.9")
    def test_the_bound_counts_messages_and_not_ids(self) -> None:
        """As with an ``idHeader`` whose values repeat."""
        index = DedupIndex(max_remembered=3, journaled=True)
        for number in range(9):
            index.remember_confirmed([key(b"%d" % (number % 2), b"%d" % number)])
            assert index.remembered == min(number + 1, 3)
        assert key(b"0", b"8") in index.find([key(b"0", b"8")])


def batch(data: bytes, ends: list[int], version: str = "1.2") -> FrameBatch:
    return FrameBatch(data, ends, 0, 0, version)


class TestFrameKeys:
    @pytest.mark.rule("4.2")
    def test_subscription_destination_id_and_body_make_the_key(self) -> None:
        assert key(b"1") == key(b"1")
        others = {
            key(b"2"),
            key(b"1", b"other"),
            key(b"1", destination="/other"),
            key(b"1", subscription="s"),
        }
        assert len({key(b"1")} | others) == 5

    @pytest.mark.rule("4.2")
    @pytest.mark.parametrize("dialect", ["activemq", "artemis", "rabbitmq", "generic", ""])
    @pytest.mark.parametrize("destination", ["/queue/a.b", "/topic/a.b", ""])
    def test_where_the_destination_names_the_queue_the_entry_does_not_count(
        self, dialect: str, destination: str
    ) -> None:
        frame = f"MESSAGE\nsubscription:%s\ndestination:{destination}\n\nbody\0".encode()
        data = [frame % b"one", frame % b"two"]
        one, other = (frame_keys(FrameBatch(x, [len(x)], 0, 0, "1.2", dialect), [b"1"]) for x in data)
        assert (one == other) is (dialect == "activemq" and destination == "/queue/a.b")

    @pytest.mark.rule("4.2")
    def test_headers_and_line_ends_are_not_part_of_it(self) -> None:
        data = b"\n\nMESSAGE\r\nredelivered:true\r\ndestination:/q\r\n\r\nbody\0\n"
        assert frame_keys(batch(data[:-1], [len(data) - 1]), [b"1"]) == [key(b"1")]

    @pytest.mark.rule("7.7")
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    @pytest.mark.parametrize("line", [b"x:\0", b"x:\xff", b"x:\\t\0", b"x:a\rb\0", b"x:" + b"y" * 70_000])
    def test_a_malformed_message_has_the_same_on_each_delivery(self, version: str, line: bytes) -> None:
        """Alone or among others."""
        frame = b"MESSAGE\ndestination:/q\n%bredelivered:%b\n" + line + b"\ncontent-length:4\n\nbo\0y\0"
        first, again = frame % (b"", b"false"), frame % (b"ack:7\n", b"true")
        other = b"MESSAGE\ndestination:/q\nx:\xc3\xa4\n\nother\0"
        alone = frame_keys(batch(first, [len(first)], version), [b"1"])
        among = frame_keys(batch(other + again, [len(other), len(other) + len(again)], version), [b"0", b"1"])
        assert alone == [key(b"1", b"bo\0y", "/q")] == among[1:]

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    @pytest.mark.parametrize(
        "head",
        [
            b"destination:/q",
            b"destination:/q\ndestination:/other",
            b"a:b\ndestination:/queue/\xc3\xa4",
            b"destination:/a\\cb",
            b"message-id:ID\\ca\\\\1\ndestination:/q",
            b"x:\xc3\xa4\ndestination:/q",
            b"destination: /q ",
            b"subscription:s\\c1\ndestination:/q\nsubscription:other",
            b"no-destination:/q",
            b"x:y\ndestination:/q\ncontent-length:%d",
        ],
    )
    @pytest.mark.parametrize("body", [b"b\n\nd\nody\n", b"\\c \xc3\xa4\xff\r\n\r\n", b""])
    @pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
    def test_it_has_what_the_decoder_reads(
        self, version: str, head: bytes, body: bytes, line_end: bytes
    ) -> None:
        # Before 1.2 a CR is a part of its line.
        end = line_end if version == "1.2" else b"\n"
        lines = [b"MESSAGE", *(head % len(body) if b"%" in head else head).split(b"\n"), b"", body]
        frame = b"\n\n" + end.join(lines) + b"\0"
        decoder = FrameDecoder(version)
        decoder.receive_data(frame)
        while not isinstance(decoded := decoder.next_event(), Frame):
            assert decoded is HEARTBEAT
        (made,) = frame_keys(batch(frame, [len(frame)], version), [b"1"])
        assert made is not None
        assert made.destination == (decoded.get("destination") or "")
        assert made.subscription == (decoded.get("subscription") or "")
        assert made.body == hashlib.blake2b(decoded.body, digest_size=16).digest()
