"""``make brokers``: the real brokers on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import tempfile
from pathlib import Path

from support.brokers import BROKERS, Broker, Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.brokers", description=__doc__)
    parser.add_argument("names", nargs="*", default=["rabbitmq", "activemq", "artemis"])
    parser.add_argument("--check", action="store_true", help="install and start each once, then stop")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brokers-", ignore_cleanup_errors=True) as folder:
        brokers = [BROKERS[name](_made(Path(folder) / name)) for name in arguments.names]
        try:
            started = [_started(broker) for broker in brokers]
            if not arguments.check and any(started):
                print("Ctrl-C stops them.", flush=True)
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        finally:
            for broker in brokers:
                broker.stop()
    return 0 if all(started) else 1


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _started(broker: Broker) -> bool:
    try:
        broker.start()
    except Unavailable as error:
        print(f"{broker.name:10} cannot be had: {error}", flush=True)
        return False
    print(f"{broker.name:10} {broker.url}  login={broker.login} password={broker.password}", flush=True)
    return True


if __name__ == "__main__":
    # Before any thread or process, so that the signals wait for sigwait and are passed on to nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    raise SystemExit(main())
