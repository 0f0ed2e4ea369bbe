"""Messages whose rows are not what was sent: how many tasks have read, and a log line for the first ones."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

from spark_stomp.arrow.content import HOLLOW, KINDS, LOST, NOT_TEXT, UNDECODED, UNFIT, Flaw
from spark_stomp.brokers import dialect_named
from spark_stomp.logs import get_log
from spark_stomp.quoting import counted, shown
from spark_stomp.status.receivers import UnfitBodies

log = get_log(__name__)

# Kinds and destinations that are logged. Tasks name the destinations of messages, of which a pattern may
# match any number; bodies of the others are counted together.
_MOST_LOGGED = 100
_OTHERS = "others"


class FlawCounts:
    """Counts flaws by kind. A batch that is read again counts again. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(KINDS, 0)
        self._logged: set[tuple[str, str]] = set()
        self._unfit: dict[str, UnfitBodies] = {}

    def take(self, flaws: Counter[Flaw]) -> None:
        """Count flaws, and log kinds and destinations that were not logged before.

        Raises KeyError if there is no such kind.
        """
        with self._lock:
            for one, count in flaws.items():
                self._counts[one.kind] += count
                if one.kind == UNFIT:
                    self._take_unfit(one, count)
            new = [one for one in flaws if one[:2] not in self._logged][: _MOST_LOGGED - len(self._logged)]
            self._logged.update(one[:2] for one in new)
        for one in new:
            log.warning("%s: %s", shown(one.destination), _sentence(one, flaws[one]))

    def _take_unfit(self, one: Flaw, count: int) -> None:
        known = one.destination in self._unfit or len(self._unfit) < _MOST_LOGGED
        name, now = one.destination if known else _OTHERS, time.time()
        before = self._unfit.get(name, UnfitBodies(0, one.reason, now, now))
        self._unfit[name] = replace(before, bodies=before.bodies + count, last=now)

    @property
    def unfit(self) -> dict[str, UnfitBodies]:
        """The bodies that do not fit, by destination."""
        with self._lock:
            return dict(self._unfit)

    @property
    def counts(self) -> dict[str, int]:
        """How many messages of each kind have been read."""
        with self._lock:
            return {kind: count for kind, count in self._counts.items() if count}


def _sentence(flaw: Flaw, count: int) -> str:
    messages, marks = counted(count, "message"), dialect_named(flaw.dialect).bodies
    return {
        UNFIT: f"{messages} with a body that does not fit, the first: {flaw.reason}. The rows have it in "
        "`rescued`",
        NOT_TEXT: f"{messages} with a header that is not UTF-8, or has a NUL. The rows have it with one "
        "character for each octet, and the column `malformed` names it",
        UNDECODED: f"{messages} with a body that is marked as AMQP 1.0 and cannot be decoded, or as a map of "
        "StompJMS. The rows have it as it came, and the column `malformed` says why",
        LOST: f"{messages} whose headers say that the broker has left the content out. {marks.remedy}",
        HOLLOW: f"{messages} with an empty body, which this broker ({flaw.dialect}) also sends in place of a "
        f"map, a stream or an object of JMS. If that was the content: {marks.remedy}",
    }[flaw.kind]
