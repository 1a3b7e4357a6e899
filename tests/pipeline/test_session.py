"""Which connector and which settings a job's Spark gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.session import SparkOptions, _local_settings


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAGNETAR_SPARK_JARS", raising=False)


def test_a_folder_of_jars(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "readme.txt"):
        (tmp_path / name).touch()

    assert (
        _local_settings(SparkOptions(jars=str(tmp_path)))["spark.jars"]
        == f"{tmp_path}/a.jar,{tmp_path}/b.jar"
    )


def test_a_folder_without_jars_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no jars in"):
        _local_settings(SparkOptions(jars=str(tmp_path)))


def test_a_list_of_jars_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_SPARK_JARS", "/x/a.jar, s3a://y/b.jar")

    settings = _local_settings(SparkOptions())

    assert settings["spark.jars"] == "/x/a.jar,s3a://y/b.jar"
    assert "spark.jars.packages" not in settings


def test_packages_as_asked_for() -> None:
    assert _local_settings(SparkOptions(packages="g:a:1"))["spark.jars.packages"] == "g:a:1"


def test_settings_of_the_user_win_and_only_a_local_driver_is_bound_to_loopback() -> None:
    local = _local_settings(SparkOptions(packages="g:a:1", conf={"spark.sql.shuffle.partitions": "3"}))
    cluster = _local_settings(SparkOptions(packages="g:a:1", master="spark://host:7077"))

    assert local["spark.sql.shuffle.partitions"] == "3"
    assert local["spark.driver.host"] == "127.0.0.1"
    assert cluster["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in cluster
