"""The metric objects and the text they are scraped as."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.metrics import Metrics, escape, head, number, sample


def text(metrics: Metrics) -> str:
    return metrics.render().decode()


def test_a_scrape_of_each_kind_reads_as_the_format_says() -> None:
    metrics = Metrics()
    requests = metrics.counter("requests_total", "Requests answered.", ("api", "listener"))
    connections = metrics.gauge("connections", "Open now.")
    latency = metrics.histogram("latency_seconds", "How long.", (0.1, 0.5), ("api",))

    requests.labels("Fetch", "main").value += 2
    requests.labels("Produce", "main").inc()
    connections.labels().inc(3)
    connections.labels().dec()
    latency.labels("Fetch").observe(0.1)
    latency.labels("Fetch").observe(0.3)
    latency.labels("Fetch").observe(9.0)

    assert text(metrics) == (
        "# HELP requests_total Requests answered.\n"
        "# TYPE requests_total counter\n"
        'requests_total{api="Fetch",listener="main"} 2\n'
        'requests_total{api="Produce",listener="main"} 1\n'
        "# HELP connections Open now.\n"
        "# TYPE connections gauge\n"
        "connections 2\n"
        "# HELP latency_seconds How long.\n"
        "# TYPE latency_seconds histogram\n"
        'latency_seconds_bucket{api="Fetch",le="0.1"} 1\n'
        'latency_seconds_bucket{api="Fetch",le="0.5"} 2\n'
        'latency_seconds_bucket{api="Fetch",le="+Inf"} 3\n'
        'latency_seconds_sum{api="Fetch"} 9.4\n'
        'latency_seconds_count{api="Fetch"} 3\n'
    )


def test_without_labels_a_metric_is_zero_before_its_first_use_and_with_labels_it_is_absent() -> None:
    metrics = Metrics()
    metrics.counter("a_total", "A.")
    metrics.counter("b_total", "B.", ("x",))
    metrics.histogram("c", "C.", (1,))

    assert text(metrics) == (
        "# HELP a_total A.\n# TYPE a_total counter\na_total 0\n"
        '# HELP c C.\n# TYPE c histogram\nc_bucket{le="1"} 0\nc_bucket{le="+Inf"} 0\nc_sum 0.0\nc_count 0\n'
    )


def test_labels_hands_out_one_child_per_combination() -> None:
    family = Metrics().counter("a_total", "A.", ("x",))

    assert family.labels("1") is family.labels("1")
    assert family.labels("1") is not family.labels("2")
    with pytest.raises(ValueError, match="a_total has labels"):
        family.labels()


def test_a_removed_child_leaves_the_scrape() -> None:
    metrics = Metrics()
    family = metrics.gauge("a", "A.", ("x",))
    family.labels("1").set(5)
    family.remove("1")
    family.remove("never there")

    assert text(metrics) == "\n"


def test_collectors_run_at_the_scrape_and_may_set_gauges_or_write_lines() -> None:
    metrics = Metrics()
    depth = metrics.gauge("depth", "Depth.").labels()
    calls: list[int] = []

    def set_depth() -> None:
        calls.append(1)
        depth.set(len(calls))

    def lines() -> list[str]:
        return [head("size", "gauge", "Size."), sample("size", {"topic": 'a"b'}, 1.5), sample("size", {}, 2)]

    metrics.collect(set_depth)
    metrics.collect(lines)

    assert calls == []
    assert "depth 1\n" in text(metrics)
    assert text(metrics).endswith(
        'depth 2\n# HELP size Size.\n# TYPE size gauge\nsize{topic="a\\"b"} 1.5\nsize 2\n'
    )


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        Metrics().counter(name, "")
    with pytest.raises(ValueError):
        Metrics().counter("fine", "", (name,))


def test_a_name_is_defined_once() -> None:
    metrics = Metrics()
    metrics.counter("a_total", "")
    with pytest.raises(ValueError, match="twice"):
        metrics.gauge("a_total", "")


@pytest.mark.parametrize("bounds", [(), (2, 1), (1, 1), (1, float("inf"))])
def test_bucket_bounds_must_ascend(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError):
        Metrics().histogram("a", "", bounds)


def test_the_buckets_own_label_is_taken() -> None:
    with pytest.raises(ValueError):
        Metrics().histogram("a", "", (1,), ("le",))
    with pytest.raises(ValueError):
        Metrics().counter("a", "", ("__name__",))


@given(st.lists(st.floats(allow_nan=False), max_size=30))
def test_histogram_buckets_count_everything_up_to_their_bound(values: list[float]) -> None:
    bounds = (-1.0, 0.0, 0.5, 10.0)
    metrics = Metrics()
    histogram = metrics.histogram("h", "", bounds).labels()
    for value in values:
        histogram.observe(value)

    seen = {
        line.split('"')[1]: int(line.split(" ")[1])
        for line in text(metrics).splitlines()
        if line.startswith("h_bucket")
    }
    for bound in bounds:
        assert seen[str(bound)] == sum(value <= bound for value in values)
    assert seen["+Inf"] == histogram.count == len(values)


@given(st.text())
def test_a_label_value_stays_on_its_line_and_comes_back(value: str) -> None:
    escaped = escape(value)

    assert "\n" not in escaped
    unescaped, characters = "", iter(escaped)
    for character in characters:
        assert character != '"'
        if character == "\\":
            character = {"n": "\n", "\\": "\\", '"': '"'}[next(characters)]
        unescaped += character
    assert unescaped == value


def test_numbers_and_help_texts() -> None:
    assert [number(v) for v in (1, 10**18, 0.25, float("inf"), float("-inf"), float("nan"))] == [
        "1", "1000000000000000000", "0.25", "+Inf", "-Inf", "NaN",
    ]  # fmt: skip
    assert head("a", "gauge", "one\ntwo \\ three") == "# HELP a one\\ntwo \\\\ three\n# TYPE a gauge"
