"""Producers of other protocols than STOMP, each by the client that its users have.

:data:`PRODUCERS` is the table: what is sent to which broker. The modules have the messages, as data. What a
broker does not take, or cannot turn into STOMP, is not among them.
"""

from __future__ import annotations

from paho.mqtt.enums import MQTTProtocolVersion

from support.producers import amqp091, amqp10, jms, mqtt
from support.producers.base import Producer, Target

__all__ = ["PRODUCERS", "Producer", "Target"]

_AMQP = Producer("amqp", amqp10.MESSAGES | amqp10.SCALARS | amqp10.IDS, amqp10.send)
_AMQP_091 = Producer("amqp", amqp091.MESSAGES, amqp091.send)
_JMS_AMQP = jms.sender("qpid", "amqp")
_CORE = jms.sender("artemis", "tcp")
_OPENWIRE = jms.sender("activemq", "tcp")
_MQTT = Producer("mqtt", mqtt.MESSAGES, mqtt.sender(MQTTProtocolVersion.MQTTv311), topic=True)
_MQTT_5 = Producer(
    "mqtt", mqtt.MESSAGES | mqtt.MESSAGES_5, mqtt.sender(MQTTProtocolVersion.MQTTv5), topic=True
)

PRODUCERS: dict[str, dict[str, Producer]] = {
    "rabbitmq": {
        "AMQP 1.0": _AMQP,
        "AMQP 0.9.1": _AMQP_091,
        "JMS over AMQP": Producer("amqp", jms.MESSAGES | jms.STREAM, _JMS_AMQP),
        "MQTT 3.1.1": _MQTT,
        "MQTT 5": _MQTT_5,
    },
    # It takes few forms of AMQP 1.0.
    "rabbitmq-3.10": {
        "AMQP 1.0": Producer("amqp", {name: _AMQP.messages[name] for name in amqp10.FEW}, amqp10.send),
        "AMQP 0.9.1": _AMQP_091,
        "MQTT 3.1.1": _MQTT,
    },
    "artemis": {
        "AMQP 1.0": Producer("amqp", amqp10.MESSAGES | amqp10.IDS, amqp10.send),
        "JMS over AMQP": Producer("amqp", jms.MESSAGES | jms.NO_BODY, _JMS_AMQP),
        "JMS over Core": Producer("core", jms.MESSAGES | jms.NO_BODY, _CORE),
        "JMS over OpenWire": Producer("openwire", jms.MESSAGES | jms.NO_BODY, _OPENWIRE),
        "MQTT 3.1.1": _MQTT,
        "MQTT 5": _MQTT_5,
    },
    "activemq": {
        "AMQP 1.0": Producer("amqp", amqp10.MESSAGES | amqp10.SCALARS, amqp10.send),
        "AMQP 1.0 with transformer=jms": Producer("amqp-jms", amqp10.MESSAGES | amqp10.SCALARS, amqp10.send),
        "JMS over AMQP": Producer("amqp", jms.WITHOUT_ID, _JMS_AMQP),
        "JMS over AMQP with transformer=jms": Producer("amqp-jms", jms.WITHOUT_ID, _JMS_AMQP),
        "JMS over OpenWire": Producer("openwire", jms.MESSAGES | jms.STREAM | jms.NO_BODY, _OPENWIRE),
        "MQTT 3.1.1": _MQTT,
    },
}
"""By broker and protocol."""
