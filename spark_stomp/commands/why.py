"""Say in three lines why a query does not get on, or that nothing is wrong.

The first says what it waits for, or why it has ended, from its status file. The
second says what the broker answers: it is asked with the query's own options,
which are in the status file but for secrets. The third says what to type next.
Nothing is consumed. An ActiveMQ or an Artemis that is set up for it is asked by
a message how much waits, RabbitMQ by HTTP if the query has managementUrl.

A password is taken from the query's passwordFile if it is on this machine, or
as for the other commands. Without it the broker is not asked, nor if others may
have written the status: then name the broker with -o url=URL.

examples:
  spark-stomp why /data/checkpoints/orders
  spark-stomp why /data/checkpoints/orders --password-file /run/secrets/orders
  spark-stomp why s3://bucket/status/orders.json --offline

exit codes:
  0    nothing is wrong: it runs, or has ended in order
  1    there is no status, or it cannot be read
  2    the arguments are wrong, or there is no such file or folder
  10   an error ended it
  11   its process is gone: killed, or its machine is away
  12   it ended within a batch, or its sink failed, and why is not known here
  13   no connection to the broker, or the broker does not answer
  14   the broker confirms nothing: memory or disk is full
  15   memory is full, or Spark has worked on one batch for half an hour
  16   its queue was not there before, or was deleted
  17   messages wait, and the broker does not give them to it
  130  Ctrl-C
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.known import GENERIC
from spark_stomp.brokers.standing import Standing, waits
from spark_stomp.commands import FAILED
from spark_stomp.commands.connecting import add_option_arguments, given_options, with_login
from spark_stomp.commands.diagnosis import Diagnosis, Health, age, diagnose
from spark_stomp.commands.screen import Screen, safe_text
from spark_stomp.commands.statuses import StatusSource, Unread
from spark_stomp.errors import (
    ClientIdInUse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    DestinationRefused,
    HeartbeatLost,
    JournalFull,
    LoginRefused,
    NotStompServer,
    OptionError,
    PasswordUnreadable,
    ReceiptTimeout,
    StompError,
    SubscribeTimeout,
    TlsRefused,
    UnsupportedError,
    VersionError,
)
from spark_stomp.options import ConnectionOptions, parse_sink_options
from spark_stomp.options.connection_options import TlsOptions
from spark_stomp.options.fields import options_of
from spark_stomp.quoting import counted, line, listed, shown
from spark_stomp.receiver import disconnect
from spark_stomp.source.waiting import nothing_new_text
from spark_stomp.status.figure import Status
from spark_stomp.transport import open_connection
from spark_stomp.transport.connect import at_peer
from spark_stomp.transport.standing import ask_standing, send_trial

# The options of a query that a connection needs, by their keys in the status. Only the query itself may have
# its client id.
_CONNECTING: Final = {
    option.key: option
    for option in options_of(ConnectionOptions)
    if option.key not in ("clientId", "logLevel")
}
_PASSWORDS: Final = {"password", "passwordfile"}
_NOT_OF_OTHERS: Final = {"url", "managementUrl", "passwordFile"} | {
    option.key for option in options_of(TlsOptions)
}
# Seconds within which the broker must answer. This command is for people who wait.
_PATIENCE: Final = 5.0
# Queues of which the broker is asked how much waits there.
_MOST_ASKED: Final = 5
# Seconds without a message after which a query should have those that wait; RabbitMQ's figures are as old.
_IDLE: Final = 5.0
# Errors that say something of the broker, and not only of this machine or of a password.
_AWAY: Final = (ConnectFailed, ConnectTimeout, ConnectionLost, HeartbeatLost, ReceiptTimeout)
# Errors about which a connection from here may say more.
_OF_CONNECTIONS: Final = {
    error.code
    for error in (
        *_AWAY,
        ClientIdInUse,
        DestinationRefused,
        LoginRefused,
        NotStompServer,
        PasswordUnreadable,
        SubscribeTimeout,
        TlsRefused,
        VersionError,
    )
}
_NO_OPTIONS: Final = "the status has no options of the query, an older release wrote it"
_PASSWORD: Final = "give the query the password that the broker takes"
# What refused a SEND, in an error of any sink.
_REFUSED_SEND: Final = re.compile(r"refused SEND to (.+?): ")
_AGAIN: Final = "then start the query again: what was not committed comes again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="status file, or folder of a checkpoint")
    parser.add_argument("--offline", action="store_true", help="do not ask the broker")
    add_option_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    place = StatusSource(arguments.path)

    def read(status: Status) -> tuple[Status, Diagnosis]:
        """Raises if the content is no status. Nothing that a broker answers is in it."""
        _queues(status)
        return status, diagnose(status, place.silence)

    def diagnosed(status: Status, found: Diagnosis) -> tuple[Health, list[Text]]:
        report = _with_password(_ask(status, arguments, own=place.is_own), status, found)
        found = _with_report(found, status, report, place.silence)
        if shares := status.get("shares_with"):
            shared = f". Another source of its program (query {listed(shares)}) reads a queue of it too"
            found = replace(found, text=f"{found.text}{shared}: each gets a part of the messages")
        style = found.style if found.health is Health.FINE else "red"
        return found.health, [
            _line("why", f"{status.get('query')}: {found.text}", style),
            _line("broker", "the same" if report.text in found.text else report.text),
            _line("next", _next_step(found, status, report, arguments.path)),
        ]

    try:
        statuses = place.read(lambda statuses: [*map(read, statuses)])
    except Unread as error:
        sys.stderr.write(line(f"spark-stomp: {error}") + "\n")
        return FAILED
    every = [diagnosed(*one) for one in statuses]
    Screen(sys.stdout).whole(*(text for _, texts in every for text in texts))
    return max(health.value for health, _ in every)


def _line(label: str, text: str, style: str = "") -> Text:
    return safe_text(f"{label:<8}", "bold").append_text(safe_text(text, f"not bold {style}"))


# --- the broker


@dataclass(frozen=True)
class _BrokerReport:
    """What the broker said, or why it was not asked; ``text`` is a sentence.

    - ``options``: those with which it was asked, by their keys in lower case.
    - ``standing``: the figures of the queue, if the query has only one.
    - ``ready``, ``withheld``: how many messages wait, and how many of them a query should get that has none.
    - ``alarm``: why the broker takes no messages.
    - ``has_another_password``: whether it takes the password of this question, and refused the query's.
    - ``error``: why it could not be asked.
    """

    text: str
    options: Mapping[str, str]
    dialect: Dialect | None = None
    standing: Standing | None = None
    ready: int = 0
    withheld: int = 0
    alarm: str | None = None
    has_another_password: bool = False
    error: StompError | None = None


def _ask(status: Status, arguments: argparse.Namespace, *, own: bool) -> _BrokerReport:
    """Ask the broker. If the query waits for its sink, and that has a broker, ask that one.

    Who wrote a status that is not the caller's ``own`` must not choose where a password goes, nor the file
    that it is read from.
    """
    of_sink, of_source = (status.get("sink") or {}).get("options"), status.get("options") or {}
    by_sink = status.get("waiting_on", "spark") == "spark" and bool(of_sink)
    query_options = of_sink if by_sink else status.get("options")
    if (
        by_sink
        and query_options
        and of_source.get("url") == query_options.get("url")
        and "managementUrl" in of_source
    ):
        query_options = {"managementUrl": of_source["managementUrl"], **query_options}
    if not isinstance(query_options, Mapping):
        has_failed = status.get("failure") or status.get("ended")
        why = "the query failed before its source had started" if has_failed else _NO_OPTIONS
        return _BrokerReport(f"not asked: {why}", {})
    if not own:
        query_options = _without_addresses(query_options)
        if not arguments.offline and "url" not in given_options(arguments):
            return _BrokerReport(
                "not asked: others may have written the status, so name the address yourself: -o url=URL", {}
            )
    texts, missing = _texts(query_options, arguments)
    if arguments.offline or missing:
        why = "--offline" if arguments.offline else f"the status has no {', '.join(missing)} of the query"
        return _BrokerReport(f"not asked: {why}", texts)
    # A sink may have a column for it.
    destination = query_options.get("destination")
    queues = ([] if destination is None else [str(destination)]) if by_sink else _queues(status)
    return _asked_if_possible(texts, queues, status)


def _asked_if_possible(texts: Mapping[str, str], queues: list[str], status: Status) -> _BrokerReport:
    try:
        options = parse_sink_options(texts).connection
        patience = min(options.connect_timeout, _PATIENCE)
        options = replace(options, connect_timeout=patience, log_level="error")
        return _asked(options, texts, queues, status)
    except (OptionError, OSError) as error:
        return _BrokerReport(f"not asked: {error}", texts)
    except StompError as error:
        text = str(error)
        if isinstance(error, ConnectTimeout) and any(one.get("heard_at") for one in _receivers(status)):
            begin = text.partition(";")[0]
            text = f"{begin}. It answered the query before: it hangs, or the network drops packets"
        return _BrokerReport(text, texts, error=error)


def _without_addresses(query_options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that others may have written, without those that decide who gets a password, and which."""
    kept = {key: query_options[key] for key in query_options if key not in _NOT_OF_OTHERS}
    return {"url": None, **kept, **({"password": None} if "passwordFile" in query_options else {})}


