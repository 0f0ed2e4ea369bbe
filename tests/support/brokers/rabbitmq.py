"""RabbitMQ from Debian's packages, unpacked beside any that the system runs: a current and an old release."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from support.brokers.base import CONF, HOST, Broker, Standing, free_ports
from support.brokers.cache import cached, debian_packages, relink
from support.brokers.process import Process, Unavailable, run
from support.waiting import pause

# What rabbitmqctl list_queues asks for, of a queue or of those that a topic's subscriptions have.
_STANDING = """Counted = fun(Name) -> case rabbit_amqqueue:lookup(Name) of
    {ok, Queue} -> [C || {_, C} <- rabbit_amqqueue:info(Queue, [messages_ready, messages_unacknowledged])];
    {error, not_found} -> [0, 0]
end end,
Counts = lists:map(Counted, FOUND),
{lists:sum([R || [R, _] <- Counts]), lists:sum([U || [_, U] <- Counts])}."""
_QUEUE = '[rabbit_misc:r(<<"/">>, queue, <<"NAME">>)]'
# A binding is a record of source, key, destination and arguments.
_OF_TOPIC = """[element(4, Binding) || Binding <- rabbit_binding:list_for_source(
    rabbit_misc:r(<<"/">>, exchange, <<"amq.topic">>)), element(3, Binding) == <<"NAME">>]"""

# Writes out what the node's disk tables hold in memory.
_WRITE_OUT = "[ok = dets:sync(Table) || Table <- dets:all()]."


# Seconds; erl_call of Erlang 29 says now and then that it cannot connect to a node that is there.
_CONNECTS_WITHIN = 10.0


class EvaluationFailed(Exception):
    """What the node answered instead of a value."""


class PortMapper:
    """Erlang's own (epmd), by which nodes find one another: that of one node, or of a cluster."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "epmd.log"
        self._process: Process | None = None
        (self.port,) = free_ports(1)

    def start(self, erlang: Path) -> None:
        """Run it, if it does not run yet."""
        command = (erlang / "epmd", "-address", HOST, "-port", str(self.port))
        self._process = self._process or Process(command, self._log, {})

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


