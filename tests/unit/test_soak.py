"""What `make soak` says at its end, and which of its tests share a process."""

from __future__ import annotations

import pytest
from support.groups import group_of
from support.soak import outcomes


def report(test: str, outcome: str, when: str = "call", duration: float = 0.0) -> pytest.TestReport:
    return pytest.TestReport(test, ("", 0, ""), {}, outcome, None, when, duration=duration)  # type: ignore[arg-type]


def test_each_file_has_a_line_with_all_that_took_time() -> None:
    stats = {
        "": [report("b.py::one", "passed", "setup", 30.4), report("b.py::one", "passed", "teardown", 30.4)],
        "passed": [report("b.py::one", "passed", duration=60.4), report("a.py::one[x::y]", "passed")],
        "failed": [report("a.py::two", "failed")],
        "skipped": [report("b.py::two", "skipped", "setup"), report("c.py::one", "skipped", "setup")],
        "error": [report("d.py::one", "failed", "setup")],
        "deselected": ["c.py::two"],
    }
    assert outcomes(stats) == [
        "FAILED  a.py: 1 failed, 1 passed; 0 min 0 s",
        "passed  b.py: 1 passed, 1 skipped; 2 min 1 s",
        "skipped c.py: 1 skipped; 0 min 0 s",
        "FAILED  d.py: 1 error; 0 min 0 s",
    ]


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("faults/test_chaos.py::test_every_message_arrives[activemq-journal]", "ActiveMQ and Artemis"),
        ("interop/test_broker_crash.py::test_a_queue[artemis]", "ActiveMQ and Artemis"),
        ("cluster/test_sink_tasks.py::test_an_executor_dies[artemis]", "ActiveMQ and Artemis"),
        ("faults/test_sink_kills.py::test_a_task[rabbitmq]", "RabbitMQ"),
        ("faults/test_matrix.py::test_a_sample_on_a_real_broker[reader killed-rabbitmq]", "RabbitMQ"),
        ("faults/test_matrix.py::test_ids_make_rabbitmq_exactly_once[broker lost, journal]", "RabbitMQ"),
        ("tests/faults/test_sigkill_loop.py::test_no_id_is_missing[rabbitmq-plain]", "RabbitMQ"),
        ("faults/test_matrix.py::test_all[reader killed, in the task, plain]", "the fault matrix"),
        ("faults/test_contract_rules.py::test_one[4.3 rabbitmq]", "broken rules"),
        ("property/test_codec.py::TestRoundTrip::test_one", "the property tests"),
        ("property/test_journal.py::TestQuery::runTest", "the property tests"),
    ],
)
def test_tests_that_share_a_broker_share_a_process(test: str, group: str) -> None:
    assert group_of(test) == group
