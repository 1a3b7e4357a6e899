"""Names and passwords for the first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.auth import users_file
from gateway.auth.credentials import UserError


def test_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "users"
    text = "\ufeff# for the first start\r\n\r\nada:sesame\r\n  # more\nbob: two words: and a colon \n\nädä:ß\u2028x"
    file.write_bytes(text.encode())
    file.chmod(0o600)
    users, warning = users_file.read(file)
    assert users == {"ada": "sesame", "bob": " two words: and a colon ", "ädä": "ß\u2028x"}
    assert warning is None
    for mode in (0o640, 0o604, 0o610):
        file.chmod(mode)
        assert "chmod 600" in str(users_file.read(file)[1])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"ada:sesame\nbob", "line 2: There is no colon"),
        (b"ada:", "line 1: A password cannot be empty"),
        (b"a,b:sesame", "line 1: The name of a user holds no comma"),
        (b":sesame", "line 1: A user has a name"),
        (b"ada:sesame\n\nada:other", "line 3: This user stands there twice"),
        (b"ada:ses\xff", "line 1: This is not UTF-8"),
        (b"# nobody\n", "names no user"),
        (b"", "names no user"),
        (bytes(users_file.LARGEST + 1), "more than"),
    ],
)
def test_a_file_that_is_not_taken(text: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_bytes(text)
    with pytest.raises(UserError, match=why) as refused:
        users_file.read(file)
    assert not any(secret in str(refused.value) for secret in ("ses", "other"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        users_file.read(tmp_path / "none")
