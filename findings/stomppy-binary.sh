#!/usr/bin/env bash
# stomp.py 9.0.0. A listener gets the body of each message as text. Of a body that is no text, such as gzip, every octet that
# is not UTF-8 has become the same replacement character: no error, and no way back.
set -euo pipefail
stated="\
sent: 1f8b08
received: str '\\x1f\\ufffd\\x08'
with auto_decode=False: bytes 1f8b08"

source "$(dirname "$0")/lib/activemq.sh"
python_with stomp-py==9.0.0
start_activemq
as_stated "$stomp" <<'PY'
import queue, sys
import stomp
from wire import Wire

bodies = queue.Queue()


class Listener(stomp.ConnectionListener):
    def on_message(self, frame):
        bodies.put(frame.body)


body = b"\x1f\x8b\x08"
print("sent:", body.hex())
for title, options in {"received": {}, "with auto_decode=False": {"auto_decode": False}}.items():
    connection = stomp.Connection12([("127.0.0.1", int(sys.argv[1]))], **options)
    connection.set_listener("", Listener())
    connection.connect(wait=True)
    connection.subscribe("/queue/feed", "1")
    Wire(sys.argv[1]).confirmed("SEND", {"destination": "/queue/feed", "content-length": "3"}, body)
    seen = bodies.get(timeout=20)
    print(f"{title}: {type(seen).__name__}", ascii(seen) if isinstance(seen, str) else seen.hex())
    connection.disconnect()
PY
