#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 and paho-mqtt 2.1.0 (MQTT 3.1.1). What a STOMP producer marks as persistent reaches an MQTT
# subscriber with QoS 0, at most once, and what it does not mark with QoS 1, at least once. The subscription asks for 2.
set -euo pipefail
stated="\
sent by STOMP with persistent:true: QoS 0
sent by STOMP without persistent: QoS 1"

source "$(dirname "$0")/lib/activemq.sh"
python_with paho-mqtt==2.1.0
start_activemq
as_stated "$stomp" "$mqtt" <<'PY'
import queue, sys
import paho.mqtt.client as mqtt
from wire import Wire

events = queue.Queue()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_connect = lambda *_: client.subscribe("house/doors", 2)
client.on_subscribe = lambda *_: events.put("subscribed")
client.on_message = lambda _, __, message: events.put(message.qos)
client.connect("127.0.0.1", int(sys.argv[2]))
client.loop_start()
assert events.get(timeout=10) == "subscribed"
wire = Wire(sys.argv[1])
for title, headers in {"with persistent:true": {"persistent": "true"}, "without persistent": {}}.items():
    wire.confirmed("SEND", {"destination": "/topic/house.doors", **headers}, b"open")
    print(f"sent by STOMP {title}: QoS {events.get(timeout=10)}")
client.disconnect()
client.loop_stop()
PY
