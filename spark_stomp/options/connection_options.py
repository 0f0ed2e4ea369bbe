"""Options of a connection. Every read and write takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.brokers import DIALECTS, Dialect, dialect_for
from spark_stomp.options.endpoint import ENDPOINTS, Endpoint
from spark_stomp.options.fields import EVERYWHERE, STREAMS_AND_WRITES, group
from spark_stomp.options.kinds import (
    BOOLEAN,
    HEADERS,
    HOST_NAME,
    HTTP_URL,
    KEY_FILE,
    NAME,
    PASSWORD_FILE,
    PEM,
    PEM_TEXT,
    SIZE,
    TEXT,
    TIMEOUT,
    choice,
    choices,
    heartbeat_pair,
    integer,
)
from spark_stomp.protocol.frames import HeaderPairs, Limits


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """How a ``stomp+ssl`` or ``wss`` address is secured.

    ``ca_file`` and ``cert_file`` are each the path of a PEM file, or its text
    (:func:`~spark_stomp.options.kinds.is_pem` tells which). Without ``ca_file``, the system's authorities are
    trusted.
    """

    ca_file: str | None = EVERYWHERE.optional("tlsCaFile", PEM, note="the system's")
    """The authorities to trust."""
    cert_file: str | None = EVERYWHERE.optional("tlsCertFile", PEM)
    """The client's certificate."""
    key_file: str | None = EVERYWHERE.optional("tlsKeyFile", KEY_FILE, note="that of `tlsCertFile`")
    """The client's private key, in PEM."""
    key_secret: str | None = EVERYWHERE.optional("tlsKeySecret", PEM_TEXT, secret=True)
    """The same from a secret store, in place of `tlsKeyFile`. Spark redacts it."""
    key_password: str | None = EVERYWHERE.optional("tlsKeyPassword", TEXT, secret=True)
    """Password of the client's private key."""
    verify: bool = EVERYWHERE.option("tlsVerify", BOOLEAN, "true")
    """Whether the broker's certificate and host name must be valid."""
    server_name: str | None = EVERYWHERE.optional("tlsServerName", HOST_NAME, note="the host of `url`")
    """Host name in the broker's certificate, if it is not that of `url`."""
    min_version: Literal["1.2", "1.3"] = EVERYWHERE.option("tlsMinVersion", choice("1.2", "1.3"), "1.2")
    """Oldest version of TLS to accept."""


@dataclass(frozen=True, kw_only=True)
class ReconnectOptions:
    """When and for how long a lost connection is tried again, in seconds."""

    # Five minutes are longer than a broker takes to restart.
    timeout: float = STREAMS_AND_WRITES.option("reconnectTimeout", TIMEOUT, "5m")
    """How long a receiver, or a task of the sink, tries to reconnect before it fails."""
    first_delay: float = STREAMS_AND_WRITES.option("reconnectDelay", TIMEOUT, "250ms")
    """Pause before the first attempt. Each further one is twice as long, less up to half at random."""
    longest_delay: float = STREAMS_AND_WRITES.option("reconnectDelayMax", TIMEOUT, "30s")
    """Longest pause between two attempts; longer after a [refused login](security.md#what-is-tried-again)."""


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach a broker, and what to say in CONNECT.

    ``endpoints`` are tried in order. ``heartbeat`` is (outgoing, incoming) in milliseconds, 0 for none.
    ``connect_timeout`` is in seconds, for one attempt at one endpoint. ``log_level`` is for the process that
    holds the connection.
    """

    endpoints: tuple[Endpoint, ...] = EVERYWHERE.required(
        "url",
        ENDPOINTS,
        missing='give the address of the broker, as in .option("url", "stomp://broker.example:61613")',
    )
    """Address of the broker, or several for failover."""
    login: str | None = EVERYWHERE.optional("login", NAME)
    """User name."""
    password: str | None = EVERYWHERE.optional("password", TEXT, secret=True)
    """Password, which Spark redacts."""
    password_file: str | None = EVERYWHERE.optional("passwordFile", PASSWORD_FILE)
    """File with the password, read again before every CONNECT. See [Passwords](security.md#passwords)."""
    virtual_host: str = EVERYWHERE.option("virtualHost", NAME, "/")
    """The `host` header of CONNECT."""
    accept_versions: tuple[str, ...] = EVERYWHERE.option(
        "acceptVersions", choices("1.2", "1.1", "1.0", "lenient"), "1.2,1.1,1.0"
    )
    """STOMP versions to offer; `lenient` also accepts brokers that break the rules."""
    heartbeat: tuple[int, int] = EVERYWHERE.option("heartbeat", heartbeat_pair, "10s,10s")
    """Heart-beats to offer and to ask for. Without the broker's, its end is noticed within two minutes."""
    connect_timeout: float = EVERYWHERE.option("connectTimeout", TIMEOUT, "10s")
    """Limit for the connection, TLS and CONNECTED, per address of `url`."""
    connect_headers: HeaderPairs = EVERYWHERE.option("connectHeaders", HEADERS, "{}")
    """More headers of CONNECT. Spark shows them in plans: no secrets."""
    secret_connect_headers: HeaderPairs = EVERYWHERE.option(
        "secretConnectHeaders", HEADERS, "{}", secret=True
    )
    """More headers of CONNECT, which Spark redacts."""
    client_id: str | None = EVERYWHERE.optional("clientId", NAME)
    """The `client-id` header of CONNECT, for durable subscriptions. The sink, which has none, sends none."""
    broker: str = EVERYWHERE.option("broker", choice("auto", *(dialect.name for dialect in DIALECTS)), "auto")
    """The kind of broker; `auto` takes it from CONNECTED's `server` header."""
    management_url: str | None = STREAMS_AND_WRITES.optional("managementUrl", HTTP_URL)
    """RabbitMQ's management, which is asked with the login [how much waits](operate.md#why)."""
    destination_type: Literal["queue", "topic"] | None = EVERYWHERE.optional(
        "destinationType", choice("queue", "topic"), note="not known"
    )
    """What a destination is if its name does not say it, as on Artemis without a prefix."""
    tls: TlsOptions = group(TlsOptions)
    max_frame_bytes: int = EVERYWHERE.option("maxFrameBytes", SIZE, "256m")
    """Largest frame to receive or to send."""
    max_body_bytes: int | None = EVERYWHERE.optional(
        "maxBodyBytes", SIZE, note="`128m`, or `maxFrameBytes` if that is less"
    )
    """Largest body."""
    max_header_line_bytes: int = EVERYWHERE.option("maxHeaderLineBytes", SIZE, "64k")
    """Longest header line."""
    max_headers: int = EVERYWHERE.option("maxHeaders", integer(1), "1000")
    """Most headers of a frame."""
    log_level: str = EVERYWHERE.option("logLevel", choice("debug", "info", "warning", "error"), "warning")
    """Lowest level of [log lines](operate.md#log-lines)."""

    def dialect(self, server: str | None) -> Dialect:
        """The dialect of the broker, by CONNECTED's ``server`` header unless ``broker`` names it."""
        return dialect_for(server, self.broker, self.destination_type)

    @property
    def limits(self) -> Limits:
        """What the protocol accepts. Without ``maxBodyBytes``, ``maxFrameBytes`` bounds a body too."""
        body = self.max_body_bytes
        return Limits(
            max_header_line=self.max_header_line_bytes,
            max_headers=self.max_headers,
            max_body=min(Limits().max_body, self.max_frame_bytes) if body is None else body,
            max_frame=self.max_frame_bytes,
        )
