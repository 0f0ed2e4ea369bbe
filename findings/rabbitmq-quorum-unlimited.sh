#!/usr/bin/env bash
# RabbitMQ 4.3.6, STOMP 1.2. A SUBSCRIBE without `prefetch-count` has no limit of un-acked messages for a classic queue. For
# a quorum queue it has one: 2,000. More than that come to whoever names a number above it.
set -euo pipefail
stated="\
classic queue, no prefetch-count: 6000 of 6000
quorum queue, no prefetch-count: 2000 of 6000
quorum queue, prefetch-count 5000: 5000 of 6000"

source "$(dirname "$0")/lib/rabbitmq.sh"
start_rabbitmq </dev/null
as_stated "$stomp" <<'PY'
import sys
from wire import Wire


def held(kind, **headers):
    """How many messages come to a consumer that ACKs none."""
    producer, consumer = Wire(sys.argv[1], host="/"), Wire(sys.argv[1], host="/")
    queue = {"destination": f"/queue/{kind}{len(headers)}", "x-queue-type": kind}
    for number in range(1, 6001):
        receipt = {"receipt": "r"} if number == 6000 else {}
        producer.send("SEND", {**queue, "persistent": "true", **receipt}, b"order")
    assert producer.frame(60)[0] == "RECEIPT"
    consumer.subscribe(queue["destination"], ack="client-individual", **{"x-queue-type": kind}, **headers)
    came = 0
    while consumer.frame(5):
        came += 1
    return f"{came} of 6000"


print("classic queue, no prefetch-count:", held("classic"))
print("quorum queue, no prefetch-count:", held("quorum"))
print("quorum queue, prefetch-count 5000:", held("quorum", **{"prefetch-count": "5000"}))
PY
