"""What each kind of broker adds to STOMP, as a :class:`Dialect`. :func:`dialect_of` chooses one."""

from spark_stomp.brokers.dialect import Dialect
from spark_stomp.brokers.known import dialect_for, dialect_named, dialect_of
from spark_stomp.brokers.subscriptions import Subscription, plain_subscription
