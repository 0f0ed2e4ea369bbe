#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. A subscription to the queues of a virtual topic's consumer by a wildcard,
# /queue/Consumer.A.VirtualTopic.>, gets each message of the topic twice while the queue Consumer.A.VirtualTopic.prices is
# there: the broker takes the wildcard for one more consumer, with a queue of that name, which the wildcard matches too.
set -euo pipefail
stated="\
no queue yet: 1
the queue is there: 1, 1
by its name: 1"

source "$(dirname "$0")/lib/activemq.sh"
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire


def seen(consumer):
    publisher = Wire(sys.argv[1])
    publisher.confirmed("SEND", {"destination": "/topic/VirtualTopic.prices"}, b"1")
    publisher.close()
    bodies = []
    while (body := consumer.body(3)) is not None:
        bodies.append(body)
    return ", ".join(bodies)


def consumer(destination):
    wire = Wire(sys.argv[1])
    wire.subscribe(destination)
    return wire


every = consumer("/queue/Consumer.A.VirtualTopic.>")
print("no queue yet:", seen(every))
named = consumer("/queue/Consumer.A.VirtualTopic.prices")
named.close()
print("the queue is there:", seen(every))
every.close()
print("by its name:", seen(consumer("/queue/Consumer.A.VirtualTopic.prices")))
PY
