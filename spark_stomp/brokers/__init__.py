"""What each kind of broker adds to STOMP, as a :class:`Dialect`. :func:`dialect_for` chooses one."""

from spark_stomp.brokers.dialect import Dialect, dialect_for, dialect_named
from spark_stomp.brokers.subscriptions import PLAIN, Subscription

__all__ = ["PLAIN", "Dialect", "Subscription", "dialect_for", "dialect_named"]
