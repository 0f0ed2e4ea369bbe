"""What a broker must be able to do, checked by what it did in a trial, and which guarantees hold then.

docs/broker-requirements.md explains each check. Points in brackets are those of docs/delivery-contract.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.commands.trial import MESSAGES, PREFETCH, Delivery, Seen
from spark_stomp.protocol import Frame
from spark_stomp.quoting import counted, shown

UNSEEN: Final = "not seen: too little was delivered, or redelivered"


@dataclass(frozen=True)
class Finding:
    """What a check has found.

    Attributes:
        holds: whether the broker can do it; None if that could not be seen.
        result: what was seen.
        condition: what the user must set so that it holds; "" if nothing.
    """

    holds: bool | None
    result: str
    condition: str = ""


@dataclass(frozen=True)
class Check:
    """One thing that a broker must be able to do: what it means if it can, and if it cannot."""

    name: str
    find: Callable[[Seen], Finding]
    good: str
    bad: str


@dataclass(frozen=True)
class Guarantee:
    """A promise of the connector, with its points of the contract, and the names of the checks it needs.

    ``otherwise`` says what happens without it. If ``vital``, the broker is of no use without it.
    """

    name: str
    points: str
    needs: tuple[str, ...]
    otherwise: str
    vital: bool = False


def _versions(seen: Seen) -> Finding:
    spoken = ", ".join(seen.versions) or "none of 1.0, 1.1, 1.2"
    return Finding(bool({"1.1", "1.2"} & set(seen.versions)), spoken)


def _server(seen: Seen) -> Finding:
    name = "(it does not say)" if seen.server is None else shown(seen.server)
    return Finding(seen.dialect.name != "generic", f"{name}, dialect {seen.dialect.name}")


def _heartbeats(seen: Seen) -> Finding:
    theirs = seen.heartbeat[1]
    return Finding(theirs > 0, f"every {theirs / 1000:g} s" if theirs else "none")


def _receipt(command: str) -> Callable[[Seen], Finding]:
    def find(seen: Seen) -> Finding:
        instead = seen.receipts.get(command)
        if instead is None:
            return Finding(None, "not tried: no message came")
        return Finding(not instead, shown(instead, 200) or "yes")

    return find


def _individual(seen: Seen) -> Finding:
    if not seen.individual:
        return Finding(False, f"STOMP {seen.version} has no client-individual")
    before, after = _around_the_acked(seen)
    again = _numbers(seen.again)
    if not before or not again & after:
        return Finding(None, UNSEEN)
    if before <= again:
        return Finding(True, "the message before it was redelivered")
    return Finding(False, "the message before it was acknowledged, too")


def _redelivery(seen: Seen) -> Finding:
    before, after = _around_the_acked(seen)
    # With ACKs that also cover earlier messages, those before it need not be redelivered.
    unacked = after or before
    if not unacked:
        return Finding(None, UNSEEN)
    count = len(unacked & _numbers(seen.again))
    return Finding(
        count == len(unacked), f"{count} of {counted(len(unacked), 'un-acked message')} redelivered"
    )


def _acked(seen: Seen) -> Finding:
    if seen.acked is None or seen.receipts.get("ACK"):
        return Finding(None, "not seen: no ACK was confirmed")
    back = [number for number, _ in seen.again if number == seen.acked] + [number for number, _ in seen.late]
    return Finding(not back, f"redelivered {counted(len(back), 'time')}" if back else "yes")


def _ids(seen: Seen) -> Finding:
    pairs = _pairs(seen)
    if not pairs or len(seen.first) == 1:
        return Finding(None, UNSEEN)
    surviving = _surviving(seen, pairs)
    if not surviving:
        return Finding(False, "none")
    if seen.dialect.id_header is not None and _stable(seen.dialect, pairs):
        return Finding(True, f"from {seen.dialect.id_header}")
    if "message-id" in surviving:
        return Finding(True, "message-id", "idHeader = message-id")
    return Finding(True, "only what a producer sets", "idHeader names a header with an id that producers set")


def _prefetch(seen: Seen) -> Finding:
    dialect = seen.dialect
    header = dialect.prefetch_header or dialect.window_header
    count = len(_numbers(seen.first))
    came = f"{count} of {MESSAGES} messages came without an ACK"
    if header is None:
        return Finding(False, f"no header for it is known: {came}")
    if not count:
        return Finding(None, "not seen: no message came")
    return Finding(count < MESSAGES, f"{came}, {PREFETCH} were asked for by {header}")


def _numbers(deliveries: list[Delivery]) -> set[int]:
    return {number for number, _ in deliveries}


def _around_the_acked(seen: Seen) -> tuple[set[int], set[int]]:
    """The messages that were delivered before and after the one that was ACKed, and were not ACKed."""
    order = [number for number, _ in seen.first]
    if seen.acked is None:
        return set(order), set()
    at = order.index(seen.acked)
    return set(order[:at]), set(order[at + 1 :])


def _pairs(seen: Seen) -> list[tuple[Frame, Frame]]:
    """The first delivery and the next one of each message that was redelivered and not ACKed."""
    first, again = dict(seen.first), dict(seen.again)
    return [
        (frame, again[number]) for number, frame in first.items() if number in again and number != seen.acked
    ]


def _surviving(seen: Seen, pairs: list[tuple[Frame, Frame]]) -> set[str]:
    """The headers that tell messages apart and are the same in both deliveries of each."""

    def survives(name: str) -> bool:
        values = [frame.get(name) for _, frame in seen.first]
        return len(set(values)) == len(values) and all(one.get(name) == two.get(name) for one, two in pairs)

    return {name for name, _ in pairs[0][0].headers if survives(name)}


def _stable(dialect: Dialect, pairs: list[tuple[Frame, Frame]]) -> bool:
    """Whether the dialect's id of each message is there, and the same in both deliveries."""

    def stable_id(frame: Frame) -> bytes | None:
        raw, time = (frame.get(name or "") for name in (dialect.id_header, dialect.id_time_header))
        return dialect.stable_ids([(raw or "").encode()], [None if time is None else time.encode()])[0]

    return all((one := stable_id(first)) is not None and one == stable_id(again) for first, again in pairs)


