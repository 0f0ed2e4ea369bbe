"""conf/kubernetes: valid for Kubernetes, one with itself and with Spark, and its query runs as it is."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyarrow.dataset as ds
import pytest
import yaml
from pyspark.sql import SparkSession
from support.brokers.base import free_ports
from support.brokers.fixtures import BrokerPool
from support.driven import publish
from support.drivers import START
from support.pages import ROOT
from support.points import session_members
from support.processes import kill
from support.spark import REMOTE
from support.waiting import wait_until

import spark_stomp
from spark_stomp.options import parse_source_options

FOLDER = ROOT / "conf" / "kubernetes"
# The oldest and the newest that the checker knows.
RELEASES = ("1.25", kubernetes_validate.latest_version())
BODIES = [b"order %d" % number for number in range(100)]

Json = dict[str, Any]


@cache
def manifest() -> dict[str, Json]:
    """The objects by kind and name."""
    objects = yaml.safe_load_all((FOLDER / "stomp-query.yaml").read_text(encoding="utf-8"))
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}


def one(kind: str, name: str = "stomp-query") -> Json:
    return manifest()[f"{kind}/{name}"]


def program() -> str:
    return str(one("ConfigMap")["data"]["query.py"])


def option(key: str) -> str:
    """The value of an option in the program."""
    found = re.search(rf'\.option\("{key}", "(.*?)"\)', program())
    assert found, key
    return found[1]


def properties() -> dict[str, str]:
    lines = one("ConfigMap")["data"]["spark.properties"].splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def template() -> Json:
    return dict(yaml.safe_load(one("ConfigMap")["data"]["executor.yaml"]))


def driver() -> Json:
    return dict(one("StatefulSet")["spec"]["template"]["spec"])


def container() -> Json:
    return dict(driver()["containers"][0])


def mebibytes(text: str) -> int:
    """The size that Spark, Kubernetes or an option means, in MiB."""
    return int(text.rstrip("GgMmi")) * {"g": 1024, "m": 1}[text.rstrip("i")[-1].lower()]


def labels(role: str) -> dict[str, str]:
    """The labels of a role's pods. Spark sets that of its executors' role itself."""
    pod = one("StatefulSet")["spec"]["template"] if role == "driver" else template()
    return {"spark-role": "executor", **pod["metadata"]["labels"]}


def ports(peers: list[Json], key: str, role: str) -> set[int]:
    """The ports that rules of a network policy open to pods of this role."""
    found = set()
    for rule in peers:
        for peer in rule.get(key, ()):
            wanted = peer.get("podSelector", {}).get("matchLabels")
            if wanted is not None and wanted.items() <= labels(role).items():
                found |= {port["port"] for port in rule["ports"]}
    return found


class TestManifest:
    @pytest.mark.parametrize("release", RELEASES)
    def test_every_object_is_valid(self, release: str) -> None:
        for each in [*manifest().values(), template()]:
            kubernetes_validate.validate(each, release, strict=True)

    def test_all_name_the_same_ports(self) -> None:
        settings = properties()
        frames = int(option("frameServerPort"))
        named = {int(settings["spark.driver.port"]), int(settings["spark.driver.blockManager.port"]), frames}
        assert len(named) == 3
        assert {port["port"] for port in one("Service")["spec"]["ports"]} == named
        assert {port["containerPort"] for port in container()["ports"]} == named
        of_driver = one("NetworkPolicy", "stomp-query-driver")["spec"]
        of_executors = one("NetworkPolicy", "stomp-query-executors")["spec"]
        assert ports(of_driver["ingress"], "from", "executor") == named
        assert ports(of_driver["ingress"], "from", "driver") == set()
        assert ports(of_executors["egress"], "to", "driver") == named
        blocks = {int(settings["spark.blockManager.port"])}
        for role in ("driver", "executor"):
            assert ports(of_executors["ingress"], "from", role) == blocks
        for policy in (of_driver, of_executors):
            assert ports(policy["egress"], "to", "executor") == blocks

    def test_only_the_driver_may_talk_to_the_broker_and_to_kubernetes(self) -> None:
        options = parse_source_options({"url": option("url"), "destination": "/queue/a"})
        (endpoint,) = options.connection.endpoints
        opened = {
            role: {
                port["port"]
                for rule in one("NetworkPolicy", f"stomp-query-{role}")["spec"]["egress"]
                for port in rule["ports"]
            }
            for role in ("driver", "executors")
        }
        assert opened["driver"] >= {endpoint.port, 443, 6443, 53}
        assert not opened["executors"] & {endpoint.port, 443, 6443}

    @pytest.mark.parametrize("role", ["driver", "executor"])
    def test_selectors_find_their_pods(self, role: str) -> None:
        policy = one("NetworkPolicy", {"driver": "stomp-query-driver"}.get(role, "stomp-query-executors"))
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels(role).items()
        for kind, path in (("Service", ()), ("StatefulSet", ("matchLabels",))):
            selector = one(kind)["spec"]["selector"]
            for key in path:
                selector = selector[key]
            assert (selector.items() <= labels(role).items()) == (role == "driver")

    def test_executors_find_the_driver_and_belong_to_it(self) -> None:
        settings, spec = properties(), one("StatefulSet")["spec"]
        pod = f"{one('StatefulSet')['metadata']['name']}-0"
        assert spec["replicas"] == 1
        assert settings["spark.kubernetes.driver.pod.name"] == pod
        assert settings["spark.driver.host"] == f"{pod}.{spec['serviceName']}"
        assert spec["serviceName"] == one("Service")["metadata"]["name"]
        assert one("Service")["spec"]["clusterIP"] == "None"
        assert one("RoleBinding")["subjects"][0]["name"] == driver()["serviceAccountName"] == "stomp-query"

    def test_memory_beyond_the_heap(self) -> None:
        limits, requests = container()["resources"]["limits"], container()["resources"]["requests"]
        heap = mebibytes(properties()["spark.driver.memory"])
        held = mebibytes(option("maxBufferedBytes"))
        # The page says them: the least that Spark adds to a JVM's heap, and a reader with a journal.
        page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
        jvm, reader = (
            re.search(said, page)[1]  # type: ignore[index]
            for said in (r"(\d+)\s+MiB at\s+least\)", r"with a\s+journal\s+(\d+)\s+MiB")
        )
        assert mebibytes(limits["memory"]) >= heap + int(jvm) + held + int(reader)
        assert limits["memory"] == requests["memory"]
        comment = (FOLDER / "stomp-query.yaml").read_text(encoding="utf-8")
        assert f"{jvm} MiB for the rest of the JVM" in comment and f"and {reader} MiB;" in comment

    def test_every_file_that_is_named_is_mounted(self) -> None:
        mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
        claims = one("StatefulSet")["spec"]["volumeClaimTemplates"]
        volumes = {
            each["name"]: each for each in (*driver()["volumes"], *(one["metadata"] for one in claims))
        }
        assert set(mounts.values()) == set(volumes)
        keys = one("ConfigMap", volumes["program"]["configMap"]["name"])["data"]
        given = [argument for argument in container()["args"] if argument.startswith("/")]
        given.append(properties()["spark.kubernetes.executor.podTemplateFile"])
        assert {Path(path).name for path in given} == set(keys)
        assert {str(Path(path).parent) for path in given} == {"/etc/stomp-query"} <= set(mounts)
        for key, mount in (("passwordFile", "broker"), ("tlsCaFile", "broker"), ("journal", "journal")):
            assert mounts[str(Path(option(key)).parent)] == mount
        # Executors write the rows and may write state.
        (of_executors,) = template()["spec"]["containers"][0]["volumeMounts"]
        for key in ("checkpointLocation", "path"):
            assert option(key).startswith(f"{of_executors['mountPath']}/")
            assert mounts[of_executors["mountPath"]] == "shared"
        wanted = {"claimName": one("PersistentVolumeClaim", "stomp-query-shared")["metadata"]["name"]}
        assert template()["spec"]["volumes"][0]["persistentVolumeClaim"] == wanted
        assert volumes["shared"]["persistentVolumeClaim"] == wanted


class TestImage:
    DOCKERFILE = FOLDER / "Dockerfile"

    def test_it_copies_the_wheel_of_this_release(self) -> None:
        # The name that tests/test_packaging.py sees when it builds the wheel.
        wheel = f"dist/spark_stomp-{spark_stomp.__version__}-py3-none-any.whl"
        copied = re.findall(r"^COPY (\S+) ", self.DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(copied) == 1 and fnmatch.fnmatch(wheel, copied[0])

    def test_driver_and_executors_have_it(self) -> None:
        image = container()["image"]
        assert properties()["spark.kubernetes.container.image"] == image
        assert image.endswith(f":{spark_stomp.__version__}")
        assert f"-t {image} " in self.DOCKERFILE.read_text(encoding="utf-8")

    def test_its_user_is_that_of_the_pods(self) -> None:
        users = re.findall(r"^USER (\d+)$", self.DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
        for spec in (driver(), template()["spec"]):
            assert spec["securityContext"]["runAsUser"] == int(users[-1])

    def test_the_linter_finds_nothing(self) -> None:
        linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
        if linter is None:
            pytest.skip("hadolint has no wheel for this platform")
        result = subprocess.run([linter, self.DOCKERFILE], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.spark
@pytest.mark.skipif(REMOTE is not None, reason="Spark Connect has no JVM to ask")
def test_spark_knows_every_setting(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    for name in ("org.apache.spark.internal.config.package$", "org.apache.spark.deploy.k8s.Config$"):
        jvm.java.lang.Class.forName(name)
    find = jvm.org.apache.spark.internal.config.ConfigEntry.findEntry
    assert [key for key in properties() if find(key) is None] == []
    assert find("spark.kubernetes.no.such.setting") is None


@contextmanager
def submitted(folder: Path, replaced: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The query of the manifest under spark-submit, which becomes the JVM, as in the pod."""
    (folder / "spark.properties").write_text(one("ConfigMap")["data"]["spark.properties"], encoding="utf-8")
    text = program()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "query.py").write_text(text, encoding="utf-8")
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.port": "0", "spark.driver.blockManager.port": "0"}
    here |= {"spark.blockManager.port": "0", "spark.ui.enabled": "false"}
    settings = [part for key, value in here.items() for part in ("--conf", f"{key}={value}")]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]", *settings]
    given = ["--properties-file", folder / "spark.properties", folder / "query.py"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *given],
            env={**os.environ, "POD_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            kill(*session_members(process.pid))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.skipif(REMOTE is not None, reason="spark-submit has no server of Spark Connect")
def test_the_query_runs_ends_by_sigterm_and_goes_on(broker_pool: BrokerPool, tmp_path: Path) -> None:
    broker = broker_pool.get("devbroker")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "password").write_text("secret", encoding="utf-8")
    shutil.copy(broker.ca, secrets / "ca.pem")
    queue, (port,) = broker.new_queue(), free_ports(1)
    replaced = {
        option("url"): broker.tls_url,
        "/etc/stomp-broker": str(secrets),
        "/journal/": f"{tmp_path}/journal/",
        "/shared/": f"{tmp_path}/shared/",
        option("frameServerPort"): str(port),
        "/queue/orders": queue,
        "10 seconds": "1 second",
    }
    for part in (BODIES[:50], BODIES[50:]):
        publish(broker.options(), queue, part)
        with submitted(tmp_path, replaced) as process:
            wait_until(lambda: process.poll() is not None or broker.depth(queue) == 0, START, "the last ACK")
            assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")[-5000:]
            process.send_signal(signal.SIGTERM)
            process.wait(driver()["terminationGracePeriodSeconds"])
            wait_until(lambda: not session_members(process.pid), what="the end of all its processes")
    rows = ds.dataset(tmp_path / "shared" / "orders", format="parquet").to_table().to_pylist()
    assert sorted(row["body"].encode() for row in rows) == sorted(BODIES)
