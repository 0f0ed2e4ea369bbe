#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 and Artemis 2.56.0, STOMP 1.2. A message that was sent with JMSXGroupID comes from Classic
# without it: the broker keeps the messages of a group together, and tells no consumer by STOMP which group it is. What
# copies a message on loses its group. Artemis tells it, by another name.
set -euo pipefail
stated="\
ActiveMQ Classic: group kept together: True, headers with its name: none
Artemis: group kept together: True, headers with its name: _AMQ_GROUP_ID"

source "$(dirname "$0")/lib/activemq.sh"
source "$(dirname "$0")/lib/artemis.sh"
start_activemq
start_artemis
as_stated "$stomp" "$port" <<'PY'
import sys
from wire import Wire

queues = {
    "ActiveMQ Classic": (sys.argv[1], {"destination": "/queue/orders"}),
    "Artemis": (sys.argv[2], {"destination": "orders", "destination-type": "ANYCAST"}),
}
for broker, (port, to) in queues.items():
    consumers = [Wire(port), Wire(port)]
    for consumer in consumers:
        consumer.subscribe(to["destination"], **{"subscription-type": "ANYCAST"})
    producer = Wire(port)
    for number in range(10):
        producer.confirmed("SEND", {**to, "JMSXGroupID": "customer-7"}, str(number).encode())
    came = [[], []]
    for frames, consumer in zip(came, consumers):
        while frame := consumer.frame(2):
            frames.append(frame)
    together = sorted(map(len, came)) == [0, 10]
    names = {name for _, headers, _ in sum(came, []) for name, value in headers.items() if value == "customer-7"}
    print(f"{broker}: group kept together: {together}, headers with its name: {', '.join(names) or 'none'}")
PY