CHECKS: Final = (
    Check(
        "STOMP versions",
        _versions,
        "1.1 and 1.2 have what the other checks need",
        "without 1.1 or 1.2: no ACK of a single message, no heart-beats, no recognised duplicates",
    ),
    Check(
        "server",
        _server,
        "the connector knows this broker",
        "nothing but STOMP is known of it; if it is a broker that is known, name it in the option broker",
    ),
    Check(
        "heart-beats",
        _heartbeats,
        "a broker that is gone is noticed",
        "only TCP notices that the broker's machine is gone, within two minutes",
    ),
    Check(
        "receipt of SUBSCRIBE",
        _receipt("SUBSCRIBE"),
        "a query knows that it is subscribed",
        "every query fails at its start with STOMP_RECEIPT_TIMEOUT",
    ),
    Check(
        "receipt of SEND",
        _receipt("SEND"),
        "the sink knows what the broker has",
        "the sink fails after receiptTimeout and blockedTimeout",
    ),
    Check(
        "receipt of ACK",
        _receipt("ACK"),
        "a message counts as acknowledged only when the broker has said so",
        "after ackReceiptTimeout the connection counts as dead, so the query fails",
    ),
    Check(
        "ACK of one message",
        _individual,
        "an ACK takes only its own message",
        "an ACK takes earlier messages too; they are lost if they were not committed",
    ),
    Check(
        "redelivery after a cut",
        _redelivery,
        "what is not acknowledged is redelivered",
        "what was delivered and not committed is lost if the connection breaks",
    ),
    Check(
        "no redelivery after the ACK",
        _acked,
        "acknowledged messages are gone",
        "acknowledged messages are redelivered: a second row, unless they can be recognised",
    ),
    Check(
        "ids that survive",
        _ids,
        "a redelivered message is recognised",
        "a redelivered message gives a second row",
    ),
    Check(
        "prefetch",
        _prefetch,
        "the broker keeps what is not asked for",
        "the broker sends all it has; beyond maxBufferedBytes it waits in the network, and the broker may "
        "close the connection",
    ),
)

