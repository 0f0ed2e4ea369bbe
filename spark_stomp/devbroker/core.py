"""The broker without sockets: queues, topics, subscriptions, transactions.

It is not thread-safe; ``server`` holds a lock. A request that is not allowed raises :class:`Refused`, whose
text goes to the client in an ERROR frame.
"""

from __future__ import annotations

import math
import sys
import time
import uuid
from collections.abc import Callable

from spark_stomp.devbroker.queues import Headers, Message, Outlet, Queue, QueueView, Subscription, passed_on
from spark_stomp.errors import FrameEncodeError
from spark_stomp.quoting import whole_number

_TOPIC = "/topic/"


class Refused(Exception):
    """The broker refuses a request of a client. The text says why."""


class Member:
    """One connected client: its subscriptions, and its open transactions with their steps.

    A step is what a SEND, ACK or NACK does once its transaction commits.
    """

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.subscriptions: dict[str, Subscription] = {}
        self.subscribed = 0
        self._transactions: dict[str, list[Callable[[], None]]] = {}

    def subscription(self, name: str) -> Subscription:
        """The subscription with this id; in STOMP 1.0 it may be a destination. Raises Refused."""
        found = self.subscriptions.get(name)
        if found is None:
            raise Refused(f"there is no subscription {name!r}")
        return found

    def holding(self, handle: str) -> Subscription:
        """The subscription that delivered the message with this ack handle. Raises Refused."""
        for subscription in self.subscriptions.values():
            if handle in subscription.unacked:
                return subscription
        raise Refused(f"no un-acked message has the handle {handle!r} on this connection")

    def do(self, step: Callable[[], None], transaction: str | None) -> None:
        """Do the step of a SEND, ACK or NACK: at once, or when its transaction commits. Raises Refused."""
        if transaction is None:
            step()
        elif transaction in self._transactions:
            self._transactions[transaction].append(step)
        else:
            raise Refused(f"there is no open transaction {transaction!r}")

    def begin(self, transaction: str) -> None:
        """Open a transaction. Raises Refused if it is open already."""
        if transaction in self._transactions:
            raise Refused(f"the transaction {transaction!r} is open already")
        self._transactions[transaction] = []

    def commit(self, transaction: str) -> None:
        """Do the steps of a transaction, in order, and end it."""
        for step in self.abort(transaction):
            step()

    def abort(self, transaction: str) -> list[Callable[[], None]]:
        """End a transaction; returns its steps, which were not done. Its messages stay un-acked."""
        steps = self._transactions.pop(transaction, None)
        if steps is None:
            raise Refused(f"there is no open transaction {transaction!r}")
        return steps


