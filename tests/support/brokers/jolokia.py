"""What a Java broker's own management beans say, through Jolokia's agent in its process."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from support.brokers.base import HOST
from support.brokers.cache import cached, maven_file

_ARTIFACT = "org.jolokia:jolokia-agent-jvm:2.6.0:jar:javaagent"


class Jolokia:
    """An agent on a port of loopback."""

    def __init__(self, port: int) -> None:
        self._url = f"http://{HOST}:{port}/jolokia/"
        self._port = port

    @property
    def java_option(self) -> str:
        """Makes Java start the agent with the broker."""
        (agent,) = cached("jolokia", lambda folder: maven_file(_ARTIFACT, folder)).glob("*.jar")
        return f"-javaagent:{agent}=host={HOST},port={self._port},discoveryEnabled=false"

    def read_all(self, beans: str, *attributes: str) -> list[dict[str, Any]]:
        """The attributes of a bean, or of each that matches a pattern; empty where there is none."""
        answer = self._ask({"type": "read", "mbean": beans, "attribute": list(attributes)})
        if answer["status"] == 404:
            return []
        assert answer["status"] == 200, answer
        value: dict[str, Any] = answer["value"]
        return list(value.values()) if "*" in beans else [value]

    def search(self, beans: str) -> list[str]:
        """The names of those that match a pattern."""
        names: list[str] = self._ask({"type": "search", "mbean": beans})["value"]
        return names

    def call(self, bean: str, operation: str, *arguments: Any) -> Any:
        """What an operation of a bean returns."""
        answer = self._ask({"type": "exec", "mbean": bean, "operation": operation, "arguments": arguments})
        assert answer["status"] == 200, answer
        return answer["value"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self._url, json.dumps(question).encode())
        with urllib.request.urlopen(request, timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
