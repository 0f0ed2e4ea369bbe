"""Brokers that are set up so that they tell how much waits in their queues."""

from __future__ import annotations

from typing import Any

from support.brokers.artemis import Artemis
from support.brokers.base import Broker, free_ports
from support.brokers.rabbitmq import RabbitMQ

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


TELLING: dict[str, type[Broker]] = {"rabbitmq": ManagedRabbitMQ, "artemis": ManagedArtemis}
"""ActiveMQ tells it as it is."""