class RabbitMQ(Broker):
    """One node with its own name, ports, cookie, data and port mapper (epmd), all on loopback.

    The release is what Debian's newest suite has, with all that it needs.
    """

    name = "rabbitmq"
    suite: ClassVar[str] = "sid"
    # Whether it knows frames.conf of the users' configuration.
    limits_frames: ClassVar[bool] = True
    # Plugins for other protocols. With that for MQTT, 3.10 takes 4 seconds longer to start.
    _others: ClassVar[dict[str, str]] = {"mqtt": "rabbitmq_mqtt"}
    _publish: ClassVar[str] = """{ok, Message} = mc_amqpl:message(Exchange, <<"NAME">>,
        rabbit_basic:build_content(rabbit_basic:properties([PROPERTIES]), BODY)),
    rabbit_queue_type:publish_at_most_once(Exchange, Message)"""
    # Quorum queues and streams say every 5 seconds how many messages they hold unless told otherwise.
    _erlang_arguments = "-rabbit quorum_tick_interval 200 -rabbit stream_tick_interval 200"
    transports = ("tcp", "tls", "ws")
    largest_body = 8 << 20
    login, password = "guest", "guest"
    _ends_within = 60.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.websocket_port = 0
        self._node_port = 0
        self.node = f"spark-stomp-{secrets.token_hex(4)}@localhost"
        self._mapper = PortMapper(folder)

    @property
    def dialect(self) -> str:
        return "rabbitmq"

    @property
    def websocket_url(self) -> str:
        return f"ws://{HOST}:{self.websocket_port}/ws"

    @property
    def crash_safe(self) -> dict[str, str]:
        """Classic queues of 3.10 lose confirmed messages now and then when the node is killed."""
        return {"x-queue-type": "quorum"}

    def launch(self) -> None:
        # First, since it may not be available.
        erlang = self._erlang
        if not self.port:
            self._configure()
        self._mapper.start(erlang)
        self._run(self._home / "usr/lib/rabbitmq/bin/rabbitmq-server", **self._environment)

    def await_started(self) -> None:
        super().await_started()
        # The listeners of STOMP take connections before a start that fails is over.
        if (answer := self.evaluate("rabbit:await_startup().")) != "ok":
            raise Unavailable(answer)

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.port, self.tls_port, self.websocket_port, self.listeners["amqp"])

    def listen(self, protocol: str) -> None:
        if plugin := self._others.get(protocol):
            self.evaluate(
                f"{{ok, _}} = application:ensure_all_started({plugin}), "
                f"{{ok, Modules}} = application:get_key({plugin}, modules), "
                "ok = code:ensure_modules_loaded(Modules)."
            )

    def stop(self) -> None:
        super().stop()
        self._mapper.stop()

    def kill(self) -> None:
        """Kill the node as if the last quorum queue had been declared long before.

        3.10.8 keeps which log belongs to a quorum queue in a table (names.dets, of its library ra) that
        reaches the disk up to 3 seconds after the declaration. If the node is killed before, the queue comes
        back without its confirmed messages and without a leader, and answers nobody.
        """
        if self._server is not None:
            self.evaluate(_WRITE_OUT)
        super().kill()

    def restart(self) -> None:
        """Stop in order, and come back with what was persistent.

        A killed node loses messages: a classic queue of RabbitMQ 3.10.8 was seen without its 20
        un-acked, confirmed messages after 3 of 31 kills, with nothing but a bare socket reading from it.
        """
        super().stop()
        self.start()

    def standing(self, destination: str) -> Standing:
        return self.standing_of_all([destination])

    def standing_of_all(self, destinations: Sequence[str]) -> Standing:
        """One question for all, because each takes a tenth of a second."""
        found = " ++ ".join(map(_queues_of, destinations))
        try:
            ready, unacked = re.findall(r"\d+", self.evaluate(_STANDING.replace("FOUND", found)))
        except EvaluationFailed:
            # A queue that goes while it is asked for, as that of a subscription which just ended.
            return Standing(-1, -1)
        return Standing(int(ready), int(unacked))

    @property
    def connections(self) -> int:
        """The plugin for STOMP has a connection to the node itself for each of its clients."""
        return int(self.evaluate("length(rabbit_direct:list())."))

    def new_refused(self) -> str:
        """A queue that must exist, because no SUBSCRIBE to this name declares one."""
        return self.new_queue().replace("/queue/", "/amq/queue/")

    def delete_queue(self, destination: str) -> None:
        """Delete it with its messages; the broker tells its consumers."""
        self.evaluate(
            f"{{ok, Queue}} = rabbit_amqqueue:lookup(hd({_queues_of(destination)})), "
            'rabbit_amqqueue:delete(Queue, false, false, <<"test">>).'
        )

    def close_connections(self, reason: str) -> None:
        """Close all of them, as ``rabbitmqctl close_all_connections`` does."""
        tracked = "rabbit_connection_tracking:list()"
        self.evaluate(f'rabbit_connection_tracking_handler:close_connections({tracked}, <<"{reason}">>, 0).')

    def change_password(self, login: str, password: str) -> None:
        self.evaluate(
            f'rabbit_auth_backend_internal:change_password(<<"{login}">>, <<"{password}">>, <<"test">>).'
        )

    def evaluate(self, expression: str) -> str:
        """The value of an Erlang expression on the node, as ``rabbitmqctl eval`` has it.

        rabbitmqctl starts a virtual machine for each question, which takes long; erl_call does not.
        """
        cookie = (self.folder / ".erlang.cookie").read_text()
        command = (self._erlang / "erl_call", "-sname", self.node, "-c", cookie, "-e")
        answer, deadline = "", time.monotonic() + _CONNECTS_WITHIN
        while not answer:
            try:
                answer = run(*command, given=expression + "\n", timeout=60, **self._environment)
            except Unavailable as error:
                if "failed to connect to node" not in str(error) or time.monotonic() > deadline:
                    raise
                pause(0.1)
        found = re.fullmatch(r"\{ok, (.*)\}", answer.strip(), re.DOTALL)
        if found is None:
            raise EvaluationFailed(answer)
        return found[1]

    def publish_amqp(
        self, destination: str, body: bytes, headers: str = "[]", message_id: str | None = None
    ) -> None:
        """Publish into a queue what an AMQP producer can and a STOMP producer cannot: ``headers`` is a list
        of name, type and value in Erlang, and ``message_id`` the property of that name."""
        name = destination.rpartition("/")[2]
        numbers = ",".join(map(str, body))
        properties = ["{delivery_mode, 2}", f"{{headers, {headers}}}"]
        if message_id is not None:
            properties.append(f'{{message_id, <<"{message_id}">>}}')
        publish = self._publish.replace("NAME", name).replace("PROPERTIES", ", ".join(properties))
        self.evaluate(
            f'Exchange = rabbit_misc:r(<<"/">>, exchange, <<>>), {publish.replace("BODY", f"<<{numbers}>>")}.'
        )

    def declare(self, destination: str, arguments: Mapping[str, str | int | bool]) -> None:
        """Declare a queue as an AMQP client would; ``durable`` and ``auto_delete`` are arguments as well."""
        given = dict(arguments)
        durable, auto_delete = given.pop("durable", True), given.pop("auto_delete", False)
        table = ", ".join(f'{{<<"{name}">>, {_amqp_value(value)}}}' for name, value in given.items())
        name = destination.rpartition("/")[2]
        self.evaluate(
            f'{{new, _}} = rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"{name}">>), '
            f'{str(durable).lower()}, {str(auto_delete).lower()}, [{table}], none, <<"test">>), ok.'
        )

    def add_user(self, login: str, password: str, configure: str, write: str, read: str) -> None:
        """A user with these rights on the virtual host ``/``: regular expressions of names."""
        rights = ", ".join(f'<<"{right}">>' for right in (configure, write, read))
        self.evaluate(
            f'rabbit_auth_backend_internal:add_user(<<"{login}">>, <<"{password}">>, <<"test">>), '
            f'rabbit_auth_backend_internal:set_permissions(<<"{login}">>, <<"/">>, {rights}, <<"test">>).'
        )

    def limit_connections(self, login: str, most: int) -> None:
        """Allow this user at most so many connections."""
        limits = f'<<"{{\\"max-connections\\": {most}}}">>'
        self.evaluate(
            f'rabbit_auth_backend_internal:set_user_limits(<<"{login}">>, {limits}, <<"test">>), ok.'
        )

    @property
    def said(self) -> str:
        """What it has logged."""
        return "".join(path.read_text(errors="replace") for path in (self.folder / "log").glob("*.log"))

    def limit_virtual_host(self, most: int | None) -> None:
        """Allow at most so many connections to ``/``; None: any number."""
        if most is None:
            self.evaluate('rabbit_vhost_limit:clear(<<"/">>, <<"test">>), ok.')
        else:
            limits = f'[{{<<"max-connections">>, {most}}}]'
            self.evaluate(f'rabbit_vhost_limit:set(<<"/">>, {limits}, <<"test">>), ok.')

    @property
    def _home(self) -> Path:
        """Where the release is, which is fetched first."""
        name = f"rabbitmq-{self.suite}"
        return cached(name, partial(_install, self.suite, name))

    @property
    def _erlang(self) -> Path:
        return self._home / "usr/lib/erlang/bin"

    def _configure(self) -> None:
        """The users' configuration, and one beside it that moves the ports and lowers a limit."""
        self.port, self.tls_port, self.websocket_port, *internal = free_ports(6)
        amqp, mqtt, self._node_port = internal
        # AMQP 0.9.1 and 1.0 have one port.
        self.listeners = {"amqp": amqp, "mqtt": mqtt}
        shutil.copytree(CONF / "rabbitmq", self.folder / "etc")
        fragments = self.folder / "etc/conf.d"
        fragments.mkdir()
        if self.limits_frames:
            shutil.copy(self.folder / "etc/frames.conf", fragments)
        tls = (self.folder / "etc/tls.conf").read_text()
        files = {
            "ca.pem": self.ca,
            "broker.pem": self.identity.cert_file,
            "broker.key": self.identity.key_file,
        }
        for name, path in files.items():
            tls = tls.replace(f"/etc/rabbitmq/tls/{name}", str(path))
        (fragments / "tls.conf").write_text(tls)
        # Read after them, since files are read in the order of their names.
        if self.limits_frames:
            # By default it is more than max_message_size is here, and the node refuses to start.
            limit = f"mqtt.max_packet_size_authenticated = {self.largest_body}\n"
            (fragments / "mqtt.conf").write_text(limit)
        (fragments / "zz-ports.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{amqp}\n"
            f"mqtt.listeners.tcp.1 = {HOST}:{mqtt}\n"
            f"stomp.listeners.tcp.1 = {HOST}:{self.port}\n"
            f"stomp.listeners.ssl.1 = {HOST}:{self.tls_port}\n"
            f"web_stomp.tcp.listener = {HOST}:{self.websocket_port}\n"
            f"max_message_size = {self.largest_body}\n"
        )

    @property
    def _environment(self) -> dict[str, Any]:
        folder = self.folder
        return {
            "PATH": f"{self._erlang}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(folder),  # of the cookie
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "etc/rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "etc/conf.d"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "etc/enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            # The server is what was started, with no shell before it to pass signals on.
            "RABBITMQ_ALLOW_INPUT": "true",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1} "
            + self._erlang_arguments,
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "ERL_EPMD_PORT": str(self._mapper.port),
            "ERL_EPMD_ADDRESS": HOST,
        }


