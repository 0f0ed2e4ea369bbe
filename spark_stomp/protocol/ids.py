"""The ids in use on one client connection: subscriptions, transactions, receipts.

Misuse by the caller raises LocalProtocolError.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.quoting import quoted


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """An open subscription and how its messages are acknowledged."""

    destination: str
    ack: str


class ClientIds:
    """Keeps ids unique as the specification asks, and matches receipts in any order."""

    __slots__ = (
        "_past_subscriptions",
        "_receipt_number",
        "numbers",
        "receipts",
        "subscriptions",
        "transactions",
    )

    def __init__(self) -> None:
        self.subscriptions: dict[str, OpenSubscription] = {}
        self.transactions: set[str] = set()
        self.receipts: set[str] = set()
        self.numbers: set[int] = set()
        self._past_subscriptions: set[str] = set()
        self._receipt_number = 0

    def new_receipt(self) -> str:
        """An id that no awaited receipt has, and that this method has not returned before."""
        while True:
            self._receipt_number += 1
            receipt = f"r-{self._receipt_number}"
            if receipt not in self.receipts:
                return receipt

    def check_new_receipt(self, receipt: str | None) -> None:
        """Refuse an id that is awaited already."""
        if receipt in self.receipts:
            raise LocalProtocolError(f"the receipt {receipt!r} is awaited already")

    def await_receipt(self, receipt: str | None) -> None:
        """Expect this receipt from now on."""
        if receipt is not None:
            self.receipts.add(receipt)

    def take_receipt(self, receipt: str | None) -> str:
        """The peer sent this receipt. Raises RemoteProtocolError if it is not awaited (any more)."""
        if receipt not in self.receipts:
            raise RemoteProtocolError(f"a RECEIPT for {quoted(receipt)}, which was not asked for")
        self.receipts.discard(receipt)
        return receipt

    def await_numbers(self, numbers: Collection[int]) -> None:
        """Expect the receipts with these numbers from now on; none of them may be awaited already."""
        if not self.numbers.isdisjoint(numbers):
            raise LocalProtocolError("a receipt with one of these numbers is awaited already")
        self.numbers.update(numbers)

    def take_numbers(self, numbers: list[int]) -> None:
        """The peer sent the receipts with these numbers. Raises RemoteProtocolError if one is not awaited."""
        left = len(self.numbers) - len(numbers)
        self.numbers.difference_update(numbers)
        if len(self.numbers) != left:
            raise RemoteProtocolError(
                f"a RECEIPT that was not asked for is among the {len(numbers)} from number {numbers[0]} on"
            )

    def check_new_subscription(self, subscription_id: str) -> None:
        """Refuse an id that any subscription of this connection has or had.

        The id of an ended subscription is not used again: its last messages may still arrive (STOMP 1.2,
        "SUBSCRIBE id Header").
        """
        if not subscription_id:
            raise LocalProtocolError("a subscription needs an id")
        if subscription_id in self.subscriptions or subscription_id in self._past_subscriptions:
            raise LocalProtocolError(
                f"the subscription id {subscription_id!r} was used on this connection before"
            )

    def subscription(self, subscription_id: str) -> OpenSubscription:
        """The open subscription of this id."""
        found = self.subscriptions.get(subscription_id)
        if found is None:
            raise LocalProtocolError(f"there is no subscription {subscription_id!r} on this connection")
        return found

    def check_wants_acks(self, subscription_id: str) -> None:
        """Refuse an ACK or NACK on a subscription whose messages need none."""
        if self.subscription(subscription_id).ack == "auto":
            raise LocalProtocolError(
                f"messages of {subscription_id!r} are acknowledged by themselves (ack:auto)"
            )

    def end_subscription(self, subscription_id: str) -> None:
        """Close the subscription; its id stays taken."""
        del self.subscriptions[subscription_id]
        self._past_subscriptions.add(subscription_id)

    def check_new_transaction(self, transaction: str) -> None:
        """Refuse the id of an open transaction.

        Ids of ended transactions may be used again, although the specification advises against it: brokers
        forget them, and remembering all would take more and more memory.
        """
        if not transaction or transaction in self.transactions:
            raise LocalProtocolError(f"the transaction {transaction!r} is open already, or no id")

    def check_transaction(self, transaction: str | None) -> None:
        """Refuse a transaction that was not begun, or has ended."""
        if transaction is not None and transaction not in self.transactions:
            raise LocalProtocolError(f"there is no open transaction {transaction!r}")
