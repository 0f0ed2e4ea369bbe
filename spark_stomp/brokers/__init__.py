"""What each kind of broker adds to STOMP: a module for each, with all its facts in a :class:`Dialect`.

::

    dialect       the facts that a broker has, and the headers and refusals that follow from them
    destinations  what the name of a destination says, and subscriptions
    outgoing      how a broker treats a SEND
    sentences     what its ERRORs mean
    standing      what it tells of a queue, and how it is asked
    rabbitmq, activemq, artemis, devbroker
                  their facts
    known         all of these, and one for unknown brokers: :func:`dialect_for` chooses
"""

from spark_stomp.brokers.destinations import Subscription, subscription_id
from spark_stomp.brokers.dialect import Dialect
from spark_stomp.brokers.known import DIALECTS, dialect_for, dialect_named
