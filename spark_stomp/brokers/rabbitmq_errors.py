"""What RabbitMQ's ERRORs mean, and what to do about them.

The sentences were seen with RabbitMQ 4.3.6 and 3.10.8, or are in their source (rabbit_stomp_processor,
rabbit_amqqueue, rabbit_channel, rabbit_access_control), in November 2026. No ERROR has a ``receipt-id``. An
error of AMQP that closes a channel has the name of its code in ``message`` and begins the body with it; one
that closes the AMQP connection is "AMQP channel died" with the number of its code, often behind a first ERROR
"Processing error".
"""

from __future__ import annotations

import json
import re
from typing import Final

from spark_stomp.brokers.sentences import Hide, Remedy, of_message, passes, stays
from spark_stomp.quoting import shown

# The arguments that RabbitMQ 3.10 takes from headers of SUBSCRIBE and SEND. Later releases take more.
_IN_HEADERS = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-queue-type",
    }
)
# Characters of an ERROR that are searched. RabbitMQ's longest has some 1,000: names have up to 255 bytes. A
# hostile text of 10,000 kept a core busy for 7 s (November 2026).
_SEARCHED = 2_000
# RabbitMQ compares the arguments one after the other, and names the first one that differs. A name in another
# ERROR may say the same, so this begins the body.
_DIFFERS = re.compile(
    r"^(?:[^\n]*\n)?PRECONDITION_FAILED - inequivalent arg '([\w-]+)' "
    r"for queue '(.{0,255})' in vhost '.{0,255}': "
    r"received .* but current is (?:none|(?:the value )?'(.*?)'(?: of type '\w+')?)$",
    re.S,
)
_QUEUE = re.compile("queue '(.{0,255}?)' in vhost")


def queue_that_differs(text: str) -> str | None:
    """The queue that exists with other arguments than asked for, if the body of an ERROR says that."""
    found = _DIFFERS.search(text.strip()[:_SEARCHED])
    return None if found is None else found[2]


def of_difference(text: str, what: str, hide: Hide) -> str:
    """What to do if the body of an ERROR says that a queue differs; empty if it does not."""
    if (differs := _DIFFERS.search(text.strip()[:_SEARCHED])) is None:
        return ""
    name, queue, current = differs[1].replace("_", "-"), shown(hide(differs[2])), differs[3]
    shown_current = None if current is None else shown(hide(current))
    return _to_change(name, queue, shown_current, what.startswith("SUBSCRIBE"))


def _to_change(name: str, queue: str, current: str | None, reading: bool) -> str:
    option = "subscribeHeaders" if reading else "sendHeaders"
    if current is None:
        return f"Leave {name} out of {option}"
    if reading and current == "stream":
        return f"Name it /amq/queue/{queue}, with startingOffsets = earliest or latest to read the stream"
    advice = f"Name it /amq/queue/{queue}, which declares nothing"
    if not reading:
        advice += " (but RabbitMQ confirms and drops messages if no such queue exists)"
    if name in _IN_HEADERS:
        advice += f", or set {option} = {json.dumps({name: current}, ensure_ascii=False)}"
    return advice


def _of_queue(advice: str) -> Remedy:
    """``advice`` with the name of the queue in place of ``{queue}``."""

    def remedy(text: str, what: str, hide: Hide) -> str:
        found = _QUEUE.search(text)
        return advice.replace("{queue}", "" if found is None else shown(hide(found[1])))

    return remedy


