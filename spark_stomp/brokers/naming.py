"""What the name of a destination says: whether it is a queue or a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["queue", "topic", "unknown"]


@dataclass(frozen=True)
class Naming:
    """How one kind of broker names queues and topics.

    Several receivers share the messages of a queue. Messages of a topic are lost while no subscriber is
    connected.

    Attributes:
        queue_prefixes: beginnings of destinations that are queues.
        topic_prefixes: beginnings of destinations that are topics.
        queue_infix: every destination that contains this text is a queue; None: no such text.
        otherwise: what all other destinations are. The option ``destinationType`` says it if the broker's
            names do not.
    """

    queue_prefixes: tuple[str, ...] = ("/queue/",)
    topic_prefixes: tuple[str, ...] = ("/topic/", "/temp-topic/")
    queue_infix: str | None = None
    otherwise: Kind = "unknown"

    def kind(self, destination: str) -> Kind:
        """The kind of ``destination``: queue, topic or unknown."""
        if self.is_full_name(destination):
            return "queue"
        if destination.startswith(self.topic_prefixes):
            return "topic"
        return "queue" if destination.startswith(self.queue_prefixes) else self.otherwise

    def is_full_name(self, destination: str) -> bool:
        """Whether ``destination`` names a queue together with its address."""
        return self.queue_infix is not None and self.queue_infix in destination

    def is_temporary(self, destination: str) -> bool:
        """Whether ``destination`` ends, with its messages, when the connection that declared it ends."""
        return destination.startswith(("/temp-queue/", "/remote-temp-queue/"))

    def is_plain_queue(self, destination: str) -> bool:
        """Whether ``destination`` is known to be a queue, and no full name."""
        return self.kind(destination) == "queue" and not self.is_full_name(destination)


# The simple broker of Spring and the server of Vert.x have a /queue/ that keeps and redelivers nothing.
UNKNOWN_BROKER: Final = (
    "the connector does not know this broker: whether it keeps, redelivers and confirms messages is not "
    "known. Try it out: spark-stomp probe URL --scratch QUEUE"
)
BY_PREFIX: Final = Naming()
"""Names as most brokers have them: ``/queue/...`` and ``/topic/...``."""
