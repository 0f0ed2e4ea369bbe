#!/usr/bin/env bash
# Apache Artemis 2.56.0 and paho-mqtt 2.1.0 (MQTT 5). MQTT's correlation data reaches a STOMP consumer as Java's name of
# an array, so its value is gone, while user properties come. The other way round no header of a STOMP message becomes a
# user property, and `correlation-id` no correlation data.
set -euo pipefail
stated="\
from MQTT to STOMP: correlation data b'abc' is '[B@...', user property unit=C is 'C'
from STOMP to MQTT: b'21', properties {}"

source "$(dirname "$0")/lib/artemis.sh"
python_with paho-mqtt==2.1.0
start_artemis
as_stated "$port" <<'PY'
import queue, re, sys
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from wire import Wire

port = int(sys.argv[1])
events = queue.Queue()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.username_pw_set("u", "u")
client.on_connect = lambda *_: client.subscribe("house/in", 1)
client.on_subscribe = lambda *_: events.put("subscribed")
client.on_message = lambda _, __, message: events.put((message.payload, message.properties.json()))
client.connect("127.0.0.1", port)
client.loop_start()
assert events.get(timeout=10) == "subscribed"

wire = Wire(port)
wire.subscribe("house.out", **{"subscription-type": "MULTICAST"})
properties = Properties(PacketTypes.PUBLISH)
properties.CorrelationData, properties.UserProperty = b"abc", ("unit", "C")
client.publish("house/out", b"20", qos=1, properties=properties)
headers = wire.frame()[1]
correlation = re.sub("@[0-9a-f]+$", "@...", headers["mqtt.correlation.data"])
unit = next(value for name, value in headers.items() if name.endswith(".unit"))
print(f"from MQTT to STOMP: correlation data b'abc' is {correlation!r}, user property unit=C is {unit!r}")

to = {"destination": "house.in", "destination-type": "MULTICAST"}
wire.confirmed("SEND", {**to, "correlation-id": "abc", "unit": "C"}, b"21")
payload, properties = events.get(timeout=10)
print(f"from STOMP to MQTT: {payload}, properties {properties}")
client.disconnect()
client.loop_stop()
PY