class OldRabbitMQ(RabbitMQ):
    """3.10.8, of Debian 12."""

    name = "rabbitmq-3.10"
    suite = "bookworm"
    limits_frames = False
    _others: ClassVar[dict[str, str]] = {"mqtt": "rabbitmq_mqtt", "amqp": "rabbitmq_amqp1_0"}
    _publish = """rabbit_basic:publish(Exchange, <<"NAME">>, [PROPERTIES], BODY)"""


class RabbitMQ40(RabbitMQ):
    """The release of Debian 13, the oldest of 4 that there is."""

    name = "rabbitmq-4.0"
    suite = "trixie"


def _amqp_value(value: str | int | bool) -> str:
    """The type and the value of an argument, in Erlang."""
    if isinstance(value, bool):
        return f"bool, {str(value).lower()}"
    return f"long, {value}" if isinstance(value, int) else f'longstr, <<"{value}">>'


def _queues_of(destination: str) -> str:
    """An expression for the names of the queue, or of those that a topic's subscriptions have."""
    kind, _, name = destination.removeprefix("/").removeprefix("amq/").partition("/")
    return (_OF_TOPIC if kind == "topic" else _QUEUE).replace("NAME", name)


def _install(suite: str, name: str, folder: Path) -> None:
    debian_packages(suite, "rabbitmq-server", re.compile("erlang-|lib|zlib"), folder)
    erlang, final = folder / "usr/lib/erlang", folder.with_name(name)
    relink(erlang, folder, final)
    # The scripts name the place where the package would be installed.
    root = final / "usr/lib/erlang"
    scripts = (path for name in ("erl", "start") for path in erlang.glob(f"erts-*/bin/{name}"))
    for path in (erlang / "bin/erl", erlang / "bin/start", *scripts):
        path.write_text(path.read_text().replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={root}"))
