from __future__ import annotations

from pathlib import Path

import pytest

from store.rocksdb.available import page_cache_bytes

GIB = 1 << 30


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 << 20} kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_half_of_what_is_available(tmp_path: Path) -> None:
    assert page_cache_bytes(machine(tmp_path, {})) == 4 * GIB


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "MemAvailable: many\n", "MemAvailable:\n"])
def test_a_system_that_does_not_tell(tmp_path: Path, text: str) -> None:
    assert page_cache_bytes(tmp_path) is None
    assert page_cache_bytes(machine(tmp_path, {"proc/meminfo": text})) is None


def v2(folder: str, limit: str, used: int, files: int) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/{folder}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{folder}memory.current": f"{used}\n",
        f"sys/fs/cgroup/{folder}memory.stat": f"anon 5\nfile {files}\ninactive_file {files - 100}\nactive_file 100\n",
    }


def test_the_limit_of_a_group_counts_and_its_own_pages_of_files_are_free(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/pod/gateway\n", **v2("pod/gateway/", str(2 * GIB), GIB, GIB // 2)}
    assert page_cache_bytes(machine(tmp_path, files)) == (2 * GIB - GIB + GIB // 2) // 2


def test_the_limit_of_a_group_above(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/gateway\n",
        **v2("pod/gateway/", "max", GIB, GIB // 2),
        **v2("pod/", str(GIB), GIB, GIB // 4),
    }
    assert page_cache_bytes(machine(tmp_path, files)) == GIB // 8


def test_a_container_that_sees_its_group_at_the_mount(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/../outside\n", **v2("", str(GIB), 0, 1000)}
    assert page_cache_bytes(machine(tmp_path, files)) == (GIB + 1000) // 2


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/docker/abc/memory"
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n",
        f"{group}.limit_in_bytes": str(GIB),
        f"{group}.usage_in_bytes": str(GIB),
        f"{group}.stat": f"total_inactive_file {GIB // 4}\ntotal_active_file {GIB // 4}\n",
    }
    assert page_cache_bytes(machine(tmp_path, files)) == GIB // 4
    (tmp_path / f"{group}.limit_in_bytes").write_text(str((1 << 63) - 4096))
    assert page_cache_bytes(tmp_path) == 4 * GIB
