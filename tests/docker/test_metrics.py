"""Dashboards, alert rules and the compose file around them: each metric that they name is one that is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from compat.tools import PROMETHEUS_MODULE
from gateway.admin import disk, process
from gateway.admin.families import EVERY
from gateway.admin.hosts import check_host, own_names
from gateway.metrics_catalog import GatewayMetrics
from tests.docker.test_docker import DOCKER, ROOT, compose, settings_of

DASHBOARDS = sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
RULES = DOCKER / "prometheus" / "rules.yml"
COMPOSE = DOCKER / "compose.metrics.yaml"

each_dashboard = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)

_NO_NAME = {"and", "or", "unless", "offset", "bool", "by", "on", "without", "ignoring", "group_left"}


def exported() -> set[str]:
    """The names of all samples that a scrape may have, and Prometheus' own of a target."""
    metrics = GatewayMetrics()
    # a family with labels has a head when it has a child
    metrics.request_seconds.labels("Fetch")
    histograms = re.findall(r"^# TYPE (\S+) histogram", metrics.render().decode(), re.MULTILINE)
    metrics.watch_store(_not_asked)
    metrics.watch_opened(_not_asked)
    metrics.watch_memory(_not_asked)
    metrics.watch_tenants(_not_asked)
    metrics.watch_certificate(_not_asked)
    found = {"up", *metrics.names(), *EVERY, *disk.FAMILIES}
    found |= set(re.findall(r"^# TYPE (\S+)", "\n".join(process.lines("1", 0, 0)), re.MULTILINE))
    return found | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


def _not_asked() -> Any:
    raise AssertionError("nobody scrapes here")


def named(expression: str) -> set[str]:
    """The metrics that an expression of PromQL names."""
    for nothing in (
        r'"[^"]*"',
        r"\{[^}]*\}",
        r"\[[^\]]*\]",
        r"\b(?:by|on|without|ignoring|group_left)\s*\([^)]*\)",
    ):
        expression = re.sub(nothing, " ", expression)
    return {
        name
        for name in re.findall(r"(?<![\w.$])[a-zA-Z_:]\w*\b(?!\s*\()", expression)
        if name not in _NO_NAME
    }


def panels(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())["panels"]
    return found


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_names_are_found_in_expressions() -> None:
    assert named('sum by (a_label, le) (rate(b_total{c="d_total"}[5m])) / (e > 0.8) or vector(0)') == {
        "b_total",
        "e",
    }
    assert named('f offset 10m and on (g) label_replace(h, "i", "$1", "j", "(.+)") unless k') == {
        "f",
        "h",
        "k",
    }


@each_dashboard
def test_a_dashboard_names_what_the_gateway_exports(file: Path) -> None:
    known = exported()
    for panel in panels(file):
        for target in panel["targets"]:
            names = named(target["expr"])
            assert names, target
            assert names <= known, panel["title"]
    for variable in json.loads(file.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            expression = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
            assert expression is not None
            assert named(expression[1]) <= known


@each_dashboard
def test_panels_are_whole(file: Path) -> None:
    each = panels(file)
    assert len({panel["id"] for panel in each}) == len(each)
    assert len({panel["title"] for panel in each}) == len(each)
    data = json.loads(file.read_text())
    variables = {variable["name"] for variable in data["templating"]["list"]}
    for panel in each:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= variables
            # two gateways on one Prometheus are told apart
            assert "instance" in used


@each_dashboard
def test_no_panel_hides_another(file: Path) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels(file):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_each_dashboard_has_an_address_of_its_own() -> None:
    assert [file.stem for file in DASHBOARDS] == ["dead-letters", "gateway", "topics"]
    assert len({json.loads(file.read_text())["uid"] for file in DASHBOARDS}) == len(DASHBOARDS)


def test_an_alert_names_what_the_gateway_exports_and_says_what_it_means() -> None:
    known = exported()
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())
    for rule in alerts():
        names = named(rule["expr"])
        assert names, rule
        assert names <= known, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")


def test_each_alert_is_seen_to_fire_and_not_to_fire() -> None:
    cases = yaml.safe_load((RULES.parent / "rules.test.yml").read_text())
    assert cases["rule_files"] == [RULES.name]
    seen = {
        (test["alertname"], bool(test["exp_alerts"]))
        for case in cases["tests"]
        for test in case["alert_rule_test"]
    }
    assert seen == {(rule["alert"], fires) for rule in alerts() for fires in (True, False)}


def test_the_page_names_what_the_gateway_exports_and_every_alert() -> None:
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    known = exported()
    words = re.findall(r"`((?:magnetar|pulsar|kafka|process)_[a-z0-9_]+)(?:\{[^`]*\})?`", page)
    left_out = page.partition("### Names that are left out")[2].partition("\n## ")[0]
    missing = {word for word in words if word not in known}
    assert missing <= set(re.findall(r"\w+", left_out)), "it names metrics that are not there"
    assert {rule["alert"] for rule in alerts()} <= set(re.findall(r"`(Magnetar\w+)`", page))


# -- compose


def test_prometheus_scrapes_the_gateway_by_a_name_that_it_knows() -> None:
    services = compose(COMPOSE)["services"]
    settings = settings_of(services["gateway"]["command"])
    scraped = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    ((target,),) = [config["targets"] for config in job["static_configs"]]
    assert settings.admin is not None
    assert target == f"gateway:{settings.admin.port}"
    check_host(target, own_names(settings))
    # the rules are those of this job
    assert scraped["rule_files"] == [RULES.name]
    assert all(
        re.findall(r'job="([^"]*)"', rule["expr"]) in ([], [job["job_name"]], [job["job_name"]] * 2)
        for rule in alerts()
    )


def test_what_is_mounted_is_there() -> None:
    data = compose(COMPOSE)
    for service in data["services"].values():
        for volume in service["volumes"]:
            source, _, *mode = volume.split(":")
            if source.startswith("."):
                assert (COMPOSE.parent / source).is_dir()
                assert mode == ["ro"]
            else:
                assert source in data["volumes"]
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), "nothing asks for a password"
        for other in service.get("depends_on", {}):
            assert other in data["services"]


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    services = compose(COMPOSE)["services"]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    (source,) = yaml.safe_load((DOCKER / "grafana/provisioning/datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    assert services["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]
    (provider,) = yaml.safe_load((DOCKER / "grafana/provisioning/dashboards/magnetar.yaml").read_text())[
        "providers"
    ]
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(provider["options"]["path"])
    assert Path(home).name in [file.name for file in DASHBOARDS]
    config = next(word for word in services["prometheus"]["command"] if word.startswith("--config.file="))
    assert dict(volume.split(":")[:2] for volume in services["prometheus"]["volumes"])["./prometheus"] == str(
        Path(config.partition("=")[2]).parent
    )


def test_images_are_of_one_version_each_and_prometheus_of_that_which_the_tests_may_build() -> None:
    images = {name: service["image"] for name, service in compose(COMPOSE)["services"].items()}
    assert re.fullmatch(r"grafana/grafana:\d+\.\d+\.\d+", images["grafana"])
    major, minor = re.fullmatch(r"v0\.(\d)(\d\d)\.0", PROMETHEUS_MODULE[1]).groups()  # type: ignore[union-attr]
    assert images["prometheus"] == f"prom/prometheus:v{major}.{int(minor)}.0"
