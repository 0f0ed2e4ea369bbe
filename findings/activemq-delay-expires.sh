#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 with its scheduler, and Artemis 2.56.0. A message is to come after four seconds and expires
# after one. Classic's scheduler does not look at `expires`: it comes, three seconds after it has expired. On Artemis it
# does not.
set -euo pipefail
stated="\
ActiveMQ Classic: offer, 3 s after it has expired
Artemis: None"

source "$(dirname "$0")/lib/activemq.sh"
source "$(dirname "$0")/lib/artemis.sh"
activemq_setup='broker.setSchedulerSupport(true);'
start_activemq
start_artemis
as_stated "$stomp" "$port" <<'PY'
import sys, time
from wire import Wire

queues = {
    "ActiveMQ Classic": (sys.argv[1], {"destination": "/queue/offers"}),
    "Artemis": (sys.argv[2], {"destination": "offers", "destination-type": "ANYCAST"}),
}
for broker, (port, to) in queues.items():
    wire = Wire(port)
    wire.subscribe(to["destination"], **{"subscription-type": "ANYCAST"})
    expires = time.time() + 1
    delay = {"AMQ_SCHEDULED_DELAY": "4000", "expires": str(int(expires * 1000))}
    wire.confirmed("SEND", {**to, **delay, "persistent": "true"}, b"offer")
    body = wire.body(8)
    print(f"{broker}: {body}" + (f", {time.time() - expires:.0f} s after it has expired" if body else ""))
PY