class Broker:
    """All queues and topics of one dev broker.

    Args:
        clock: returns seconds since the epoch, for the ``timestamp`` header and to see what has expired.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.connects = 0
        self.disconnects = 0
        self._clock = clock
        self._name = uuid.uuid4().hex[:12]
        self._queues: dict[str, Queue] = {}
        # The queues that collect the messages of each topic, one for each subscription. The subscribers of
        # one durable subscription share its queue.
        self._topics: dict[str, dict[int, Queue]] = {}
        self._durable: dict[tuple[str, str], Queue] = {}
        self._sequence = 0
        self._dirty: dict[int, Queue] = {}

    # --- figures

    def view(self, destination: str) -> QueueView:
        """The figures of a queue. All are 0 if it was never used."""
        return self._queues.get(destination, Queue()).view()

    def views(self) -> dict[str, QueueView]:
        """A mapping from the name of each queue used so far to its figures."""
        return {name: queue.view() for name, queue in self._queues.items()}

    def durable_views(self, topic: str) -> dict[str, QueueView]:
        """A mapping from the name of each durable subscription of a topic to its figures."""
        return {name: queue.view() for (of, name), queue in self._durable.items() if of == topic}

    def bodies(self, destination: str) -> list[bytes]:
        """The bodies in a queue, in order. Messages that were delivered and are un-acked are included."""
        queue = self._queues.get(destination)
        return [] if queue is None else [message.body for message in queue.all_messages()]

    # --- messages

    def publish(self, destination: str, body: bytes, headers: Headers = (), raw: bytes = b"") -> None:
        """Put a message into a queue, or into the queue of each subscription of a topic.

        The header ``expires`` says when a message expires, in milliseconds since the epoch; 0 means never.
        ``raw`` are header lines that are delivered unchanged, see :class:`Message`. Raises Refused.
        """
        if not destination:
            raise Refused("a message needs a destination")
        kept = passed_on(headers)
        fields = dict(reversed(kept))
        if "timestamp" not in fields:
            kept += (("timestamp", str(int(self._clock() * 1000))),)
        self._sequence += 1
        try:
            message_id = f"ID:{self._name}-{self._sequence}"
            message = Message(
                self._sequence, message_id, destination, kept, body, raw, _expiry(fields.get("expires"))
            )
        except FrameEncodeError as error:
            raise Refused(f"this message cannot be kept: {error.message}") from error
        if destination.startswith(_TOPIC):
            for queue in self._topics.get(destination, {}).values():
                self._put(queue, message.copy())
        else:
            self._put(self._queue(destination), message)

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        """Obey an ACK: delete the message, with ``ack:client`` also those delivered before it."""
        acked = len(subscription.pop_unacked(subscription.covered(handle)))
        queue = subscription.queue
        queue.unacked -= acked
        queue.acked += acked
        self._touch(queue)

    def reject(self, subscription: Subscription, handle: str) -> None:
        """Obey a NACK: put the messages that it covers back into the queue, to be redelivered."""
        subscription.queue.put_back(subscription.pop_unacked(subscription.covered(handle)))
        self._touch(subscription.queue)

    # --- subscriptions

    def subscribe(
        self,
        member: Member,
        name: str,
        destination: str,
        *,
        ack: str = "auto",
        window: int = sys.maxsize,
        named: bool = True,
        browse: bool = False,
        durable: str | None = None,
    ) -> None:
        """Subscribe a client. With ``browse`` it gets copies of the messages in the queue.

        Args:
            name: the key of the subscription within the client.
            ack: "auto", "client" or "client-individual".
            window: how many un-acked messages it takes.
            named: whether deliveries have a ``subscription`` header.
            durable: the name of a durable subscription of a topic. Clients that name it share its messages.

        Raises:
            Refused: ``name`` is in use, or the destination cannot be browsed or have durable subscriptions.
        """
        if name in member.subscriptions:
            raise Refused(f"the subscription {name!r} exists already")
        topic = destination if destination.startswith(_TOPIC) else None
        if durable is not None:
            queue = self._durable_queue(topic, durable, browse)
            topic = None
        elif browse and topic:
            raise Refused("only a queue can be browsed; a topic keeps no messages")
        else:
            queue = Queue() if browse or topic else self._queue(destination)
        member.subscribed += 1
        ack = "auto" if browse else ack
        subscription = member.subscriptions[name] = Subscription(
            name, member.subscribed, queue, member.outlet, ack, window, named, topic
        )
        queue.consumers.append(subscription)
        if browse:
            self._fill_browser(queue, destination)
        elif topic:
            self._collect(topic, queue)
        self._touch(queue)

    def unsubscribe(self, member: Member, name: str, durable: str | None = None) -> None:
        """End a subscription; its un-acked messages go back to the queue.

        With ``durable``, the durable subscription of this name ends, and its messages are deleted.
        """
        subscription = member.subscription(name)
        if durable is not None:
            self._forget(subscription, durable)
        del member.subscriptions[name]
        self._drop(subscription)

    def leave(self, member: Member) -> None:
        """A client has gone: its un-acked messages go back, and its transactions end without their steps."""
        for subscription in member.subscriptions.values():
            self._drop(subscription)
        member.subscriptions.clear()

    # --- delivery

    def ready(self, member: Member) -> None:
        """Let the queues of a client deliver again: it has room for messages."""
        for subscription in member.subscriptions.values():
            self._touch(subscription.queue)

    def dispatch(self) -> None:
        """Deliver from all queues that have changed since the last call."""
        now = self._clock()
        while self._dirty:
            _, queue = self._dirty.popitem()
            queue.dispatch(now)

    @property
    def pending(self) -> bool:
        """Whether :meth:`dispatch` has something to do."""
        return bool(self._dirty)

    def _queue(self, destination: str) -> Queue:
        queue = self._queues.get(destination)
        if queue is None:
            queue = self._queues[destination] = Queue()
        return queue

    def _collect(self, topic: str, queue: Queue) -> None:
        self._topics.setdefault(topic, {})[id(queue)] = queue

    def _durable_queue(self, topic: str | None, name: str, browse: bool) -> Queue:
        if browse:
            raise Refused("a durable subscription cannot be browsed")
        if topic is None:
            raise Refused("only a topic has durable subscriptions; a queue keeps its messages anyway")
        queue = self._durable.get((topic, name))
        if queue is None:
            queue = self._durable[topic, name] = Queue()
            self._collect(topic, queue)
        return queue

    def _forget(self, subscription: Subscription, name: str) -> None:
        queue = subscription.queue
        key = next((key for key, kept in self._durable.items() if kept is queue and key[1] == name), None)
        if key is None:
            raise Refused(f"{subscription.name!r} is not the durable subscription {name!r}")
        if len(queue.consumers) > 1:
            raise Refused(f"others are subscribed to the durable subscription {name!r}")
        del self._durable[key]
        del self._topics[key[0]][id(queue)]

    def _put(self, queue: Queue, message: Message) -> None:
        queue.put(message)
        self._dirty[id(queue)] = queue

    def _touch(self, queue: Queue) -> None:
        if queue.ready:
            self._dirty[id(queue)] = queue

    def _fill_browser(self, queue: Queue, destination: str) -> None:
        """Fill ``queue`` with copies of all messages of the destination, then ActiveMQ's end marker."""
        for message in self._queue(destination).all_messages():
            queue.put(message.copy())
        self._sequence += 1
        end = (("browser", "end"),)
        queue.put(Message(self._sequence, "0", destination, end, b""))

    def _drop(self, subscription: Subscription) -> None:
        queue = subscription.queue
        if subscription.topic is not None:
            del self._topics[subscription.topic][id(queue)]
        queue.consumers.remove(subscription)
        queue.put_back(subscription.pop_unacked(list(subscription.unacked)))
        self._touch(queue)


def _expiry(header: str | None) -> float:
    """When a message with this ``expires`` header expires, in seconds since the epoch.

    Like ActiveMQ, the header is in milliseconds, and 0 means never. Any other text means never, too.
    """
    milliseconds = whole_number(header or "")
    return milliseconds / 1000 if milliseconds else math.inf
