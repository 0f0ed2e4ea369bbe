#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. A NACK puts a persistent message into the queue of dead letters. One that is not
# persistent, as each SEND without `persistent:true`, is gone: nobody gets it again, and the dead letters lack it.
set -euo pipefail
stated="\
persistent:true, NACK confirmed: in the queue None, among the dead letters 'order 1'
without that header, NACK confirmed: in the queue None, among the dead letters None"

source "$(dirname "$0")/lib/activemq.sh"
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire

port = int(sys.argv[1])


def next_of(queue):
    wire = Wire(port)
    wire.subscribe(queue)
    body = wire.body()
    wire.close()
    return body


def refused(queue, **headers):
    wire = Wire(port)
    wire.confirmed("SEND", {"destination": queue, **headers}, b"order 1")
    wire.subscribe(queue, ack="client-individual")
    wire.confirmed("NACK", {"id": wire.frame()[1]["ack"]})
    wire.close()
    return f"in the queue {next_of(queue)!r}, among the dead letters {next_of('/queue/ActiveMQ.DLQ')!r}"


print("persistent:true, NACK confirmed:", refused("/queue/a", persistent="true"))
print("without that header, NACK confirmed:", refused("/queue/b"))
PY