SENTENCES: Final = (
    # --- the queue is there, and cannot be used at the moment
    passes(
        r"NOT_FOUND - .*process is stopped by supervisor",
        "not_found - NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor",
        "the node of a classic queue stops or is stopped, or the virtual host starts",
    ),
    passes(
        r"NOT_FOUND - failed to perform operation on .*due to timeout",
        "not_found - NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout",
        "the node of a classic queue was killed; it comes a minute after the SUBSCRIBE",
    ),
    passes(
        r"NOT_FOUND - .*has crashed and failed to restart",
        "not_found - NOT_FOUND - queue 'q' in vhost '/' has crashed and failed to restart",
        "the process of a classic queue failed too often",
    ),
    passes(
        r"NOT_FOUND - .*may be stopping or being demoted",
        "not_found - NOT_FOUND - failed to perform operation on queue 'q' in vhost '/': its leader "
        "<1.2.3> may be stopping or being demoted",
        "the process of a queue stops",
    ),
    passes(
        r"NOT_FOUND - home node .*is down or inaccessible",
        "not_found - NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or "
        "inaccessible",
        "the node of the queue boots, or on 3.10 is away",
    ),
    passes(
        r"does not have a (?:running )?(?:local )?replica\b",
        "precondition_failed - PRECONDITION_FAILED - stream queue 'q' in vhost '/' does not have a "
        "running replica on the local node",
        "this node has no replica of the stream, or it has not started yet",
    ),
    passes(
        r"^Server cancelled subscription\b",
        "Server cancelled subscription - The server has canceled a subscription.\nNo more messages "
        "will be delivered for \"id='x'\".",
        "the node of the queue is away, the queue was deleted, or on 4.3 consumer_timeout is over",
        unasked=True,
        remedy="RabbitMQ says this if the node of the queue is away or lost, if the queue was deleted, "
        "and from 4.3 on if a message of a quorum queue stays un-acked for longer than "
        "consumer_timeout: set that higher than the longest batch and the longest pause between "
        "two batches",
    ),
    passes(
        r"^Subscription not found\b",
        'Subscription not found - Message with id "T_a@@session-b@@1" has no subscription',
        "an ACK for a subscription that RabbitMQ has cancelled",
        unasked=True,
    ),
    passes(
        r"delivery acknowledgement on channel \d+ timed out",
        "precondition_failed - PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed "
        "out. Timeout value used: 1800000 ms",
        "before 4.3: consumer_timeout is over",
        unasked=True,
    ),
    # --- the node
    passes(
        r"^Processing error\b",
        "Processing error",
        "RabbitMQ's own code failed: the node starts or stops, the virtual host is down, or there "
        "is no majority of nodes; to CONNECT also at channel_max",
    ),
    passes(
        # Why a process ends, or a call of another one: not because of what is in a message.
        r"^AMQP c\w+ died - Reason: \{*(?:killed|normal|noproc|noconnection|nodedown|timeout|"
        r"coordinator_unavailable|unexpected_msg|shutdown(?!.*\bserver_initiated_close))\b",
        'AMQP channel died - Reason: {noproc,[{gen,do_call,4,[{file,"gen.erl"},{line,249}]}]}',
        "something within RabbitMQ has just started or stopped, is away or does not answer, or an operator "
        "has closed the connection",
        unasked=True,
    ),
    passes(
        # Long reasons are wrapped, and a new line is shown as two characters.
        r"^AMQP c\w+ died\b.*\bserver_initiated_close,(?:\\n|\s)*320\b",
        "AMQP channel died - Reason: "
        '{shutdown,{connection_closing,{server_initiated_close,320,<<"maintenance at noon">>}}}',
        "an operator has closed the connection",
        unasked=True,
        remedy="An operator has closed the connection: what follows 320 is the reason",
    ),
    passes(
        r"^AMQP c\w+ died\b.*\bserver_initiated_close,(?:\\n|\s)*(?:506|541)\b",
        "AMQP channel died - Reason: "
        '{shutdown,{connection_closing,{server_initiated_close,541,"Could not declare queue"}}}',
        "there is no majority of nodes",
        unasked=True,
    ),
    passes(
        r"(?:INTERNAL_ERROR|RESOURCE_ERROR|CONNECTION_FORCED)\b",
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        "the same as text, over AMQP or in a release after 4.3",
    ),
    passes(
        r"ACCESS_REFUSED - .*\bbackend .*returned an error",
        "access_refused - ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user "
        "'u', backend rabbit_auth_backend_http returned an error: timeout",
        "the server that knows the rights does not answer",
    ),
    passes(r"^Credential expired\b", "Credential expired", "a token of OAuth 2 has expired", unasked=True),
    # --- one message
    of_message(
        r"^AMQP channel died\b(?!.*\bserver_initiated_close)",
        "AMQP channel died - Reason: {function_clause,[]}",
        "a message of another protocol cannot be turned into STOMP",
        unasked=True,
        remedy="RabbitMQ says this if it cannot turn a message of another protocol into STOMP",
    ),
    of_message(
        r"PRECONDITION_FAILED - (?:user_id property set to|message size .*is larger than|"
        r"invalid expiration|invalid message)\b",
        "precondition_failed - PRECONDITION_FAILED - user_id property set to 'a' but authenticated "
        "user was 'b'",
        "a header of the message has a value that is not taken, or it is larger than max_message_size",
    ),
    # --- somebody has to change something
    stays(
        r"NOT_FOUND - no (?:queue|exchange)\b",
        "not_found - NOT_FOUND - no queue 'q' in vhost '/'",
        "there is no such queue or exchange",
        remedy=_of_queue(
            "Declare it first, or name it /queue/{queue}, which declares a durable classic queue"
        ),
    ),
    stays(
        r"(?:^access_refused\b|ACCESS_REFUSED - )(?!.*in exclusive use)",
        "access_refused - ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'",
        "the login lacks a right",
        remedy="/queue/NAME declares the queue, also if it exists, and needs the right to configure it; "
        "/amq/queue/NAME needs only the right to read from it, or to write to the default exchange",
    ),
    stays(
        r"PRECONDITION_FAILED - (?:(?:inequivalent|invalid) (?:arg|property)|"
        r"consumer prefetch count is not set for|cannot declare)\b",
        "precondition_failed - PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' "
        "in vhost '/': received none but current is the value 'quorum' of type 'longstr'",
        "the queue exists with other arguments, an argument is not allowed, or there are as many "
        "queues as may be",
        remedy=of_difference,
    ),
    stays(
        r"RESOURCE_LOCKED\b",
        "resource_locked - RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'",
        "another connection has declared the queue as exclusive",
        remedy=_of_queue(
            "Another connection has declared {queue} as exclusive, and nobody else can use it, or "
            "subscribeHeaders ask for an exclusive queue, as durable = false and persistent = false do "
            "unless exclusive = false is there too"
        ),
    ),
    stays(
        r"^(?:Invalid|Unknown|Missing) destination\b",
        "Unknown destination - 'q' is not a valid destination.",
        "no destination of RabbitMQ has this form",
    ),
    stays(
        r"^AMQP channel died\b.*\bserver_initiated_close,(?:\\n|\s)*(?:402|501|503|530|540)\b",
        "AMQP channel died - Reason: "
        '{shutdown,{connection_closing,{server_initiated_close,530,"reached maximum (1) of '
        'consumers per channel"}}}',
        "RabbitMQ does not do what is asked for",
    ),
)