def _texts(
    query_options: Mapping[str, Any], arguments: argparse.Namespace
) -> tuple[dict[str, str], list[str]]:
    """The options for a connection, and the keys of those that the query had and that nobody has given."""
    of_query = {key: text for key, text in query_options.items() if key in _CONNECTING}
    texts = {key.lower(): text for key, text in of_query.items() if isinstance(text, str)}
    given = given_options(arguments)
    if arguments.login:
        texts.pop("login", None)
    if given.keys() & _PASSWORDS or arguments.password_file or not _is_file(texts.get("passwordfile")):
        texts.pop("passwordfile", None)
    texts |= given
    if arguments.offline:
        return texts, []
    texts = with_login(arguments, texts)
    wanted = {key.lower(): key for key in of_query}
    if texts.keys() & _PASSWORDS:
        wanted = {low: key for low, key in wanted.items() if low not in _PASSWORDS}
    return texts, [key for low, key in wanted.items() if low not in texts]


def _is_file(path: str | None) -> bool:
    return path is not None and Path(path).is_file()


def _queues(status: Status) -> list[str]:
    """What the query reads."""
    return [*dict.fromkeys(str(name) for one in _receivers(status) for name in one.get("destinations", ()))]


def _receivers(status: Status) -> list[Status]:
    return [*(status.get("receivers") or {}).values()]


