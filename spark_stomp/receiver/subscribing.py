"""Which subscription a receiver asks for, once its dialect is known; pure."""

from __future__ import annotations

from spark_stomp.dialects import Dialect, Subscription
from spark_stomp.receiver.status import ReceiverSettings

__all__ = ["choose_subscription"]


def choose_subscription(dialect: Dialect, settings: ReceiverSettings) -> Subscription:
    """The subscription that ``settings`` describe, with all headers but those for the prefetch.

    Raises UnsupportedError where the broker could not keep the delivery contract, or what was asked for.
    """
    client_id, durable_name = settings.connection.client_id, settings.durable_name
    selector = () if settings.selector is None else (("selector", settings.selector),)
    dialect.check_client_id(client_id, settings.connections)
    dialect.check_subscription(
        settings.destination,
        selector + settings.subscribe_headers,
        receivers=settings.receivers,
        durable=durable_name is not None,
        allow_loss=settings.allow_loss,
    )
    chosen = dialect.subscription(
        settings.destination, durable_name=durable_name, client_id=client_id, selector=settings.selector
    )
    return Subscription(chosen.id, selector + chosen.headers + settings.subscribe_headers)
