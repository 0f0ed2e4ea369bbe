#!/usr/bin/env bash
# pyarrow 26.0.1, Flight. After `cancel()` a read of the stream raises FlightCancelledError, but `read_all()` raises
# KeyboardInterrupt, as if somebody had pressed Ctrl-C: no `except Exception` catches it.
set -euo pipefail
stated="\
cancel(), then read_chunk(): FlightCancelledError, an Exception: True
cancel(), then read_all(): KeyboardInterrupt, an Exception: False
cancel() by another thread within read_all(): KeyboardInterrupt, an Exception: False"

source "$(dirname "$0")/lib/common.sh"
python_with pyarrow==26.0.1
as_stated <<'PY'
import threading, time
import pyarrow as pa
import pyarrow.flight as flight

batch = pa.record_batch({"v": list(range(1000))})


class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        return flight.GeneratorStream(batch.schema, slowly())


def slowly():
    for _ in range(300):
        yield batch
        time.sleep(0.1)


def read_chunks(reader):
    while True:
        reader.read_chunk()


with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    for title, read, later in (
        ("cancel(), then read_chunk()", read_chunks, 0),
        ("cancel(), then read_all()", flight.FlightStreamReader.read_all, 0),
        ("cancel() by another thread within read_all()", flight.FlightStreamReader.read_all, 1),
    ):
        reader = client.do_get(flight.Ticket(b""))
        reader.read_chunk()
        if later:
            threading.Timer(later, reader.cancel).start()
        else:
            reader.cancel()
        try:
            read(reader)
        except BaseException as error:
            print(f"{title}: {type(error).__name__}, an Exception: {isinstance(error, Exception)}")
PY
