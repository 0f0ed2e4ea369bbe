"""The alert rules and the dashboard in ``conf``: they parse, and name metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from spark_stomp.status.receivers import ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

CONF = Path(__file__).parents[3] / "conf"
ALERTS = CONF / "prometheus" / "alerts.yml"
BOARD = CONF / "grafana" / "spark_stomp.json"
PARTS = (QueryPart, TotalsPart, ReceiverPart, QueuePart, UnfitPart, JournalPart, SinkPart)
METRICS = {part.metric_of(one) for part in PARTS for one in part.figures() if one.metric_type}


@pytest.mark.parametrize("file", [ALERTS, BOARD], ids=lambda file: file.name)
def test_each_metric_exists(file: Path) -> None:
    named = set(re.findall(r"spark_stomp_\w+", file.read_text(encoding="utf-8")))
    assert len(named) >= 8
    assert named <= METRICS


def test_each_alert_says_which_query_it_is_about() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["expr"]
        assert "{{ $labels.query }}" in rule["annotations"]["summary"]


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in json.loads(BOARD.read_text())["panels"]]
    cells = [(one["x"] + x, one["y"] + y) for one in places for x in range(one["w"]) for y in range(one["h"])]
    assert len(set(cells)) == len(cells)
