"""Brokers that are set up so that they tell how much waits in their queues."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from support.brokers.artemis import Artemis
from support.brokers.base import Broker, free_ports
from support.brokers.rabbitmq import RabbitMQ
from support.waiting import wait_until

_SEND = '<permission type="send" roles="amq"/>'


class ManagedArtemis(Artemis):
    """Its users may ask its management."""

    def _create(self) -> None:
        super()._create()
        configuration = self._instance / "etc/broker.xml"
        text = configuration.read_text()
        configuration.write_text(text.replace(_SEND, _SEND + _SEND.replace("send", "manage")))


class ManagedRabbitMQ(RabbitMQ):
    """With the management's plugin, at ``http_port``."""

    def _configure(self) -> None:
        super()._configure()
        (self.http_port,) = free_ports(1)
        plugins = self.folder / "etc/enabled_plugins"
        plugins.write_text(plugins.read_text().replace("]", ",rabbitmq_management]"))
        (self.folder / "etc/conf.d/zz-management.conf").write_text(
            f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.http_port}\n"
            "collect_statistics_interval = 500\n"
        )

    def options(self, **options: Any) -> dict[str, str]:
        return super().options(managementUrl=f"http://127.0.0.1:{self.http_port}", **options)

    def delete_connections(self) -> None:
        """Close those of STOMP, as the page of the management does, once it has one."""

        def known() -> list[str]:
            connections = json.loads(self._http("connections"))
            return [one["name"] for one in connections if "STOMP" in str(one.get("protocol"))]

        wait_until(known, what="the connections of the management")
        for name in known():
            self._http(f"connections/{quote(name, safe='')}", "DELETE")

    def _http(self, path: str, method: str = "GET") -> bytes:
        login = base64.b64encode(f"{self.login}:{self.password}".encode()).decode()
        url, headers = f"http://127.0.0.1:{self.http_port}/api/{path}", {"Authorization": f"Basic {login}"}
        with urlopen(Request(url, headers=headers, method=method), timeout=10) as answer:
            content: bytes = answer.read()
        return content


TELLING: dict[str, type[Broker]] = {"rabbitmq": ManagedRabbitMQ, "artemis": ManagedArtemis}
"""ActiveMQ tells it as it is."""
