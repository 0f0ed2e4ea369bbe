from __future__ import annotations

import pytest

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.ids import ClientIds, Subscription


def test_new_receipts_avoid_what_is_awaited() -> None:
    names = ClientIds()
    names.await_receipt("r-1")
    assert names.new_receipt() == "r-2"
    assert names.new_receipt() == "r-3"


def test_receipts_come_in_any_order_and_once() -> None:
    names = ClientIds()
    for receipt in ("a", "b", None):
        names.await_receipt(receipt)
    assert names.take_receipt("b") == "b"
    assert names.take_receipt("a") == "a"
    with pytest.raises(RemoteProtocolError, match="'a', which was not asked for"):
        names.take_receipt("a")
    with pytest.raises(RemoteProtocolError):
        names.take_receipt(None)


def test_an_awaited_receipt_is_not_asked_for_again() -> None:
    names = ClientIds()
    names.check_new_receipt(None)
    names.check_new_receipt("a")
    names.await_receipt("a")
    with pytest.raises(LocalProtocolError, match="awaited already"):
        names.check_new_receipt("a")


def test_a_subscription_id_is_used_once() -> None:
    names = ClientIds()
    names.check_new_subscription("0")
    names.subscriptions["0"] = Subscription("/q", "auto")
    with pytest.raises(LocalProtocolError, match="used on this connection before"):
        names.check_new_subscription("0")
    names.end_subscription("0")
    with pytest.raises(LocalProtocolError, match="used on this connection before"):
        names.check_new_subscription("0")
    with pytest.raises(LocalProtocolError, match="no subscription '0'"):
        names.subscription("0")
    with pytest.raises(LocalProtocolError, match="needs an id"):
        names.check_new_subscription("")


def test_auto_subscriptions_are_not_acknowledged() -> None:
    names = ClientIds()
    names.subscriptions = {"a": Subscription("/q", "auto"), "c": Subscription("/q", "client")}
    names.acknowledged("c")
    with pytest.raises(LocalProtocolError, match="ack:auto"):
        names.acknowledged("a")


def test_transactions_are_unique_while_open() -> None:
    names = ClientIds()
    names.check_transaction(None)
    names.check_new_transaction("t")
    with pytest.raises(LocalProtocolError, match="no open transaction 't'"):
        names.check_transaction("t")
    names.transactions.add("t")
    names.check_transaction("t")
    for taken in ("t", ""):
        with pytest.raises(LocalProtocolError, match="is open already, or no id"):
            names.check_new_transaction(taken)
