#!/usr/bin/env bash
# Two brokers of Apache ActiveMQ Classic 6.3.1 with a network connector, STOMP 1.2. A consumer of the second broker takes one
# message (activemq.prefetchSize:1) and ACKs nothing. That brings over all 100 that wait on the first one. When it
# is gone they stay, and a consumer of the first broker gets none.
set -euo pipefail
stated="\
second broker, a consumer with prefetchSize 1 has: order 0
first broker, a consumer gets: 0 of 100
second broker, another consumer gets: 100 of 100"

source "$(dirname "$0")/lib/activemq.sh"
first="$(free_ports 1)"
activemq_setup="
        var other = new org.apache.activemq.broker.BrokerService();
        other.setBrokerName(\"first\");
        other.setPersistent(false);
        other.setUseJmx(false);
        other.addConnector(\"stomp://127.0.0.1:$first\");
        other.addNetworkConnector(\"static:(\" + connectors[0] + \")\");
        other.start();"
start_activemq
as_stated "$first" "$stomp" <<'PY'
import sys, time
from wire import Wire

first, second = sys.argv[1:]


def consumer_of(port, prefetch):
    wire = Wire(port)
    wire.subscribe("/queue/orders", ack="client-individual", **{"activemq.prefetchSize": prefetch})
    return wire


def count(wire):
    came = 0
    while wire.frame(3):
        came += 1
    return came


producer = Wire(first)
for number in range(100):
    producer.confirmed("SEND", {"destination": "/queue/orders", "persistent": "true"}, f"order {number}".encode())
consumer = consumer_of(second, "1")
print("second broker, a consumer with prefetchSize 1 has:", consumer.body(30))
time.sleep(2)
consumer.close()
print(f"first broker, a consumer gets: {count(consumer_of(first, '1000'))} of 100")
print(f"second broker, another consumer gets: {count(consumer_of(second, '1000'))} of 100")
PY