def _asked(
    options: ConnectionOptions, texts: Mapping[str, str], queues: list[str], status: Status
) -> _BrokerReport:
    begun = time.monotonic()
    # Of several, the one that the query is connected to: another one may answer while that hangs.
    peer = next(
        (str(one["peer"]) for one in _receivers(status) if one.get("connected") and one.get("peer")), ""
    )
    with open_connection(at_peer(replace(options, client_id=None), peer)) as connection:
        connection.require_open()
        took = time.monotonic() - begun
        server, peer, dialect = connection.session.server, connection.peer, connection.dialect
        disconnect(connection, (), _PATIENCE)
    login = f" {options.login}" if options.login else ""
    text = f"{shown(server or 'the broker')} at {peer} answered{login} in {took * 1000:.0f} ms"
    found: list[Standing] = []
    for queue in [one for one in queues if not dialect.is_topic(one)][:_MOST_ASKED]:
        try:
            found.append(ask_standing(options, dialect, queue, peer, _selector(status)))
        except UnsupportedError as error:
            text += f"; how much waits is not known: {error.message}"
            break
        text += f"; {queue}: {found[-1]}"
    alarm = next((one.alarm for one in found if one.alarm is not None), None)
    may_be_blocked = status.get("waiting_on") in ("spark", "acks") and status.get("sink")
    if alarm is None and may_be_blocked and not send_trial(options, dialect, peer):
        alarm = "it reads nothing of who sends, because it has an alarm for memory or disk"
    if alarm is not None:
        text += f"; {alarm}"
    ready, withheld = sum(one.ready or 0 for one in found), sum(one.withheld for one in found)
    only = found[0] if found and len(queues) == 1 else None
    return _BrokerReport(text, texts, dialect, only, ready, withheld, alarm)


