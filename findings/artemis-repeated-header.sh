#!/usr/bin/env bash
# Apache Artemis 2.56.0. STOMP 1.1 and 1.2 say that of a repeated header the first one counts. Artemis takes the first
# from a 1.2 connection and the last from a 1.1 connection, so the version of the producer decides the value.
set -euo pipefail
stated="\
sent by 1.1 as first, second: second
sent by 1.2 as first, second: first"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

consumer = Wire(sys.argv[1])
consumer.subscribe("orders", **{"subscription-type": "ANYCAST"})
for version in "1.1", "1.2":
    producer = Wire(sys.argv[1], version)
    to = [("destination", "orders"), ("destination-type", "ANYCAST")]
    producer.confirmed("SEND", [*to, ("state", "first"), ("state", "second")], b"order 1")
    print(f"sent by {version} as first, second:", consumer.frame()[1]["state"])
PY
