#!/usr/bin/env bash
# Apache Artemis 2.56.0 and paho-mqtt 2.1.0 (MQTT 3.1.1). A message that came by MQTT has priority 0, the lowest, one by
# STOMP 4. So in a subscription that has fallen behind MQTT's messages wait behind all others, whenever they came.
set -euo pipefail
stated="\
stomp 1, priority 4
stomp 2, priority 4
mqtt 1, priority 0
mqtt 2, priority 0"

source "$(dirname "$0")/lib/artemis.sh"
python_with paho-mqtt==2.1.0
start_artemis
as_stated "$port" <<'PY'
import sys
import paho.mqtt.client as mqtt
from wire import Wire


def subscriber():
    wire = Wire(sys.argv[1], **{"client-id": "office"})
    durable = {"durable-subscription-name": "readings"}
    wire.subscribe("house.readings", **{"subscription-type": "MULTICAST"}, **durable)
    return wire


wire = subscriber()
wire.confirmed("DISCONNECT", {})
wire.close()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.username_pw_set("u", "u")
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
producer = Wire(sys.argv[1])
for number in 1, 2:
    client.publish("house/readings", f"mqtt {number}", qos=1).wait_for_publish(10)
    to = {"destination": "house.readings", "destination-type": "MULTICAST", "persistent": "true"}
    producer.confirmed("SEND", to, f"stomp {number}".encode())
client.disconnect()
client.loop_stop()
wire = subscriber()
for _ in range(4):
    _, headers, body = wire.frame()
    print(f"{body.decode()}, priority {headers['priority']}")
PY
