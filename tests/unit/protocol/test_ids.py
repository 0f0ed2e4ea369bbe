from __future__ import annotations

import pytest

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.client import ClientIds, OpenSubscription


def test_new_receipts_avoid_what_is_awaited() -> None:
    ids = ClientIds()
    ids.await_receipt("r-1")
    assert ids.new_receipt() == "r-2"
    assert ids.new_receipt() == "r-3"


def test_receipts_come_in_any_order_and_once() -> None:
    ids = ClientIds()
    for receipt in ("a", "b", None):
        ids.await_receipt(receipt)
    assert ids.take_receipt("b") == "b"
    assert ids.take_receipt("a") == "a"
    with pytest.raises(RemoteProtocolError, match="'a', which was not asked for"):
        ids.take_receipt("a")
    with pytest.raises(RemoteProtocolError):
        ids.take_receipt(None)


def test_an_awaited_receipt_is_not_asked_for_again() -> None:
    ids = ClientIds()
    ids.check_new_receipt(None)
    ids.check_new_receipt("a")
    ids.await_receipt("a")
    with pytest.raises(LocalProtocolError, match="awaited already"):
        ids.check_new_receipt("a")


def test_a_subscription_id_is_used_once() -> None:
    ids = ClientIds()
    ids.check_new_subscription("0")
    ids.subscriptions["0"] = OpenSubscription("/q", "auto")
    with pytest.raises(LocalProtocolError, match="used on this connection before"):
        ids.check_new_subscription("0")
    ids.end_subscription("0")
    with pytest.raises(LocalProtocolError, match="used on this connection before"):
        ids.check_new_subscription("0")
    with pytest.raises(LocalProtocolError, match="no subscription '0'"):
        ids.subscription("0")
    with pytest.raises(LocalProtocolError, match="needs an id"):
        ids.check_new_subscription("")


def test_auto_subscriptions_are_not_check_wants_acks() -> None:
    ids = ClientIds()
    ids.subscriptions = {"a": OpenSubscription("/q", "auto"), "c": OpenSubscription("/q", "client")}
    ids.check_wants_acks("c")
    with pytest.raises(LocalProtocolError, match="ack:auto"):
        ids.check_wants_acks("a")


def test_transactions_are_unique_while_open() -> None:
    ids = ClientIds()
    ids.check_transaction(None)
    ids.check_new_transaction("t")
    with pytest.raises(LocalProtocolError, match="no open transaction 't'"):
        ids.check_transaction("t")
    ids.transactions.add("t")
    ids.check_transaction("t")
    for taken in ("t", ""):
        with pytest.raises(LocalProtocolError, match="is open already, or no id"):
            ids.check_new_transaction(taken)
