#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. One producer, one queue, one consumer, and yet another order: if persistent and
# other messages wait in a queue, they come in two rows, the persistent ones first. A durable subscription to a topic does
# the same. Apache Artemis 2.56.0 keeps the order.
set -euo pipefail
stated="\
Classic, all persistent: 0 1 2 3 4 5 6 7
Classic, only 1, 3, 5, 7 persistent: 1 3 5 7 0 2 4 6
Artemis, only 1, 3, 5, 7 persistent: 0 1 2 3 4 5 6 7"

source "$(dirname "$0")/lib/artemis.sh"
source "$(dirname "$0")/lib/activemq.sh"
start_activemq
start_artemis
as_stated "$stomp" "$port" <<'PY'
import sys
from wire import Wire

every, odd = "all persistent", "only 1, 3, 5, 7 persistent"
for name, port, title in (("Classic", sys.argv[1], every), ("Classic", sys.argv[1], odd), ("Artemis", sys.argv[2], odd)):
    queue = "/queue/orders" if name == "Classic" else "orders"
    producer, consumer = Wire(port), Wire(port)
    for number in range(8):
        persistent = {"persistent": "true"} if title == every or number % 2 else {}
        to = {"destination": queue, "destination-type": "ANYCAST"}
        producer.confirmed("SEND", {**to, **persistent}, str(number).encode())
    consumer.subscribe(queue, **{"subscription-type": "ANYCAST"})
    print(f"{name}, {title}:", *(consumer.body(10) for _ in range(8)))
    consumer.close()
PY
