#!/usr/bin/env bash
# RabbitMQ 4.3.6 with default_queue_type = quorum, STOMP 1.2. A SUBSCRIBE that wants a queue which is not durable is not
# refused, though a quorum queue cannot be that: it gets a durable classic queue that deletes itself, without a word.
# A durable subscription of a topic has a quorum queue, with the limit of 20 deliveries that such queues have.
set -euo pipefail
stated="\
/queue/plain: quorum, durable true, deletes itself false
/queue/passing, durable:false: classic, durable true, deletes itself true
/topic/prices: classic, durable true, deletes itself true
/topic/prices, durable:true, auto-delete:false: quorum, durable true, deletes itself false"

source "$(dirname "$0")/lib/rabbitmq.sh"
start_rabbitmq <<<"default_queue_type = quorum"
as_stated "$stomp" "$work/ctl" <<'PY'
import subprocess, sys
from wire import Wire


def queues():
    asked = ["list_queues", "--no-table-headers", "name", "type", "durable", "auto_delete"]
    command = ["bash", sys.argv[2], "--quiet", *asked]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {tuple(line.split("\t")) for line in said.splitlines()}


known, wires = set(), []
durable = {"durable": "true", "auto-delete": "false"}
asked = [("/queue/plain", {}), ("/queue/passing", {"durable": "false"}), ("/topic/prices", {}), ("/topic/prices", durable)]
for destination, headers in asked:
    wires.append(Wire(sys.argv[1], host="/"))
    wires[-1].subscribe(destination, ack="client-individual", **headers)
    ((_, kind, lasts, goes),) = queues() - known
    known = queues()
    title = ", ".join([destination, *map(":".join, headers.items())])
    print(f"{title}: {kind}, durable {lasts}, deletes itself {goes}")
PY
