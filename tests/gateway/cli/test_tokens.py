"""`magnetar tokens`: what is made is what a gateway takes."""

from __future__ import annotations

import base64
import stat
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.auth import signing, token_keys
from gateway.cli.main import main
from gateway.cli.tokens import seconds
from tests.gateway.auth.jwt_making import SECRET, token

KEY = base64.b64encode(SECRET).decode()


def tokens(*args: str, stdin: str = "", env: dict[str, str] | None = None) -> Result:
    runner = CliRunner(env={"MAGNETAR_CONFIG": None, "MAGNETAR_TOKEN_SECRET_KEY": None, **(env or {})})
    return runner.invoke(main, ["tokens", *args], prog_name="magnetar", input=stdin)


def test_a_token_by_a_secret_key(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    assert tokens("create-secret-key", "--output", str(file)).stdout == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    url = f"file://{file}"
    before = int(time.time())
    made = tokens("create", "--subject", "ada", "--expiry", "30d", "--home", "shop/eu", "--secret-key", url)
    text = made.stdout.strip()
    claims = token_keys.claims_of(text, token_keys.of_secret(file.read_bytes()))
    assert claims is not None
    assert (claims["sub"], claims["home"]) == ("ada", "shop/eu")
    assert 0 <= claims["iat"] - before < 60  # type: ignore[operator]
    assert claims["exp"] - claims["iat"] == 30 * 86_400  # type: ignore[operator]
    assert tokens("validate", text, "--secret-key", url).stdout == "User:ada, at home in shop/eu\n"
    shown = tokens("show", "-", stdin=f" {text}\n").stdout.splitlines()
    assert shown[0] == '{"alg": "HS256"}'
    assert '"sub": "ada"' in shown[1]


def test_the_key_of_the_settings_signs_where_no_other_is_named(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(f'token.secret.key = "{KEY}"\n')
    for more, env in ((("--config", str(file)), {}), ((), {"MAGNETAR_TOKEN_SECRET_KEY": KEY})):
        text = tokens("create", "-s", "ada", *more, env=env).stdout.strip()
        assert token_keys.claims_of(text, token_keys.of_secret(SECRET)) is not None


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES512"])
def test_a_token_by_a_pair_of_keys(algorithm: str, tmp_path: Path) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    pair = ("--output-private-key", str(private), "--output-public-key", str(public), "-a", algorithm)
    assert tokens("create-key-pair", *pair).exit_code == 0
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    made = tokens("create", "-s", "ada", "-pk", str(private), "-a", algorithm)
    assert tokens("validate", "-", "-pk", str(public), stdin=made.stdout).stdout == "User:ada\n"
    other = signing.new_pair(algorithm)[1]
    (tmp_path / "other.pem").write_bytes(other)
    refused = tokens("validate", "-", "-pk", f"file://{tmp_path}/other.pem", stdin=made.stdout)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "not signed with this key" in refused.stderr
    # a key that is there is not replaced
    assert "there already" in tokens("create-key-pair", *pair).stderr


def test_a_secret_key_is_printed_in_base64() -> None:
    raw = base64.b64decode(tokens("create-secret-key").stdout)
    assert len(raw) == 32
    assert len(base64.b64decode(tokens("create-secret-key", "-a", "HS512", "--base64").stdout)) == 64


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("create", "-s", "ada"), 2, "--secret-key or --private-key"),
        (("create", "-s", "ada", "-sk", KEY, "-pk", "x"), 2, "either"),
        (("create", "-s", "ada", "-sk", KEY, "-e", "soon"), 2, "is no time"),
        (("create", "-s", "ada", "-sk", KEY, "--home", "shop"), 2, "no tenant/namespace"),
        (("create", "-s", "a\nb", "-sk", KEY), 2, "no principal"),
        (("create", "-s", "*", "-sk", KEY), 2, "no principal"),
        (("create", "-s", "", "-sk", KEY), 2, "names nobody"),
        (
            ("create", "-s", "ada", "-sk", KEY, "-a", "RS256"),
            2,
            "RS256 signs with a private key: say --private-key",
        ),
        (
            ("create", "-s", "ada", "-pk", "x", "-a", "HS256"),
            2,
            "HS256 signs with a secret key: say --secret-key",
        ),
        (("create", "-s", "ada", "-sk", "c2VzYW1l"), 1, "32 bytes"),
        (("create", "-s", "ada", "-sk", "sesame!"), 1, "base64"),
        (("create", "-s", "ada", "-sk", KEY, "-a", "HS512"), 1, "too short"),
        (("create", "-s", "ada", "-pk", "/nowhere/key"), 1, "cannot be read"),
        (("create-secret-key", "-o", "/nowhere/key"), 1, "cannot be written"),
        (("show", "nonsense"), 1, "no token"),
        (("validate", "nonsense", "-sk", KEY), 1, "no token"),
        (("validate", "x"), 2, "either"),
        (("validate", token({"alg": "none"}, {"sub": "ada"}, None), "-sk", KEY), 1, "not signed"),
        (("validate", token({"alg": "HS256"}, {"sub": "ada", "exp": 1}, SECRET), "-sk", KEY), 1, "ended"),
    ],
)
def test_what_cannot_be(args: tuple[str, ...], code: int, words: str) -> None:
    result = tokens(*args)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert words in result.stderr
    assert not any(secret in result.stderr for secret in ("sesame", "c2VzYW1l", KEY))


@pytest.mark.parametrize(
    ("claim", "ago", "words"), [("exp", 5, "the token has ended"), ("nbf", -5, "does not hold yet")]
)
def test_a_token_that_only_the_difference_of_clocks_lets_in(claim: str, ago: int, words: str) -> None:
    text = token({"alg": "HS256"}, {"sub": "ada", claim: int(time.time()) - ago}, SECRET)
    # a minute is as long as a slow machine may take
    result = tokens("validate", text, "-sk", KEY, env={"MAGNETAR_SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS": "65"})
    assert (result.exit_code, result.stdout) == (0, "User:ada\n"), result.output
    assert words in result.stderr
    assert "a gateway takes it all the same, by 65 s before and after" in result.stderr
    strict = tokens("validate", text, "-sk", KEY, env={"MAGNETAR_SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS": "0"})
    assert (strict.exit_code, strict.stdout) == (1, "")


def test_a_path_without_its_scheme_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # as base64 this is a key
    name = "k" * 44
    (tmp_path / name).write_bytes(SECRET)
    monkeypatch.chdir(tmp_path)
    for said in (name, str(tmp_path / name)):
        result = tokens("create", "-s", "ada", "-sk", said)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"{said} is a file: write file://{tmp_path / name}" in result.stderr
    assert "A path has file:// before it" in tokens("create", "-s", "ada", "-sk", "/no/such.key").stderr


@pytest.mark.parametrize(
    ("text", "found"),
    [("10s", 10), ("10m", 600), ("12h", 43_200), ("3d", 259_200), ("2W", 1_209_600), ("10y", 315_360_000)],
)
def test_times_are_those_of_pulsar_s_tool(text: str, found: int) -> None:
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "10", "d", "-1d", "0d", "1.5h", "10mo", "٣d", "9" * 5000 + "d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Exception, match="is no time"):
        seconds(text)
