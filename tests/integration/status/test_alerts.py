"""Which alerts of ``conf/prometheus`` fire in each state of a query, by Prometheus' own ``promtool``."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.brokers import Unavailable
from support.brokers.cache import cached, debian_packages

ALERTS = Path(__file__).parents[3] / "conf" / "prometheus" / "alerts.yml"
SOURCE = 'query="NAME",file="f",source="1"'
OF = {
    "connected": SOURCE + ',receiver="r"',
    "oldest_unacked_timestamp_seconds": SOURCE + ',receiver="r"',
    "malformed_total": SOURCE + ',receiver="r"',
    "sink_blocked_seconds_total": 'query="NAME",file="f"',
    "sink_failed_timestamp_seconds": 'query="NAME",file="f"',
    "sink_confirmed_total": 'query="NAME",file="f"',
    "waiting": SOURCE + ',on="queue"',
    "waiting@": SOURCE + ',on="acks"',
    "waiting@@": SOURCE + ',on="withheld"',
}
# A query that runs: its metrics minute by minute, as promtool writes series.
RUNS = {
    "running": "1x60",
    "unfinished": "0x60",
    "failed": "0x60",
    "written_timestamp_seconds": "0+60x60",
    "connected": "1x60",
    "malformed_total": "0x60",
    "bodies_unfit_total": "0x60",
    "sink_blocked_seconds_total": "0x60",
    "batch_since_timestamp_seconds": "0+60x60",
    "oldest_unacked_timestamp_seconds": "0+60x60",
}
STOPS = "0+60x4 240x55"
ENDED = {
    "running": "1x4 0x55",
    **dict.fromkeys(("written_timestamp_seconds", "batch_since_timestamp_seconds"), STOPS),
    "oldest_unacked_timestamp_seconds": STOPS,
}
FAILED = ENDED | {"failed": "0x4 1x55", "connected": "1x4 0x55"}

# What differs of a state, and the alerts at minute 5, 10 and 50.
STATES: dict[str, tuple[Mapping[str, str], set[str], set[str], set[str]]] = {
    "runs": ({}, set(), set(), set()),
    "was stopped": (ENDED, set(), set(), set()),
    # At reconnectTimeout, five minutes by default, it fails.
    "broker away": (
        FAILED | {"running": "1x7 0x52", "connected": "1x2 0x57", "failed": "0x7 1x52"},
        {"StompBrokerAway"},
        {"StompQueryFailed"},
        {"StompQueryFailed"},
    ),
    "login refused": (FAILED, *[{"StompQueryFailed"}] * 3),
    "disk full": (
        FAILED | {"unfinished": "0x4 1x55"},
        *[{"StompQueryFailed", "StompQueryEndedWithinBatch"}] * 3,
    ),
    "stopped within a batch": (ENDED | {"unfinished": "0x4 1x55"}, *[{"StompQueryEndedWithinBatch"}] * 3),
    "killed": ({"written_timestamp_seconds": STOPS}, set(), {"StompQueryGone"}, {"StompQueryGone"}),
    "slow batch": (
        {"batch_since_timestamp_seconds": "0x60", "oldest_unacked_timestamp_seconds": "0x60"},
        set(),
        set(),
        {"StompBatchTakesLong", "StompNothingCommitted"},
    ),
    "wrong queue": ({"waiting": "1x60"}, set(), {"StompQueueMissing"}, {"StompQueueMissing"}),
    "broker without room": (
        {"waiting@": "1x60"},
        {"StompBrokerConfirmsNothing"},
        {"StompBrokerConfirmsNothing"},
        {"StompBrokerConfirmsNothing"},
    ),
    "messages that do not come": (
        {"waiting@@": "1x60"},
        set(),
        {"StompMessagesWithheld"},
        {"StompMessagesWithheld"},
    ),
    "malformed messages": ({"malformed_total": "0x3 9x60"}, *[{"StompMalformedMessages"}] * 2, set()),
    "bodies that do not fit": ({"bodies_unfit_total": "0x3 9x60"}, *[{"StompBodiesUnfit"}] * 2, set()),
    "sink that is blocked now": (
        {"batch_since_timestamp_seconds": "0x60", "sink_confirmed_total": "7x60"},
        set(),
        {"StompSinkStands"},
        {"StompSinkStands", "StompBatchTakesLong"},
    ),
    "blocked sink": ({"sink_blocked_seconds_total": "0+60x60"}, *[{"StompSinkBlocked"}] * 3),
    "failed sink": ({"sink_failed_timestamp_seconds": "60x60"}, *[{"StompSinkFailed"}] * 3),
    "always-on-stopped": (ENDED, set(), {"StompQueryNotRunning"}, {"StompQueryNotRunning"}),
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    def make(folder: Path) -> None:
        debian_packages("bookworm", "prometheus", re.compile("$"), folder)

    try:
        return cached("prometheus-bookworm", make) / "usr/bin/promtool"
    except Unavailable as error:
        pytest.skip(str(error))


def checked(promtool: Path, folder: Path, *tests: Mapping[str, Any]) -> str:
    """What promtool says of these unit tests of the rules; empty if they pass."""
    file = folder / "tests.yml"
    # JSON is YAML too.
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series(name: str, differs: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {
            "series": f"spark_stomp_{metric.rstrip('@')}{{{OF.get(metric, SOURCE)}}}".replace("NAME", name),
            "values": values,
        }
        for metric, values in (RUNS | differs).items()
    ]


def test_each_alert_fires_in_the_states_that_it_is_for_and_in_no_other(
    promtool: Path, tmp_path: Path
) -> None:
    tests = []
    for name, (differs, *firing) in STATES.items():
        asked = [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)
                ],
            }
            for minute, alerts in zip((5, 10, 50), firing, strict=True)
        ]
        tests.append({"interval": "1m", "input_series": series(name, differs), "promql_expr_test": asked})
    assert checked(promtool, tmp_path, *tests) == ""
    fired = set().union(*(alerts for _, *firing in STATES.values() for alerts in firing))
    assert fired == set(re.findall(r"alert: (\w+)", ALERTS.read_text()))


def test_a_query_that_is_gone_is_said_to_be_silent_for_as_long_as_it_is(
    promtool: Path, tmp_path: Path
) -> None:
    summary = (
        "killed: no sign of life for 6m 0s. Its process was killed, or its status is not exported any more."
    )
    alert = {
        "eval_time": "10m",
        "alertname": "StompQueryGone",
        "exp_alerts": [
            {
                "exp_labels": {"query": "killed", "file": "f", "source": "1"},
                "exp_annotations": {"summary": summary},
            }
        ],
    }
    test = {
        "interval": "1m",
        "input_series": series("killed", STATES["killed"][0]),
        "alert_rule_test": [alert],
    }
    assert checked(promtool, tmp_path, test) == ""
