#!/usr/bin/env bash
# Open MQ 6.5.0, STOMP 1.2 by its bridge. `expires` on SEND is a duration, though on MESSAGE it is a time. A time in ms
# since 1970, as ActiveMQ and Artemis want it, is confirmed, and the message expires in more than fifty years.
set -euo pipefail
stated="\
sent with expires of a minute from now: expires in more than 50 years: True
sent with expires:60000: expires in a minute: True"

source "$(dirname "$0")/lib/openmq.sh"
start_openmq
as_stated "$port" <<'PY'
import sys, time
from wire import Wire


def left(expires):
    """How many seconds the message has left as the consumer gets it."""
    wire = Wire(sys.argv[1], login="guest", passcode="guest")
    wire.confirmed("SEND", {"destination": "/queue/orders", "expires": expires}, b"order 1")
    wire.subscribe("/queue/orders")
    _, headers, _ = wire.frame()
    wire.close()
    return int(headers["expires"]) / 1000 - time.time()


in_a_minute = int(time.time() * 1000) + 60_000
years = left(in_a_minute) / 3600 / 24 / 365
print("sent with expires of a minute from now: expires in more than 50 years:", years > 50)
print("sent with expires:60000: expires in a minute:", 0 < left(60_000) < 61)
PY
