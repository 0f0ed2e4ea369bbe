"""A case: what a hostile peer does, and what must come of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostile.broker import Script, hostile_broker
from hostile.victim import Order, Report, meet

_OPTIONS = {"connectTimeout": "1s", "heartbeat": "0,0", "broker": "devbroker", "logLevel": "error"}
_OF_ROLE = {
    "connect": {},
    "receive": {"reconnectTimeout": "300ms", "ackReceiptTimeout": "1s"},
    "browse": {"idleTimeout": "500ms", "maxDrainTime": "1s", "allowLoss": "true"},
    "send": {"receiptTimeout": "1s", "reconnectTimeout": "300ms", "blockedTimeout": "1s"},
}
# A machine that is busy with other things, and a begun round of reading. Without the bounds that are shown
# here, cases took minutes.
SLACK = 6.0
_LONGEST_TEXT = 1_000


@dataclass
class Result:
    """What came of a case; ``faults`` say what should not have."""

    name: str
    outcome: str
    seconds: float
    peak: int
    faults: list[str]


def excesses(case: Any, seconds: float, peak: int) -> Iterator[str]:
    """How far the case took more time (seconds) and memory (bytes) than it may."""
    if seconds > case.within + SLACK:
        yield f"it took {seconds:.1f} s instead of {case.within:g}"
    if peak > case.memory << 20:
        yield f"its memory rose by {peak >> 20} MiB instead of {case.memory}"


@dataclass(frozen=True)
class BrokerCase:
    """A victim with ``role`` meets a broker that follows ``script``.

    ``expect`` is a regular expression for the outcome, ``within`` the time that the options allow (seconds),
    ``memory`` how far the victim's memory may rise (MiB).
    """

    name: str
    script: Script
    expect: str
    role: str = "receive"
    options: Mapping[str, str] = field(default_factory=dict)
    messages: int = 1
    within: float = 0.0
    memory: int = 48
    deaf: bool = False
    scheme: str = "stomp"

    @property
    def may_wait(self) -> bool:
        """Whether it ends only because ``connectTimeout`` is over."""
        return "CONNECT_TIMEOUT" in self.expect

    def run(self) -> Result:
        with hostile_broker(self.script, deaf=self.deaf) as broker:
            url = f"{self.scheme}://127.0.0.1:{broker.port}"
            options = {"url": url, **_OPTIONS, **_OF_ROLE[self.role], **self.options}
            report = meet(Order(self.role, options, self.messages, self.within + 2 * SLACK))
            acked = list(broker.acked)
        return Result(self.name, report.outcome, report.seconds, report.peak, self._faults(report, acked))

    def _faults(self, report: Report, acked: Sequence[str]) -> list[str]:
        faults = []
        if not re.search(self.expect, report.outcome):
            faults.append(f"it ended with: {report.outcome}")
        faults += excesses(self, report.seconds, report.peak)
        if not report.outcome.isprintable() or len(report.outcome) > _LONGEST_TEXT:
            faults.append("what the broker said is shown as it came")
        # The handle of the message mN is aN, or aN.K if it was redelivered.
        wrong = {f"m{handle[1:].partition('.')[0]}" for handle in acked} - set(report.committed)
        if wrong:
            faults.append(f"ACKed, but not committed: {sorted(wrong)}")
        if len(set(report.committed)) < len(report.committed):
            faults.append("a message gave two rows")
        return faults
