#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. One SEND to two queues makes two messages with one message-id. If the consumers
# of both NACK theirs, one is among the dead letters and the other is nowhere: the dead letter strategy takes it for the
# same message (enableAudit). It is persistent, and each NACK is confirmed.
set -euo pipefail
stated="\
billing: order 1
stock: order 1
the same message-id: True
dead letters: order 1, of /queue/billing
one more dead letter: None
left in billing and stock: None, None"

source "$(dirname "$0")/lib/activemq.sh"
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire


def consumer_of(queue):
    wire = Wire(sys.argv[1])
    wire.subscribe(f"/queue/{queue}", ack="client-individual")
    return wire


to = {"destination": "/queue/billing,/queue/stock", "persistent": "true"}
Wire(sys.argv[1]).confirmed("SEND", to, b"order 1")
ids = set()
for queue in "billing", "stock":
    wire = consumer_of(queue)
    _, headers, body = wire.frame()
    print(f"{queue}: {body.decode()}")
    ids.add(headers["message-id"])
    wire.confirmed("NACK", {"id": headers["ack"]})
    wire.close()
print("the same message-id:", len(ids) == 1)
dead = consumer_of("ActiveMQ.DLQ")
_, headers, body = dead.frame()
print(f"dead letters: {body.decode()}, of {headers['original-destination']}")
print("one more dead letter:", dead.body())
print(f"left in billing and stock: {consumer_of('billing').body()}, {consumer_of('stock').body()}")
PY
