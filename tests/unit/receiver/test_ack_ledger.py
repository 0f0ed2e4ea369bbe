"""The ledger: handles in order, each once; confirmed means receipted."""

from __future__ import annotations

import pytest

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.ack_ledger import AckGroup, AckLedger, Acks
from spark_stomp.receiver.dedup import COMMITTED, HeldAt

KEY = MessageKey("/queue/a", b"id", b"")
MANY = 1_000


def handles(first: int, count: int) -> list[bytes]:
    return [b"h%d" % number for number in range(first, first + count)]


def ledger(*counts: int) -> AckLedger:
    made = AckLedger()
    first = 0
    for count in counts:
        made.add(first, handles(first, count))
        first += count
    return made


def take(under_test: AckLedger, committed: int, others: int = 0, most: int = MANY) -> list[bytes]:
    """What is due if ``committed`` is this receiver's mark and ``others`` that of all owners."""
    acks = under_test.take(committed, lambda owner: 0 if owner < 0 else others, most)
    return [] if acks is None else acks.handles


def send(under_test: AckLedger, committed: int, receipt: str) -> Acks:
    acks = under_test.take(committed, lambda owner: 0, MANY)
    assert acks is not None
    under_test.sent_with(AckGroup(acks, receipt, deadline=float(committed)))
    return acks


def test_no_more_at_once_than_asked_for() -> None:
    under_test = ledger(5)
    assert take(under_test, 5, most=2) == handles(0, 2)
    assert take(under_test, 5, most=2) == handles(2, 2)
    assert take(under_test, 5, most=2) == handles(4, 1)


@pytest.mark.rule("1.10")
def test_confirmed_grows_with_receipts_only() -> None:
    under_test = ledger(4)
    send(under_test, 4, "r1")
    assert (under_test.confirmed, under_test.next_deadline) == (0, 4.0)
    assert (under_test.unacked, under_test.pending(4, lambda owner: 0)) == (4, True)
    assert under_test.confirm("r1")
    assert (under_test.confirmed, under_test.next_deadline) == (4, None)
    assert (under_test.unacked, under_test.pending(4, lambda owner: 0)) == (0, False)


@pytest.mark.rule("1.10")
def test_a_later_receipt_does_not_vouch_for_an_earlier_group() -> None:
    under_test = ledger(9)
    for upto, receipt in ((3, "a"), (6, "b"), (9, "c")):
        send(under_test, upto, receipt)
    under_test.confirm("c")
    under_test.confirm("b")
    assert (under_test.confirmed, under_test.next_deadline) == (0, 3.0)
    under_test.confirm("a")
    assert (under_test.confirmed, under_test.next_deadline) == (9, None)


def test_a_receipt_of_something_else_is_not_ours() -> None:
    assert ledger(1).confirm("subscribe") is None


class TestAnotherConnectionBefore:
    def test_what_came_on_it_has_nothing_to_confirm(self) -> None:
        under_test = AckLedger(start=3)
        under_test.add(7, handles(7, 2))
        assert take(under_test, 6) == []
        assert (under_test.sent, under_test.confirmed) == (6, 6)
        assert take(under_test, 8) == handles(7, 1)
        assert under_test.confirmed == 6

    def test_nor_does_it_count_as_acks_to_send(self) -> None:
        under_test = AckLedger(start=3)
        under_test.add(7, handles(7, 2))
        assert take(under_test, 9, most=1) == handles(7, 1)

    def test_nor_does_it_overtake_what_is_unconfirmed(self) -> None:
        under_test = AckLedger(start=0)
        under_test.add(0, handles(0, 2))
        send(under_test, 2, "r")
        assert take(under_test, 5) == []
        assert under_test.confirmed == 0
        under_test.confirm("r")
        assert take(under_test, 5) == []
        assert under_test.confirmed == 5


class TestAttached:
    def test_their_receipt_names_their_keys(self) -> None:
        under_test = AckLedger()
        under_test.attach(COMMITTED, KEY, b"x")
        send(under_test, 0, "r")
        group = under_test.confirm("r")
        assert group is not None
        assert group.acks.keys == (KEY,)


class TestOldestUnacked:
    """When the oldest delivery came that the broker has no confirmed ACK of."""

    def test_is_that_of_the_first_new_frame_without_receipt(self) -> None:
        under_test = AckLedger()
        assert under_test.oldest_unacked is None
        under_test.add(0, handles(0, 2), at=1_000_000)
        under_test.add(2, handles(2, 2), at=2_000_000)
        assert under_test.oldest_unacked == 1_000_000
        send(under_test, 3, "r1")
        assert under_test.oldest_unacked == 1_000_000, "sent, but not confirmed"
        under_test.confirm("r1")
        assert under_test.oldest_unacked == 2_000_000
        send(under_test, 4, "r2")
        under_test.confirm("r2")
        assert under_test.oldest_unacked is None
        assert under_test.unacked == 0

    def test_a_message_that_came_again_counts_from_then_until_its_receipt(self) -> None:
        under_test = AckLedger(5)
        under_test.attach(HeldAt(1, 3), KEY, b"h", at=300)
        under_test.add(5, handles(5, 1), at=400)
        assert under_test.oldest_unacked == 300
        acks = under_test.take(5, lambda owner: 5, MANY)
        assert acks is not None
        under_test.sent_with(AckGroup(acks, "r1", deadline=0.0))
        assert under_test.oldest_unacked == 300
        under_test.confirm("r1")
        assert under_test.oldest_unacked == 400