GUARANTEES: Final = (
    Guarantee(
        "At least once, reading",
        "1 to 4",
        ("receipt of SUBSCRIBE", "receipt of ACK", "ACK of one message", "redelivery after a cut"),
        "Do not read from it",
        vital=True,
    ),
    Guarantee("At least once, writing", "S.1", ("receipt of SEND",), "Do not write to it", vital=True),
    Guarantee(
        "No second row after a broken connection",
        "4.3",
        ("ids that survive", "ACK of one message", "no redelivery after the ACK"),
        "Expect second rows",
    ),
    Guarantee(
        "Exactly once, with a journal and an idempotent sink",
        "J.8, J.9",
        ("receipt of ACK", "ACK of one message", "redelivery after a cut", "ids that survive"),
        "Expect second rows after a restart",
    ),
    Guarantee(
        "Back-pressure: the broker keeps what Spark has not asked for",
        "5.2, 5.7",
        ("prefetch",),
        "Memory is bounded all the same, by maxBufferedBytes",
    ),
    Guarantee(
        "A broker that is gone is noticed by its missing heart-beats",
        "4.8",
        ("heart-beats",),
        "TCP notices it, within two minutes",
    ),
)


def findings(seen: Seen) -> dict[str, Finding]:
    """The finding of each check, by its name."""
    return {check.name: check.find(seen) for check in CHECKS}


def unmet(guarantee: Guarantee, found: Mapping[str, Finding], seen: Seen) -> list[str]:
    """The names of the checks that the guarantee needs and that do not hold."""
    # Under STOMP 1.0 every ACK is for all before it. The receiver then ACKs in the order of delivery only.
    excused = {"ACK of one message"} if guarantee.vital and not seen.individual else set()
    return [name for name in guarantee.needs if not found[name].holds and name not in excused]


def table(found: Mapping[str, Finding]) -> Iterator[tuple[str, bool]]:
    """The lines of a Markdown table that is also legible as text, and whether each shows no fault."""
    rows = [("check", "result", "what it means")]
    for check in CHECKS:
        finding = found[check.name]
        meaning = "not known" if finding.holds is None else check.good if finding.holds else check.bad
        if finding.condition:
            meaning += f", if {finding.condition}"
        rows.append((check.name, finding.result.replace("|", "\\|"), meaning))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for number, row in enumerate(rows):
        yield _line(row, widths), number == 0 or bool(found[row[0]].holds)
        if number == 0:
            yield _line(["-" * width for width in widths], widths), True


def _line(cells: Sequence[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def sentences(found: Mapping[str, Finding], seen: Seen) -> Iterator[tuple[str, bool]]:
    """A sentence for each guarantee, and whether it holds."""
    for guarantee in GUARANTEES:
        failed = unmet(guarantee, found, seen)
        name = f"{guarantee.name} (contract {guarantee.points})"
        conditions = [found[need].condition for need in guarantee.needs if found[need].condition]
        if failed:
            yield f"{name}: no, because of: {', '.join(failed)}. {guarantee.otherwise}.", False
        else:
            yield f"{name}: yes{''.join(f', if {one}' for one in conditions)}.", True


def suffices(found: Mapping[str, Finding], seen: Seen) -> bool:
    """Whether no message is lost with this broker: every vital guarantee holds."""
    return not any(unmet(one, found, seen) for one in GUARANTEES if one.vital)
