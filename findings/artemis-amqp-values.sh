#!/usr/bin/env bash
# Apache Artemis 2.56.0 and python-qpid-proton 0.40.0. What an AMQP 1.0 producer sends as a value reaches a STOMP
# consumer in three ways: a string as its text, a number as the octets of AMQP's encoding with no header that says so,
# a map without its content: of one entry as an empty body, of two as the octet 00.
set -euo pipefail
stated="\
'2.5' -> '2.5', 3 octets
2.5 -> '00 53 77 82 40 04 00 00 00 00 00 00', 12 octets
7 -> '00 53 77 55 07', 5 octets
{'city': 'Bern'} -> '', 0 octets
{'city': 'Bern', 'unit': 'C'} -> '00', 1 octets
headers of 2.5 and 7 that name an encoding: []"

source "$(dirname "$0")/lib/artemis.sh"
python_with python-qpid-proton==0.40.0
start_artemis
as_stated "$port" <<'PY'
import sys
from proton import Message
from proton.utils import BlockingConnection
from wire import Wire

port = sys.argv[1]
consumer = Wire(port)
consumer.subscribe("readings", **{"subscription-type": "ANYCAST"})
producer = BlockingConnection(f"u:u@127.0.0.1:{port}", timeout=10)
sender = producer.create_sender("readings")
encodings = []
for value in "2.5", 2.5, 7, {"city": "Bern"}, {"city": "Bern", "unit": "C"}:
    sender.send(Message(value))
    _, headers, body = consumer.frame()
    shown = body.decode() if value == "2.5" else body.hex(" ")
    print(f"{value!r} -> {shown!r}, {len(body)} octets")
    if isinstance(value, (float, int)):
        encodings += [name for name in headers if "ENCODING" in name or name == "content-type"]
print("headers of 2.5 and 7 that name an encoding:", encodings)
producer.close()
PY
