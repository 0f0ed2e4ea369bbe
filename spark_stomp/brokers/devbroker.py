"""The dev broker of this package."""

from __future__ import annotations

from spark_stomp.brokers.destinations import DurableTopics, Naming
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import DELIVERY, EXPIRES, PRIORITY, Outgoing
from spark_stomp.brokers.sentences import of_message, stays
from spark_stomp.protocol.encoder import HeaderNames

DEVBROKER = Dialect(
    name="devbroker",
    server_prefix="spark-stomp-devbroker",
    prefetch_header="prefetch-count",
    id_header="message-id",
    selectors=False,
    browse_headers=(("browser", "true"),),
    naming=Naming(otherwise="queue"),
    durable_topics=DurableTopics("durable-subscription-name", shared=True),
    outgoing=Outgoing(
        left_out=HeaderNames(DELIVERY | {"browser", "delivery-count"}),
        values=(PRIORITY, EXPIRES),
        expires_header="expires",
    ),
    errors=ErrorTexts(
        sentences=(
            stays(r"^refused: ", "refused: the subscription exists already", "it refuses a request"),
            of_message(
                r"^content-length .*is over \d+ bytes",
                "content-length 9000000 of SEND is over 8388608 bytes",
                "the body is too large",
            ),
            of_message(
                r"^a message cannot be delivered\b",
                "a message cannot be delivered",
                "a test says that a message is undeliverable",
                unasked=True,
            ),
        )
    ),
)
