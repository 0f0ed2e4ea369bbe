#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. Of two headers for a delay Artemis obeys that of ActiveMQ Classic, AMQ_SCHEDULED_DELAY,
# and not its own, _AMQ_SCHED_DELIVERY. ActiveMQ Classic 6.3.1 without its scheduler obeys neither and says nothing.
set -euo pipefail
stated="\
Artemis, AMQ_SCHEDULED_DELAY: comes later
Artemis, _AMQ_SCHED_DELIVERY: comes at once
Classic, AMQ_SCHEDULED_DELAY: comes at once
Classic, _AMQ_SCHED_DELIVERY: comes at once"

source "$(dirname "$0")/lib/artemis.sh"
source "$(dirname "$0")/lib/activemq.sh"
start_activemq
start_artemis
as_stated "$port" "$stomp" <<'PY'
import sys, time
from wire import Wire

in_a_minute = str(int(time.time() * 1000) + 60_000)
for name, port in zip(("Artemis", "Classic"), sys.argv[1:]):
    for header, value in {"AMQ_SCHEDULED_DELAY": "60000", "_AMQ_SCHED_DELIVERY": in_a_minute}.items():
        queue = f"/queue/{header}" if name == "Classic" else header
        wire = Wire(port)
        to = {"destination": queue, "destination-type": "ANYCAST", "persistent": "true"}
        wire.confirmed("SEND", {**to, header: value}, b"order 1")
        wire.subscribe(queue, **{"subscription-type": "ANYCAST"})
        print(f"{name}, {header}: comes {'later' if wire.body() is None else 'at once'}")
        wire.close()
PY
