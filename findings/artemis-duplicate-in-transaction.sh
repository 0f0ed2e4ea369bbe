#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A message with a _AMQ_DUPL_ID that the address has seen is confirmed and dropped. In a
# transaction the same message takes all others with it: COMMIT is answered with an ERROR that names no cause.
set -euo pipefail
stated="\
sent again by itself: RECEIPT
sent again in a transaction with two new ones, COMMIT: ERROR 'AMQ339013 Error committing t', body b''
in the queue: [b'one']
the two new ones in a transaction without it, COMMIT: RECEIPT
in the queue: [b'one', b'two', b'three']"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

port = int(sys.argv[1])
BODIES = {"1": b"one", "2": b"two", "3": b"three"}


def sent(wire, name, **further):
    headers = {"destination": "orders", "destination-type": "ANYCAST", "_AMQ_DUPL_ID": name, **further}
    wire.send("SEND", headers, BODIES[name])


def committed(*names):
    wire = Wire(port)
    wire.send("BEGIN", {"transaction": "t"})
    for name in names:
        sent(wire, name, transaction="t")
    wire.send("COMMIT", {"transaction": "t", "receipt": "r"})
    return wire.frame()


def waiting():
    wire, found = Wire(port), []
    wire.subscribe("orders", ack="client-individual", **{"subscription-type": "ANYCAST", "consumer-window-size": "-1"})
    while frame := wire.frame(2):
        found.append(frame[2])
    wire.close()
    return found


wire = Wire(port)
for _ in range(2):
    sent(wire, "1", receipt="r")
    answer = wire.frame()
print("sent again by itself:", answer[0])
command, headers, body = committed("2", "1", "3")
print(f"sent again in a transaction with two new ones, COMMIT: {command} {headers['message']!r}, body {body}")
print("in the queue:", waiting())
print("the two new ones in a transaction without it, COMMIT:", committed("2", "3")[0])
print("in the queue:", waiting())
PY
