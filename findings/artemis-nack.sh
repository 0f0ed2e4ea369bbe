#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A NACK is obeyed as if it were an ACK: the message, persistent and never processed,
# comes to nobody again and is not in the dead letter queue.
set -euo pipefail
stated="\
delivered: order 1
after NACK, to the same subscription: None
after NACK, to a new connection: None
in the dead letter queue: None"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

port, anycast = int(sys.argv[1]), {"subscription-type": "ANYCAST"}
wire = Wire(port)
wire.confirmed("SEND", {"destination": "orders", "destination-type": "ANYCAST", "persistent": "true"}, b"order 1")
wire.subscribe("orders", ack="client-individual", **anycast)
_, headers, body = wire.frame()
print("delivered:", body.decode())
wire.confirmed("NACK", {"id": headers["ack"]})
print("after NACK, to the same subscription:", wire.body())
wire.close()
for title, queue in {"after NACK, to a new connection": "orders", "in the dead letter queue": "DLQ"}.items():
    wire = Wire(port)
    wire.subscribe(queue, **anycast)
    print(f"{title}:", wire.body())
    wire.close()
PY
