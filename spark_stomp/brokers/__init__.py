"""What each kind of broker adds to the protocol: a :class:`Dialect`, chosen by :func:`dialect_for`."""

from spark_stomp.brokers.dialect import Dialect, dialect_for, dialect_named
from spark_stomp.brokers.subscriptions import PLAIN, Subscription

__all__ = ["PLAIN", "Dialect", "Subscription", "dialect_for", "dialect_named"]
