"""How a query is, from its status alone: health, a headline for the table, and the sentence of ``why``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from spark_stomp.quoting import counted, duration, listed
from spark_stomp.status.end import JVM_ENDED
from spark_stomp.status.figure import Status, moment
from spark_stomp.status.files import is_gone

# Seconds after which a batch counts as slow, as for the alert StompBatchTakesLong.
_LONG: Final = 1800.0
# Nobody writes while Spark starts a query's processes (35 to 60 s on two busy cores, November 2026).
_LAST: Final = "its last run (a new one shows here up to a minute after its start)"
# Seconds for which a broker with heart-beats may be silent, and without them too unless something is wrong.
_SILENT: Final = 30.0


class Health(Enum):
    """What is wrong with a query, or nothing. Each has its own exit code of ``why``."""

    FINE = 0
    FAILED = 10
    GONE = 11
    UNFINISHED = 12
    CONNECTION = 13
    BLOCKED = 14
    SLOW = 15
    QUEUE = 16
    WITHHELD = 17


@dataclass(frozen=True)
class Diagnosis:
    """``headline`` is for the table of ``spark-stomp status``, ``style`` its colour, ``text`` a sentence.

    ``style`` is ``green``, ``yellow`` if the query has ended, or ``red``. ``code`` is that of the error that
    ended the query, or keeps it from the broker, if it is one of ours.
    """

    health: Health
    style: str
    headline: str
    text: str
    code: str | None = None


def diagnose(status: Status, silence: float) -> Diagnosis:
    """How a query is. One that has written nothing for ``silence`` seconds counts as gone."""
    ended, failure = status.get("ended"), sink_failure(status)
    if "written_at" not in status:
        # Only a sink writes this status, and only after a batch. So its silence means nothing.
        return _failed(ended, "failed_at") if ended else _of_sink(status["sink"] or {}, failure)
    if status.get("failure"):
        return _failed(status, "written_at")
    if not status.get("running"):
        return _failed(ended, "failed_at") if ended else _ended(status, failure)
    if is_gone(status) or (silent := age(status["written_at"])) > silence:
        return _gone(status, None if is_gone(status) else silent)
    found = _away(status.get("receivers") or {}) or _waiting(status)
    if failure is not None:
        text = f"{failure}. Now it waits for {status.get('waiting_for')}"
        return Diagnosis(Health.UNFINISHED, "red", found.headline, text)
    return replace(found, text=f"{found.text}. {of_unfit}") if (of_unfit := _unfit(status)) else found


def _failed(part: Status, when: str) -> Diagnosis:
    """Of a query whose error is known."""
    text = f"{_LAST} failed {duration(age(part.get(when)))} ago: {part['failure']}"
    health = Health.GONE if part["failure"] == JVM_ENDED else Health.FAILED
    return Diagnosis(health, "red", "failed", text, part.get("failure_code"))


def _unfit(status: Status) -> str:
    """Which bodies do not fit; empty if there are none. A sentence for the destination with the most."""
    by_name: Mapping[str, Status] = status.get("unfit") or {}
    if not by_name:
        return ""
    name, one = max(by_name.items(), key=lambda item: item[1].get("bodies") or 0)
    receivers = (status.get("receivers") or {}).values()
    received = sum(own.get("received") or 0 for own in receivers if own.get("destinations") == [name])
    # A batch that is read again counts again.
    share = min(100.0, 100 * one["bodies"] / received) if received else 0.0
    some = f"{share:.{'0f' if share >= 1 else '1g'}} % of the" if received else f"{one['bodies']:,}"
    began = str(one.get("first_at"))[:16].replace("T", " ")
    others = f", and bodies of {counted(len(by_name) - 1, 'other destination')}" if len(by_name) > 1 else ""
    return f"{some} bodies of {name} since {began} UTC do not fit, the first: {one.get('reason')}{others}"


def _of_sink(sink: Status, failure: str | None) -> Diagnosis:
    if failure is not None:
        return Diagnosis(Health.UNFINISHED, "red", "sink only, which failed", failure)
    ago = duration(age(sink.get("written_at")))
    text = f"only its sink writes a status, and that finished batch {sink.get('batch')} {ago} ago"
    return Diagnosis(Health.FINE, "green", "sink only", text)


def _ended(status: Status, failure: str | None) -> Diagnosis:
    uncommitted = (status.get("totals") or {}).get("rows_waiting")
    again = (
        f". {counted(uncommitted, 'message')} in no committed batch: the next run gets them again"
        if uncommitted
        else ""
    )
    ago = duration(age(status.get("written_at")))
    if failure is None and not status.get("unfinished"):
        if there := (status.get("totals") or {}).get("withheld"):
            text = (
                f"{_LAST} ended {ago} ago without {counted(there, 'message')} that wait at the broker, that "
            )
            text += f"nobody has, and that did not come{again}"
            return Diagnosis(Health.WITHHELD, "red", "ended, and messages wait", text)
        return Diagnosis(Health.FINE, "yellow", "ended", f"{_LAST} ended in order {ago} ago{again}")
    text = failure or (
        f"{_LAST} ended {ago} ago, and no commit of its last batch was seen: the query failed, in its sink "
        "for example, or was stopped just then; or a one-time run had no checkpointLocation to look at"
    )
    return Diagnosis(Health.UNFINISHED, "red", "ended within a batch", text + again)


def _gone(status: Status, silent: float | None) -> Diagnosis:
    if silent is None:
        headline = "gone: its process has ended without a word"
    else:
        headline = f"gone? no sign of life for {duration(silent)}"
    ago = duration(age(status["written_at"]))
    last = f", when it waited for {status['waiting_for']}" if status.get("waiting_for") else ""
    text = (
        f"{_LAST}: its process {status.get('pid')} on {status.get('host')} was killed, or the machine is "
        f"away. It wrote its last status {ago} ago{last}. What was not committed comes again at the next "
        "start"
    )
    return Diagnosis(Health.GONE, "red", headline, text)


def _away(receivers: Mapping[str, Status]) -> Diagnosis | None:
    away = {name: one for name, one in receivers.items() if not one.get("connected")}
    if not away:
        return None
    one = next(iter(away.values()))
    text = f"no connection for {listed([*away])} for {duration(age(one.get('disconnected_since')))}"
    if attempts := one.get("attempts"):
        text += f", {counted(attempts, 'attempt')} failed"
    if error := one.get("last_error"):
        text += f": {error}"
    headline = f"running, {len(away)} of {counted(len(receivers), 'receiver')} not connected"
    return Diagnosis(Health.CONNECTION, "red", headline, text, one.get("last_error_code"))


def _waiting(status: Status) -> Diagnosis:
    """Of a query that runs, with all connections."""
    if not status.get("waiting_for"):
        received = (status.get("totals") or {}).get("received_per_second", 0.0)
        return Diagnosis(Health.FINE, "green", "running", f"it works, with {received:,.0f} messages a second")
    since = age(status.get("waiting_since"))
    waiting_on, health = status.get("waiting_on"), Health.FINE
    text = f"it has waited for {duration(since)} for {status['waiting_for']}"
    receivers: Mapping[str, Status] = status.get("receivers") or {}
    paused = [age(one["paused_since"]) for one in receivers.values() if one.get("paused_since")]
    if waiting_on == "spark" and (paused or age(status.get("batch_since")) > _LONG):
        health = Health.SLOW
    elif waiting_on == "acks" and since > _SILENT:
        health = Health.BLOCKED
    elif waiting_on in ("queue", "deleted", "withheld"):
        health = Health.WITHHELD if waiting_on == "withheld" else Health.QUEUE
    quiet = max((age(one["heard_at"]) for one in receivers.values() if one.get("heard_at")), default=0.0)
    if quiet > _SILENT and not paused:
        text += f". Nothing was heard from the broker for {duration(quiet)}"
    return Diagnosis(health, "green", "running", text)


def sink_failure(status: Status) -> str | None:
    """Why the sink's last batch in this run was not finished, and when; None if it was."""
    sink, began = status.get("sink") or {}, status.get("started_at")
    if began is not None and sink.get("failed_at") and moment(sink["failed_at"]) < moment(began):
        return None
    if not sink.get("failure"):
        return None
    return f"{duration(age(sink.get('failed_at')))} ago {sink['failure']}"


def age(since: Any) -> float:
    """Seconds since a time in the status; at least 0, because clocks of two machines may differ."""
    return 0.0 if since is None else max(0.0, time.time() - moment(since))
