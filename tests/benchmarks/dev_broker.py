"""The dev broker in a process of its own, which ends with the one that started it; prints its port."""

from __future__ import annotations

import json

from benchmarks.programs import end_with_parent
from spark_stomp.devbroker import DevBroker


def main() -> None:
    with DevBroker() as broker:
        print(json.dumps({"port": broker.port}), flush=True)
        end_with_parent()


if __name__ == "__main__":
    main()
