#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. `browser:true` on SUBSCRIBE, with which ActiveMQ Classic 6.3.1 only looks, is accepted by
# Artemis and consumes: what was looked at is gone.
set -euo pipefail
stated="\
Classic, browser:true: order 1
Classic, after that: order 1
Artemis, browser:true: order 1
Artemis, after that: None"

source "$(dirname "$0")/lib/artemis.sh"
source "$(dirname "$0")/lib/activemq.sh"
start_activemq
start_artemis
as_stated "$stomp" "$port" <<'PY'
import sys
from wire import Wire

for name, port in zip(("Classic", "Artemis"), sys.argv[1:]):
    queue = "/queue/orders" if name == "Classic" else "orders"
    wire = Wire(port)
    wire.confirmed("SEND", {"destination": queue, "destination-type": "ANYCAST"}, b"order 1")
    for title, headers in {"browser:true": {"browser": "true"}, "after that": {}}.items():
        wire.subscribe(queue, **{"subscription-type": "ANYCAST"}, **headers)
        print(f"{name}, {title}:", wire.body())
        wire.close()
        wire = Wire(port)
PY
