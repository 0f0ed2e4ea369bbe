#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A SUBSCRIBE to the queues `orders.*` does not read these queues. It gets nothing of what
# lies there, and a copy of what is sent from then on, which the queue keeps too: each message is there twice.
set -euo pipefail
stated="\
orders.*: None
orders.*, after one more to orders.eu: order 2
orders.eu: order 1
orders.eu: order 2"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

to = {"destination": "orders.eu", "destination-type": "ANYCAST", "persistent": "true"}
producer, every, one = Wire(sys.argv[1]), Wire(sys.argv[1]), Wire(sys.argv[1])
producer.confirmed("SEND", to, b"order 1")
every.subscribe("orders.*", **{"subscription-type": "ANYCAST"})
print("orders.*:", every.body())
producer.confirmed("SEND", to, b"order 2")
print("orders.*, after one more to orders.eu:", every.body(20))
one.subscribe("orders.eu", **{"subscription-type": "ANYCAST"})
for _ in range(2):
    print("orders.eu:", one.body(20))
PY
