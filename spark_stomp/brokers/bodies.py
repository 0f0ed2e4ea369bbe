"""What a broker puts into the body of a MESSAGE if STOMP cannot say what the message does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

ENCODING: Final = "JMS_AMQP_ORIGINAL_ENCODING"
"""The header by which ActiveMQ and Artemis say what the body was in AMQP 1.0."""
LOST_CONTENT: Final = {
    ENCODING: {"3": "a sequence of AMQP", "7": "a map of AMQP", "8": "a list of AMQP"},
    "JMS_AMQP_ContentType": {"application/x-java-serialized-object": "an object of JMS"},
}
"""By header, the values with which the body is empty or means nothing."""


@dataclass(frozen=True, slots=True)
class BodyMarks:
    """How bodies are recognised that are not the producer's octets.

    Attributes:
        section: header and value of a body that is a section of AMQP 1.0 as it is encoded; None: no such
            header.
        message: the header that is ``true`` if the body is a whole message of AMQP 1.0 as it is encoded;
            None: no such header.
        whole: the same header if such messages stay encoded; nothing of theirs is left out.
        lost_content: by header, the values which say that the content is not in the frame, and what it was.
        scalars: the header of messages from AMQP whose body cannot be trusted unless there is
            :data:`ENCODING` as well; None: no such header.
        map_of_jms: a header that messages of JMS clients have, and what the broker sends in place of their
            maps; None: a map cannot be recognised.
        hollow: True if it sends an empty body in place of content that it leaves out.
        hollow_without_length: True if it then sends no ``content-length``.
        remedy: what to do to have that content, as a sentence.
    """

    section: tuple[str, str] | None = None
    message: str | None = None
    whole: str | None = None
    lost_content: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    scalars: str | None = None
    map_of_jms: tuple[str, re.Pattern[bytes]] | None = None
    hollow: bool = False
    hollow_without_length: bool = False
    remedy: str = ""

    def of_raw(self) -> BodyMarks:
        """The marks for a query that wants encoded bodies as they came."""
        return replace(self, section=None, message=None, whole=self.message)


NO_MARKS: Final = BodyMarks()
"""Of a broker of which nothing is known."""
