#!/usr/bin/env bash
# Apache Artemis 2.56.0, two brokers, queue federation. A consumer of the downstream broker that takes one message at a time
# and ACKs none brings over all that waits upstream, not only what it asked for; when it goes, they stay there, and a
# consumer of the upstream broker gets nothing. `destination` is the queue's full name by then.
set -euo pipefail
stated="\
downstream, a consumer with consumer-window-size 0 has: order 0, of orders::orders
upstream, a consumer gets: None
downstream, another consumer gets: 500 of 500"

source "$(dirname "$0")/lib/artemis.sh"
fetch_artemis
read -r up down <<<"$(free_ports 2)"
queue='s|<addresses>|&<address name="orders"><anycast><queue name="orders"/></anycast></address>|'
artemis_node up "$up" "$queue"
artemis_node down "$down" "$queue" "s|</core>|\\
    <connectors><connector name=\"up\">tcp://127.0.0.1:$up</connector></connectors>\\
    <federations><federation name=\"all\" user=\"u\" password=\"u\">\\
        <upstream name=\"up\">\\
            <static-connectors><connector-ref>up</connector-ref></static-connectors>\\
            <policy ref=\"orders\"/>\\
        </upstream>\\
        <queue-policy name=\"orders\"><include queue-match=\"orders\" address-match=\"orders\"/></queue-policy>\\
    </federation></federations>&|"
as_stated "$up" "$down" <<'PY'
import sys
from wire import Wire

up, down, anycast = *sys.argv[1:], {"subscription-type": "ANYCAST", "ack": "client-individual"}
producer = Wire(up)
for number in range(500):
    to = {"destination": "orders", "destination-type": "ANYCAST", "persistent": "true"}
    producer.confirmed("SEND", to, f"order {number}".encode())
consumer = Wire(down)
consumer.subscribe("orders", **anycast, **{"consumer-window-size": "0"})
_, headers, body = consumer.frame(20)
name = headers["destination"].replace("\\c", ":")
print(f"downstream, a consumer with consumer-window-size 0 has: {body.decode()}, of {name}")
consumer.frame(3)
consumer.close()
consumer = Wire(up)
consumer.subscribe("orders", **anycast)
print("upstream, a consumer gets:", consumer.body(5))
consumer = Wire(down)
consumer.subscribe("orders", **anycast, **{"consumer-window-size": "-1"})
came = 0
while consumer.frame(3):
    came += 1
print(f"downstream, another consumer gets: {came} of 500")
PY
