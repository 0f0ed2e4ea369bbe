"""``make brokers``: the real brokers on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

from support.brokers import BROKERS, CLUSTERS, Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.brokers", description=__doc__)
    parser.add_argument("names", nargs="*", default=["rabbitmq", "activemq", "artemis"])
    parser.add_argument("--check", action="store_true", help="install and start each once, then stop")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        ignoring = tempfile.TemporaryDirectory(prefix="brokers-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(ignoring))
        started = [_started(name, folder / name, stack) for name in arguments.names]
        if not arguments.check and any(started):
            print("Ctrl-C stops them.", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0 if all(started) else 1


def _started(name: str, folder: Path, stack: ExitStack) -> bool:
    folder.mkdir()
    broker = {**BROKERS, **CLUSTERS}[name](folder)
    stack.callback(broker.stop)
    try:
        broker.start()
    except Unavailable as error:
        print(f"{name:10} is not available: {error}", flush=True)
        return False
    print(f"{name:10} {broker.url}  login={broker.login} password={broker.password}", flush=True)
    return True


if __name__ == "__main__":
    # Before any thread or process, so that the signals wait for sigwait and are passed on to nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    raise SystemExit(main())