def _selector(status: Status) -> str | None:
    return (status.get("options") or {}).get("selector")


def _with_password(report: _BrokerReport, status: Status, found: Diagnosis) -> _BrokerReport:
    """The report, and whether the query has another password than the one of this question."""
    same_login = report.options.get("login") == (status.get("options") or {}).get("login")
    if not same_login:
        return report
    if report.dialect is not None and found.code == LoginRefused.code:
        text = f"{report.text}; it takes this password, and has refused that of the query, which is another"
        return replace(report, text=text, has_another_password=True)
    connected = any(one.get("connected") for one in _receivers(status))
    if isinstance(report.error, LoginRefused) and status.get("running") and connected:
        return replace(report, text=f"{report.text}. The query is connected, with another password")
    return report


def _with_report(found: Diagnosis, status: Status, report: _BrokerReport, silence: float) -> Diagnosis:
    """The diagnosis, with what the broker said."""
    runs = status.get("running") and found.health not in (Health.FAILED, Health.GONE, Health.UNFINISHED)
    if runs and report.alarm is not None:
        return replace(found, health=Health.BLOCKED, text=f"{found.text}. The broker: {report.alarm}")
    if runs and isinstance(report.error, _AWAY) and found.health is not Health.CONNECTION:
        return replace(found, health=Health.CONNECTION, text=f"{found.text}. The broker does not answer")
    unacked = sum(one.get("unacked") or 0 for one in _receivers(status))
    idle = runs and status.get("waiting_on") == "broker" and not unacked
    if idle and report.standing is not None:
        waiting = nothing_new_text(waits([report.standing], len(_receivers(status))))
        found = diagnose({**status, "waiting_for": waiting}, silence)
    if idle and report.withheld and found.health is Health.FINE and age(status.get("waiting_since")) > _IDLE:
        return replace(found, health=Health.WITHHELD)
    return found


# --- the next step


def _next_step(found: Diagnosis, status: Status, report: _BrokerReport, path: str) -> str:
    if found.health is Health.FAILED:
        return f"{_correction(found, status, report)}; {_AGAIN}"
    if found.health in (Health.FINE, Health.WITHHELD) and _is_forgotten(status, report):
        again = "it connects anew by itself within 40 s"
        return f"nothing: the broker has forgotten the query's consumer, and {again}"
    if found.health is Health.FINE:
        return _if_fine(status, report, path)
    host = status.get("host")
    broker = report.dialect or GENERIC
    why_not = broker.asks.why_withheld(_selector(status))
    steps = {
        Health.GONE: f"dmesg -T | grep -i 'killed process'  # on {host}: out of memory; of a container look "
        f"for OOMKilled or exit code 137 (kubectl describe pod, docker inspect); {_AGAIN}",
        Health.UNFINISHED: "read the error where the program printed it, or query.exception(); "
        f"spark_stomp.reason(error, {path!r}) in it would have kept it for this line; {_AGAIN}",
        Health.CONNECTION: _of_connection(found, status, report),
        Health.BLOCKED: broker.blocked_advice,
        Health.QUEUE: _of_queue(status),
        Health.WITHHELD: f"look at the queue in the broker's management: {why_not}",
        Health.SLOW: _in_batch(status),
    }
    return steps[found.health]


def _is_forgotten(status: Status, report: _BrokerReport) -> bool:
    """Whether the broker counts no consumer of the queue, while the query is connected and waits for it.

    Not at once: figures may be older than its subscription.
    """
    waits_there = status.get("running") and status.get("waiting_on") in ("broker", "withheld")
    counts_none = report.standing is not None and report.standing.consumers == 0
    return bool(waits_there) and counts_none and age(status.get("waiting_since")) > _IDLE


def _of_connection(found: Diagnosis, status: Status, report: _BrokerReport) -> str:
    """What brings a query that runs its connection back."""
    if report.error is not None and isinstance(report.error.__cause__, ConnectionRefusedError):
        return "start the broker; the query connects again by itself until reconnectTimeout"
    file = (status.get("options") or {}).get("passwordFile")
    if found.code != LoginRefused.code or not file:
        return _PASSWORD if report.has_another_password else _probe(report)
    if report.has_another_password and report.options.get("passwordfile") == file:
        return "nothing: the query reads its passwordFile again and tries by itself until reconnectTimeout"
    return (
        f"write the password that the broker takes into {shlex.quote(str(file))}; "
        "the query tries again by itself until reconnectTimeout"
    )


