"""The known brokers, and which of them a connection has.

The ``server`` header of CONNECTED says which broker it is. If the broker hides that header, the option
``broker`` names it.
CONTRIBUTING.md says how to add a broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from spark_stomp.brokers.activemq import ACTIVEMQ
from spark_stomp.brokers.artemis import ARTEMIS
from spark_stomp.brokers.devbroker import DEVBROKER
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import EXPIRES, PRIORITY, TIMESTAMP, Outgoing
from spark_stomp.brokers.rabbitmq import EXPIRATION, LASTING, RABBITMQ
from spark_stomp.brokers.sentences import Sentence, meaning, passes, stays
from spark_stomp.protocol.encoder import HeaderNames

# Artemis before ActiveMQ: its server header, "ActiveMQ-Artemis/...", also begins with "ActiveMQ".
# tests/interop/test_dialects.py proves the facts of the first three.
_NAMED: Final = (RABBITMQ, ARTEMIS, ACTIVEMQ, DEVBROKER)
_LEFT_OUT: Final = tuple(dialect.outgoing.left_out for dialect in _NAMED)

# What any broker may say.
_OF_ANY: Final = (
    # The last one is Apollo while it replays its log. A part of a name, such as train.stopping-points, is no
    # word.
    passes(
        r"(?i:(?<![\w./@:{-])(?:shut(?:ting)?[ -]?down|being (?:stopped|shut)|stopping)(?![\w/@-]|[.:]\w)"
        r"|^virtual host stopped)",
        "the broker is shutting down",
        "the broker stops, or is starting",
    ),
    passes(
        r"^(?:Broker not available|Failed to connect|Connection to broker closed)",
        "Broker not available.",
        "the broker behind Spring's relay is away",
    ),
)
# What a broker that is not known may say. Of a known one these words prove nothing.
_OF_UNKNOWN: Final = (
    stays(
        r"(?i:\b(?:denied|forbidden|unauthori[sz]ed|refused)\b|\bno (?:queue|topic|destination|right|such)\b"
        r"|\bnot (?:authori[sz]ed|allowed|permitted|found|supported|valid)\b|\bdo(?:es not|esn't) exist\b"
        r"|\b(?:unknown|invalid|unsupported|missing)\b)",
        "not authorized",
        "a broker that is not known refuses a request",
    ),
)

# An unknown broker may be any of these that hides its name, or one that ignores the case of header names.
GENERIC: Final = Dialect(
    name="generic",
    outgoing=Outgoing(
        left_out=HeaderNames(
            frozenset(name.lower() for known in _LEFT_OUT for name in known.names),
            tuple(sorted({prefix.lower() for known in _LEFT_OUT for prefix in known.prefixes})),
            frozenset().union(*(known.but for known in _LEFT_OUT)),
            any_case=True,
        ),
        values=(PRIORITY, EXPIRES, EXPIRATION, TIMESTAMP, *LASTING),
        body_claim=RABBITMQ.outgoing.body_claim,
    ),
    lasting=LASTING,
    errors=ErrorTexts(sentences=_OF_ANY),
    # The simple broker of Spring and the server of Vert.x have a /queue/ that keeps and redelivers nothing.
    unknown_warning="the connector does not know this broker: whether it keeps, redelivers and confirms "
    "messages is not known. Try it out: spark-stomp probe URL --scratch QUEUE",
)
DIALECTS: Final = (*_NAMED, GENERIC)
_BY_NAME: Final = {dialect.name: dialect for dialect in DIALECTS}


def dialect_named(name: str) -> Dialect:
    """The dialect of that name. Raises KeyError; the option ``broker`` allows only known names."""
    return _BY_NAME[name]


def dialect_for(
    server: str | None, broker: str = "auto", destination_type: Literal["queue", "topic"] | None = None
) -> Dialect:
    """The dialect that the option ``broker`` names; for ``auto``, that of CONNECTED's ``server`` header.

    ``destination_type``, if given, is what destinations are whose names do not say it.
    """
    if broker != "auto":
        dialect = dialect_named(broker)
    else:
        product = (server or "").lower()
        # A broker without a name may be Artemis, which sends no server header in STOMP 1.0.
        other = replace(GENERIC, forged_versions=() if server else ("1.0",))
        dialect = next((one for one in _NAMED if product.startswith(one.server_prefix or " ")), other)
    if destination_type is None or dialect.naming.otherwise != "unknown":
        return dialect
    return replace(dialect, naming=replace(dialect.naming, otherwise=destination_type))


def says_in_use(says: Callable[[re.Pattern[str]], bool]) -> bool:
    """Whether an answer to CONNECT says that another connection has the ``client-id``."""
    patterns = (one.errors.client_id_in_use for one in DIALECTS)
    return says(re.compile("|".join(filter(None, patterns))))


def sentence_of(says: Callable[[re.Pattern[str]], bool], dialect: Dialect) -> Sentence | None:
    """The sentence that an ERROR of this broker says; None if it is not known.

    ``says`` tells whether a pattern is in its own words. An unknown broker may be any that hides its name.
    """
    if dialect.unknown_warning is None:
        return meaning((*dialect.errors.sentences, *_OF_ANY), says)
    known = meaning((one for each in DIALECTS for one in each.errors.sentences), says)
    return known or meaning(_OF_UNKNOWN, says)


def named_queue(text: str) -> str | None:
    """The queue because of which a SEND was refused, if the text of an ERROR names it."""
    return next(filter(None, (dialect.errors.named_queue(text) for dialect in DIALECTS)), None)
