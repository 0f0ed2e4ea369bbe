#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. An ACK that names a transaction takes effect at once, outside it: after ABORT the
# message is gone, while a SEND of the same transaction is taken back as it should be.
set -euo pipefail
stated="\
delivered: order 1
after ABORT, the ACKed message on a new connection: None
after ABORT, the message sent in the transaction: None
without an ACK, on a new connection: order 2"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

port, anycast = int(sys.argv[1]), {"subscription-type": "ANYCAST"}


def send(wire, queue, body, **headers):
    to = {"destination": queue, "destination-type": "ANYCAST", "persistent": "true"}
    wire.confirmed("SEND", {**to, **headers}, body)


def take(queue):
    wire = Wire(port)
    wire.subscribe(queue, **anycast)
    body = wire.body()
    wire.close()
    return body


wire = Wire(port)
send(wire, "orders", b"order 1")
wire.subscribe("orders", ack="client-individual", **anycast)
_, headers, body = wire.frame()
print("delivered:", body.decode())
wire.confirmed("BEGIN", {"transaction": "t"})
wire.confirmed("ACK", {"id": headers["ack"], "transaction": "t"})
send(wire, "results", b"result 1", transaction="t")
wire.confirmed("ABORT", {"transaction": "t"})
wire.close()
print("after ABORT, the ACKed message on a new connection:", take("orders"))
print("after ABORT, the message sent in the transaction:", take("results"))

wire = Wire(port)
send(wire, "orders", b"order 2")
wire.subscribe("orders", ack="client-individual", **anycast)
wire.frame()
wire.close()
print("without an ACK, on a new connection:", take("orders"))
PY
