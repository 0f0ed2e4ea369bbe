"""The ledger: handles in order, each once; confirmed means receipted."""

from __future__ import annotations

from spark_stomp.receiver.ledger import AckGroup, AckLedger


def handles(first: int, count: int) -> list[bytes]:
    return [b"h%d" % number for number in range(first, first + count)]


def ledger(*counts: int) -> AckLedger:
    made = AckLedger()
    first = 0
    for count in counts:
        made.add(first, handles(first, count))
        first += count
    return made


def test_takes_each_handle_once_and_in_order() -> None:
    under_test = ledger(3, 4, 2)
    assert under_test.take(2) == handles(0, 2)
    assert under_test.take(2) == []
    assert under_test.take(8) == handles(2, 6)
    assert under_test.take(9) == handles(8, 1)
    assert under_test.sent == 9


def test_nothing_beyond_what_was_asked_for_leaves() -> None:
    under_test = ledger(5)
    assert under_test.take(3) == handles(0, 3)
    assert under_test.sent == 3


def test_confirmed_grows_with_receipts_only() -> None:
    under_test = ledger(4)
    under_test.take(4)
    under_test.await_receipt(AckGroup(4, "r1", deadline=7.0))
    assert (under_test.confirmed, under_test.next_deadline) == (0, 7.0)
    assert under_test.confirm("r1")
    assert (under_test.confirmed, under_test.next_deadline) == (4, None)


def test_a_later_receipt_does_not_vouch_for_an_earlier_group() -> None:
    under_test = ledger(9)
    for upto, receipt in ((3, "a"), (6, "b"), (9, "c")):
        under_test.take(upto)
        under_test.await_receipt(AckGroup(upto, receipt, deadline=float(upto)))
    under_test.confirm("c")
    under_test.confirm("b")
    assert (under_test.confirmed, under_test.next_deadline) == (0, 3.0)
    under_test.confirm("a")
    assert (under_test.confirmed, under_test.next_deadline) == (9, None)


def test_a_receipt_of_something_else_is_not_ours() -> None:
    assert not ledger(1).confirm("subscribe")
