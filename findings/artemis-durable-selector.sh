#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A durable subscription keeps the selector of its first SUBSCRIBE. One that comes back with
# another selector gets a receipt, and goes on getting what it does not ask for any more.
set -euo pipefail
stated="\
SUBSCRIBE with unit = 'C': RECEIPT
SUBSCRIBE again with unit = 'F': RECEIPT
received: 20 C
received: 21 C
received: None"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire


def subscriber(selector):
    wire = Wire(sys.argv[1], **{"client-id": "office"})
    which = {"subscription-type": "MULTICAST", "durable-subscription-name": "readings", "selector": selector}
    wire.send("SUBSCRIBE", {"id": "1", "destination": "readings", "receipt": "r", **which})
    return wire, wire.frame()[0]


def publish(number):
    for unit in "C", "F":
        to = {"destination": "readings", "destination-type": "MULTICAST", "persistent": "true"}
        producer.confirmed("SEND", {**to, "unit": unit}, f"{number} {unit}".encode())


producer = Wire(sys.argv[1])
wire, answer = subscriber("unit = 'C'")
print("SUBSCRIBE with unit = 'C':", answer)
wire.confirmed("DISCONNECT", {})
wire.close()
publish(20)
wire, answer = subscriber("unit = 'F'")
print("SUBSCRIBE again with unit = 'F':", answer)
publish(21)
for _ in range(3):
    print("received:", wire.body(5))
PY
