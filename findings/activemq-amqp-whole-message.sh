#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 and python-qpid-proton 0.40.0, an amqp connector without options. The body that a STOMP
# consumer gets of an AMQP 1.0 message is no body: it is the whole message in AMQP's encoding, properties included, and
# content-length counts that.
set -euo pipefail
stated="\
abc sent as binary data: content-length 16, ends in 'abc': True
the same with the subject 'readings': content-length 31, contains the subject: True"

source "$(dirname "$0")/lib/activemq.sh"
python_with python-qpid-proton==0.40.0
start_activemq
as_stated "$stomp" "$amqp" <<'PY'
import sys
from proton import Message
from proton.utils import BlockingConnection
from wire import Wire

consumer = Wire(sys.argv[1])
consumer.subscribe("/queue/readings")
producer = BlockingConnection(f"127.0.0.1:{sys.argv[2]}", timeout=10)
sender = producer.create_sender("readings")
sender.send(Message(b"abc", inferred=True))
_, headers, body = consumer.frame()
print(f"abc sent as binary data: content-length {headers['content-length']}, ends in 'abc': {body[-3:] == b'abc'}")
sender.send(Message(b"abc", inferred=True, subject="readings"))
_, headers, body = consumer.frame()
print(
    f"the same with the subject 'readings': content-length {headers['content-length']},"
    f" contains the subject: {b'readings' in body}"
)
producer.close()
PY
