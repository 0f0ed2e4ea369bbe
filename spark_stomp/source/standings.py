"""Asks the broker now and then how much waits in the queues that a query reads, and who else reads them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from spark_stomp.brokers.standing import LoginNotAccepted, QueueAnswer, TellsNothing
from spark_stomp.deadline import Deadline
from spark_stomp.errors import PasswordUnreadable, StompError, SubscriptionForgotten, UnsupportedError
from spark_stomp.logs import Once, get_log
from spark_stomp.options import SourceOptions
from spark_stomp.quoting import counted, listed, shown
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.forgotten import Forgotten
from spark_stomp.threads import Worker
from spark_stomp.transport.addresses import machines_of
from spark_stomp.transport.logins import fingerprint, password_of
from spark_stomp.transport.standing import ask_standing

log = get_log(__name__)

# Seconds before the first question, which says what kind of queue it is: short runs ask nothing.
_FIRST: Final = 2.0
# Seconds before each further one.
_PERIOD: Final = 30.0
# Seconds before the next one if the broker may have forgotten a subscription.
_SOON: Final = 10.0
# Queues that are asked for, because each question is a connection; and seconds after which, at the end of a
# run, no further one is asked for.
_MOST_ASKED: Final = 5
_LONGEST: Final = 10.0
# Seconds between two questions at the end of a run while messages wait.
_AGAIN: Final = 2.0
# Seconds that a connection for a question may take.
_PATIENCE: Final = 5.0
# Seconds after which a refused password is sent again. No figure is worth an account that is locked, and some
# servers count the refusals of a quarter of an hour.
_REFUSED_PAUSE: Final = 600.0


class StandingWatch:
    """Asks in a thread of its own, so that nothing ever waits for an answer. An error ends nothing.

    A broker that does not tell it of a queue is not asked again, unless the query names ``managementUrl``.
    The password may have changed since the query has connected: a refused one is not sent again for long.
    ``on_answers`` is called after each round of questions; ``give_up`` with the name of a receiver, the
    number of its connection, and the reason, if the broker has forgotten a subscription of that connection.

    Attributes:
        answers: the last answers, by queue. One that could not be renewed is gone.
    """

    def __init__(
        self,
        options: SourceOptions,
        statuses: Callable[[], Sequence[ReceiverStatus]],
        on_answers: Callable[[], None] = lambda: None,
        give_up: Callable[[str, int, StompError], None] = lambda *_: None,
    ) -> None:
        self.answers: dict[str, QueueAnswer] = {}
        patience = min(options.connection.connect_timeout, _PATIENCE)
        self._options = replace(options.connection, connect_timeout=patience)
        self._selector = options.selector
        self._queues = frozenset(options.queues)
        self._statuses = statuses
        self._on_answers = on_answers
        self._give_up = give_up
        self._forgotten = Forgotten()
        self._once = Once(log)
        self._unanswered: set[str] = set()
        self._refused: tuple[bytes, float] | None = None
        self._ends = self._has_asked = False
        # When the queues were last asked for, all of them.
        self._asked_at = float("-inf")
        self._worker = Worker("stomp-standings", self._run)

    def start(self) -> None:
        if self._queues:
            self._worker.start()

    def stop(self) -> None:
        """Ask no more. A question that is under way is not waited for."""
        self._worker.stop(0.0)

    def begin_run_that_ends(self) -> None:
        """Find out now whether the broker tells: at the end of the run somebody waits."""
        self._ends = True
        self._worker.wake()

    def withheld(self, since: float) -> int | None:
        """How many messages wait that nobody has and the query does not get, by questions after the monotonic
        time ``since``, when the query became quiet; 0 if the broker does not tell.

        None while it is asked. Some are asked again until their figures are those of now.
        """
        if self._unanswered >= self._queues or self._is_refused():
            return 0
        asked_at, answers = self._asked_at, [*self.answers.values()]
        withheld = sum(one.standing.withheld for one in answers)
        # A queue may be so new that its figures are not known yet.
        if asked_at >= since and not withheld and all(one.standing.ready is not None for one in answers):
            return 0
        if asked_at < since or time.monotonic() - asked_at >= _AGAIN:
            self._worker.wake()
        settled = asked_at >= since + max((one.asks.settling for one in answers), default=0.0)
        return withheld if settled else None

    @property
    def scheduled(self) -> str:
        """How many messages have a time that has not come, and in which queues; empty if there are none."""
        later = {name: one.standing.scheduled for name, one in self.answers.items() if one.standing.scheduled}
        return f"{counted(sum(later.values()), 'message')} in {listed([*later])}" if later else ""

    def why_withheld(self) -> str:
        """Of which queues :meth:`withheld` speaks, and why that may be."""
        asks = {name: one.asks for name, one in self.answers.items() if one.standing.withheld}
        return f"in {listed([*asks])}: {next(iter(asks.values())).why_withheld(self._selector)}"

    def _warn_of_names(self) -> None:
        """Warn once of each name in ``url`` that stands for several machines: one of them is read."""
        for host in dict.fromkeys(one.host for one in self._options.endpoints):
            if (machines := machines_of(host, Deadline.after(self._options.connect_timeout))) > 1:
                log.warning(
                    "%s in url stands for %d addresses, and the first that answers is read, also with "
                    "several connections. If these are brokers with messages of their own, and no cluster "
                    "that shares them, most are never read: give each address its own source",
                    shown(host),
                    machines,
                )

    @property
    def _pause(self) -> float:
        """Seconds until the next question."""
        if not self._has_asked:
            return _FIRST
        return _SOON if self._forgotten.doubts else _PERIOD

    def _run(self) -> None:
        self._warn_of_names()
        while self._worker.goes_on(min(self._pause, _PERIOD)):
            try:
                self.ask()
            except Exception as error:  # noqa: BLE001 - no figure may end the thread, for which a run waits
                log.warning("how much waits in the queues is not known: %r", error)
                self.answers, self._unanswered = {}, {*self._queues}
            # Who waits looks at the answers, and asks again.
            self._worker.wait(0.0)
            self._on_answers()

    def ask(self) -> None:
        """Ask once for each queue that a connected receiver reads."""
        begun = time.monotonic()
        if self._is_refused():
            self.answers = {}
            return
        most = None if self._ends and self._has_asked else _MOST_ASKED
        statuses = self._statuses()
        connected = [one for one in statuses if one.connection.connected]
        quiet_since = max((one.last_active for one in statuses), default=begun)
        readers = Counter(name for one in connected for name in one.destinations if name in self._queues)
        self._has_asked |= bool(readers)
        answers: dict[str, QueueAnswer] = {}
        # To count what a selector wants, a broker looks at all that the queue has.
        selector = self._selector if self._ends or begun - quiet_since >= _PATIENCE else None
        for queue, _ in readers.most_common(most):
            if self._is_refused() or self._worker.is_stopping or time.monotonic() - begun > _LONGEST:
                break
            reading = [one for one in connected if queue in one.destinations]
            answer = None if queue in self._unanswered else self._ask_of(queue, reading, selector)
            if answer is None:
                self._forgotten.forget(queue)
                continue
            answers[queue] = answer
            self._warn_of_forgetful(queue, answer.standing.forgetful)
            self._judge(queue, answer, reading)
        self.answers = answers
        if most is None or not readers:
            self._asked_at = begun

    def _ask_of(
        self, queue: str, readers: Sequence[ReceiverStatus], selector: str | None
    ) -> QueueAnswer | None:
        """What the broker says of one queue, which these receivers read; None if it does not."""
        at, asked_at = readers[-1].connection, time.monotonic()
        if at.dialect is None:
            return None
        try:
            found = ask_standing(self._options, at.dialect, queue, at.peer, selector)
        except LoginNotAccepted as error:
            log.debug("how much waits in the queues is not known: %s", error.message)
            self._refused = self._password(), asked_at
        except UnsupportedError as error:
            log.debug("how much waits in %s is not known: %s", queue, error.message)
            if self._options.management_url is None:
                self._unanswered |= self._queues if isinstance(error, TellsNothing) else {queue}
        except StompError as error:
            log.debug("how much waits in %s is not known: %s", queue, error)
        else:
            return QueueAnswer(found, time.time(), asked_at, len(readers), at.dialect.asks)
        return None

    def _warn_of_forgetful(self, queue: str, forgetful: str) -> None:
        """Warn once of a queue that may delete what this query has and has not committed when a run ends."""
        if forgetful:
            self._once.warning(
                queue,
                "%s is %s: what this query has received and not committed when it ends may not come again. "
                "If only the connection breaks, it is kept. Set a journal, or read an ordinary queue with "
                "a copy of each message",
                queue,
                forgetful,
            )

    def _judge(self, queue: str, answer: QueueAnswer, readers: Sequence[ReceiverStatus]) -> None:
        """Give up the connections whose subscription to ``queue`` the broker has forgotten."""
        subscribed = [(one.name, one.connection.connections, one.last_read(queue)) for one in readers]
        self._forgotten.counts_all(queue, answer)
        settled = time.time() - max(one.connection.since for one in readers)
        if settled < _PERIOD or any(last is None for _, _, last in subscribed):
            self._forgotten.forget(queue)
            return
        delivered = sum(one.counts.delivered for one in readers)
        why = self._forgotten.why(queue, answer, tuple(subscribed), delivered)
        for name, number, _ in subscribed if why else ():
            self._give_up(name, number, SubscriptionForgotten(f"{readers[0].connection.peer}: {why}"))

    def _is_refused(self) -> bool:
        """Whether the password of now was refused lately."""
        if self._refused is None:
            return False
        password, since = self._refused
        return password == self._password() and time.monotonic() - since < _REFUSED_PAUSE

    def _password(self) -> bytes:
        try:
            return fingerprint(password_of(self._options))
        except PasswordUnreadable:
            return b""
