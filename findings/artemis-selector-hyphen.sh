#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A selector on a header whose name has a hyphen is confirmed and matches nothing: it
# is read as a difference of two properties. The prefix `hyphenated_props:` before the selector makes it match.
set -euo pipefail
stated="\
order_id = 'A1': RECEIPT, then order 1
order-id = 'A1': RECEIPT, then None
hyphenated_props:order-id = 'A1': RECEIPT, then order 1"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

wire = Wire(sys.argv[1])
to = {"destination": "orders", "destination-type": "ANYCAST"}
wire.confirmed("SEND", {**to, "order-id": "A1", "order_id": "A1"}, b"order 1")
for selector in "order_id = 'A1'", "order-id = 'A1'", "hyphenated_props:order-id = 'A1'":
    wire = Wire(sys.argv[1])
    which = {"subscription-type": "ANYCAST", "selector": selector.replace(":", "\\c"), "receipt": "r"}
    wire.send("SUBSCRIBE", {"id": "1", "destination": "orders", "ack": "client-individual", **which})
    print(f"{selector}: {wire.frame()[0]}, then {wire.body()}")
    wire.close()
PY
