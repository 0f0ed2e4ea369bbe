#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. If a SUBSCRIBE to queues by a wildcard asks for a receipt, what waits in them is
# not delivered, until a message comes to one of them or the broker looks for expired ones, every 30 seconds. Without the
# header `receipt`, or with the queue's name, it comes at once.
set -euo pipefail
stated="\
/queue/orders.eu with a receipt: order 1
/queue/orders.* without a receipt: order 1
/queue/orders.* with a receipt: None
after a message to /queue/orders.us: order 1, order 2"

source "$(dirname "$0")/lib/activemq.sh"
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire


def send(queue, body):
    producer = Wire(sys.argv[1])
    producer.confirmed("SEND", {"destination": queue, "persistent": "true"}, body)
    producer.close()


def consume(destination, receipt, seconds):
    wire = Wire(sys.argv[1])
    if receipt:
        wire.subscribe(destination)
    else:
        wire.send("SUBSCRIBE", {"id": "1", "destination": destination})
    print(f"{destination} with{'' if receipt else 'out'} a receipt:", wire.body(seconds))
    return wire


for destination, receipt, seconds in (
    ("/queue/orders.eu", True, 20),
    ("/queue/orders.*", False, 20),
    ("/queue/orders.*", True, 5),
):
    send("/queue/orders.eu", b"order 1")
    wire = consume(destination, receipt, seconds)
    if seconds == 20:
        wire.close()
send("/queue/orders.us", b"order 2")
print("after a message to /queue/orders.us:", ", ".join(sorted(wire.body(20) for _ in range(2))))
PY