def _of_queue(status: Status) -> str:
    if status.get("waiting_on") == "deleted":
        return "stop the query, delete the queue that it has made, declare it as it was, and start again"
    return "correct the name in load(...), start again, and delete the queue that the mistake made"


def _correction(found: Diagnosis, status: Status, report: _BrokerReport) -> str:
    """What mends an error that has ended the query."""
    if report.has_another_password:
        return _PASSWORD
    if found.code == DestinationRefused.code and (refused := _REFUSED_SEND.search(found.text)):
        login = ((status.get("sink") or {}).get("options") or {}).get("login") or "its login"
        return f"give {login} the right to write to {refused[1]}, or name another queue"
    if found.code in _OF_CONNECTIONS:
        return _probe(report)
    if found.code == JournalFull.code:
        return f"{_room(status)}: make room for what it wanted"
    return "correct what the error says"


def _if_fine(status: Status, report: _BrokerReport, path: str) -> str:
    show = f"spark-stomp status {shlex.quote(path)} shows how it goes on"
    if not status.get("running"):
        goes_on = "it goes on where it was"
        if report.ready:
            wanted = "" if _selector(status) is None else ", as far as its selector wants them"
            goes_on = f"it gets the {counted(report.ready, 'message')} that wait{wanted}"
        return f"start the query again, and {goes_on}; if it was just started, wait a minute"
    if status.get("shares_with"):
        return "read the queue once: one DataFrame in one query, foreachBatch, or a table that others read"
    steps = {
        "spark": _in_batch(status) if status.get("batch_since") else f"nothing, it is starting; {show}",
        "commit": "set checkpointLocation of the source to the checkpoint of the query",
        "journal": f"{_room(status)}: it is slow, or journalMaxBytes is reached",
        "messages": "nothing, or set a shorter maxTriggerDelay",
        "trigger": "nothing, or set a shorter trigger",
        "broker": _of_silence(status, report, show),
    }
    if status.get("unfit") and status.get("waiting_on") in (None, "broker"):
        return "group the rows by malformed to see the reasons"
    return steps.get(str(status.get("waiting_on"))) or f"nothing; {show}"


def _of_silence(status: Status, report: _BrokerReport, show: str) -> str:
    """Of a query that gets nothing."""
    receivers = _receivers(status)
    if any(one.get("unacked") for one in receivers):
        return f"nothing; {show}"
    if report.ready and _selector(status) is not None:
        return f"{report.ready:,} wait and none come: does the selector fit them?"
    there = report.standing or Standing(False)
    if there.unacked and not there.ready and (there.consumers or 0) > len(receivers):
        are = "message is" if there.unacked == 1 else "messages are"
        return f"{there.unacked:,} {are} un-acked at other consumers: end them, or wait"
    if all(one.get("received") == 0 for one in receivers):
        return f"nothing has come in this run: if something should have, check the name; {show}"
    return f"nothing; {show}"


def _in_batch(status: Status) -> str:
    return f"Spark's UI (port 4040 of {status.get('host')}, Structured Streaming) shows what the batch does"


def _room(status: Status) -> str:
    """The command that shows how full the disk of the journal is."""
    journal = (status.get("options") or {}).get("journal") or "JOURNAL"
    return f"df -h {shlex.quote(str(journal))}  # on {status.get('host')}, the journal's disk"


def _probe(report: _BrokerReport) -> str:
    """The command that tries the connection."""
    texts = dict(report.options)
    words = ["spark-stomp", "probe", texts.pop("url", "URL")]
    for key, argument in (("login", "--login"), ("passwordfile", "--password-file")):
        if key in texts:
            words += [argument, texts.pop(key)]
    for key, option in _CONNECTING.items():
        if key.lower() in texts and not option.secret and key != "managementUrl":
            words += ["-o", f"{key}={texts[key.lower()]}"]
    return shlex.join(words)
