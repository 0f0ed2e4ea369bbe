"""The notebook for Databricks runs with stand-ins for what is Databricks' own, and the bundle fits to it.

Nothing here proves anything about Databricks itself.
"""

from __future__ import annotations

import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job
from databricks_runtime import cells, run, volume
from support.connect import ConnectServer
from support.pages import ROOT
from support.waiting import wait_until

from spark_stomp import __version__
from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_status

NOTEBOOK = ROOT / "notebooks" / "05_databricks.py"
BUNDLE = ROOT / "conf" / "databricks" / "databricks.yml"
WHEEL = f"spark_stomp-{__version__}-py3-none-any.whl"
PASSWORD = secrets.token_urlsafe(12)
QUEUE = "/queue/orders"
PNG = b"\x89PNG"

Json = dict[str, Any]


class Runs:
    """Runs the notebook again and again, as a job does: each run is a Python of its own."""

    def __init__(self, server: ConnectServer, broker: DevBroker, folder: Path) -> None:
        self._server, self._broker = server, broker
        self.volume = folder / "volume"
        self._here = folder / "here"
        self._here.mkdir()

    def run(self, password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
        widgets = {"folder": str(self.volume), "catalog": "spark_catalog", "schema": "default"}
        done = run(
            NOTEBOOK,
            self._here,
            {**widgets, "url": self._broker.url},
            {"messaging": {"login": "notebook", "password": password}},
            self._server.client,
        )
        assert password not in done.stdout
        return done

    def shown(self) -> str:
        done = self.run()
        assert done.returncode == 0, done.stdout + self._server.log
        return done.stdout

    @property
    def pictures(self) -> list[bytes]:
        """All that the runs have left in their folder."""
        return [path.read_bytes() for path in sorted(self._here.iterdir())]


@pytest.fixture
def broker() -> Iterator[DevBroker]:
    with DevBroker(users={"notebook": PASSWORD}) as started:
        yield started


@pytest.fixture
def runs(broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    for key, value in volume(tmp_path / "volume").items():
        monkeypatch.setenv(key, value)
    for name in ("volume", "server"):
        (tmp_path / name).mkdir()
    with ConnectServer(tmp_path / "server") as server:
        yield Runs(server, broker, tmp_path)


def orders(*numbers: int) -> list[bytes]:
    return [b"order %d" % number for number in numbers]


def rows(shown: str) -> list[int]:
    """The numbers of the orders that the table has."""
    return sorted(int(number) for number in re.findall(r"\|order (\d+)", shown))


def status(shown: str) -> dict[str, str]:
    """The row of the view ``stomp_status``."""
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    keys, values = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[-2:])
    return dict(zip(keys, values, strict=True))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(420)
def test_the_notebook_goes_on_where_it_ended(runs: Runs, broker: DevBroker) -> None:
    broker.publish_many(QUEUE, orders(0, 1, 2, 3, 4))
    assert rows(runs.shown()) == [0, 1, 2, 3, 4]
    # A run that fails takes nothing, and shows why.
    broker.publish_many(QUEUE, orders(5, 6, 7))
    failed = runs.run("not " + PASSWORD)
    assert failed.returncode == 1
    assert "[STOMP_LOGIN_REFUSED]" in failed.stdout
    assert broker.queue(QUEUE).depth == 3
    shown = runs.shown()
    assert rows(shown) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert broker.queue(QUEUE).depth == 0
    # On a volume, the journal has the form for object stores.
    assert (runs.volume / "journals/orders/writers").is_dir()
    # All figures of the view are in the status file: none is null.
    figures = status(shown)
    assert "NULL" not in figures.values()
    assert (figures["query"], figures["rows"], figures["unacked"]) == ("orders", "3", "0")
    assert figures["journal_backlog"] == "0"
    checkpoint = runs.volume / "checkpoints/orders"
    wait_until(lambda: not read_status(checkpoint)["running"], 30, "the end of the source")
    assert [picture[:4] for picture in runs.pictures] == [PNG, PNG]


def bundle() -> Json:
    return dict(yaml.safe_load(BUNDLE.read_text(encoding="utf-8")))


def jobs() -> Json:
    return dict(bundle()["resources"]["jobs"])


each_job = pytest.mark.parametrize("job", jobs().values(), ids=jobs())


class TestTheSourceFormat:
    def test_it_begins_with_what_it_shows_and_needs(self) -> None:
        first = next(cells(NOTEBOOK))
        assert first.language == "md"
        assert all(word in first.text for word in ("It needs", "17.3 LTS", "not tried on Databricks"))

    def test_it_installs_the_wheel_of_this_release(self) -> None:
        assert re.findall(r"[^/\"]*\.whl", NOTEBOOK.read_text(encoding="utf-8")) == [WHEEL]

    def test_the_errors_that_it_names_are_documented(self) -> None:
        codes = re.findall(r"\[(STOMP_\w+)\]", NOTEBOOK.read_text(encoding="utf-8"))
        assert codes
        errors = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
        assert [code for code in codes if f"`{code}`" not in errors] == []


class TestTheBundle:
    @each_job
    def test_databricks_knows_all_its_fields_and_values(self, job: Json) -> None:
        assert Job.from_dict(job).name == job["name"]  # type: ignore[arg-type]

    @each_job
    def test_one_run_at_a_time_on_one_dedicated_machine(self, job: Json) -> None:
        assert job["max_concurrent_runs"] == 1
        (cluster,) = (one["new_cluster"] for one in job["job_clusters"])
        assert (cluster["num_workers"], cluster["data_security_mode"]) == (0, "SINGLE_USER")
        settings = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
        assert cluster["spark_conf"] == settings
        assert cluster["custom_tags"] == {"ResourceClass": "SingleNode"}

    def test_only_one_of_them_runs(self) -> None:
        schedule = jobs()["stomp_drain"]["schedule"]
        assert (schedule["pause_status"], schedule["quartz_cron_expression"]) == ("UNPAUSED", "0 0 * * * ?")
        assert jobs()["stomp_always_on"]["continuous"]["pause_status"] == "PAUSED"

    def test_a_failed_query_starts_again(self) -> None:
        assert jobs()["stomp_drain"]["tasks"][0]["max_retries"] == 3
        assert jobs()["stomp_always_on"]["continuous"]["task_retry_mode"] == "ON_FAILURE"

    @each_job
    def test_its_parameters_are_the_widgets_of_the_notebook(self, job: Json) -> None:
        widgets = re.findall(r'widgets\.\w+\("(\w+)", "', NOTEBOOK.read_text(encoding="utf-8"))
        given = [one["name"] for one in job["parameters"]]
        own = job["tasks"][0]["notebook_task"]["base_parameters"]
        assert sorted([*given, *own, "table"]) == sorted(widgets)
        assert f'"{own["mode"]}"' in NOTEBOOK.read_text(encoding="utf-8")

    @each_job
    def test_its_files_are_there_and_its_wheel_is_of_this_release(self, job: Json) -> None:
        task = job["tasks"][0]
        assert (BUNDLE.parent / task["notebook_task"]["notebook_path"]).resolve() == NOTEBOOK
        assert [Path(one["whl"]).name for one in task["libraries"]] == [WHEEL]
        assert (BUNDLE.parent / bundle()["artifacts"]["wheel"]["path"] / "pyproject.toml").is_file()
        wheel = next(one["default"] for one in job["parameters"] if one["name"] == "wheel")
        assert wheel == f"{bundle()['workspace']['artifact_path']}/.internal/{WHEEL}"

    def test_it_uses_the_variables_that_it_declares(self) -> None:
        used = set(re.findall(r"\$\{var\.(\w+)\}", BUNDLE.read_text(encoding="utf-8")))
        assert used == set(bundle()["variables"])
