"""What servers and programs are told over TLS and logins, and the chapter of the page on it."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from joserfc import jwt
from joserfc.jwk import KeySet

from compat.harness import catalogue, secured, secured_page
from compat.harness.catalogue import Client
from compat.harness.report import render
from compat.harness.run import Outcome, Results
from compat.harness.secured_page import Both

KCAT = catalogue.clients()["c-kcat"]


def told(way: str, folder: Path) -> dict[str, str]:
    asks = secured.server(way, folder)
    asks.prepare()
    with secured.environment(way, asks) as environment:
        found: dict[str, str] = json.loads(environment[secured.VARIABLE])
    return found


def test_each_way_is_one_of_the_list() -> None:
    assert set(catalogue.ways()) == {*secured.MECHANISMS, "mtls"}
    known = {case for cases in catalogue.sections().values() for case in cases}
    assert set(catalogue.script()) <= known


@pytest.mark.parametrize(("way", "mechanism"), secured.MECHANISMS.items())
def test_a_program_is_told_its_login(way: str, mechanism: str, tmp_path: Path) -> None:
    found = told(way, tmp_path)
    assert (found["protocol"], found["mechanism"]) == ("SASL_SSL", mechanism)
    assert Path(found["ca"]).exists()
    asks = secured.server(way, tmp_path)
    assert asks.users == {found["user"]: found["password"]}
    assert mechanism in asks.magnetar()["sasl.enabled.mechanisms"].split(",")


def test_a_program_is_told_its_certificate_and_no_password(tmp_path: Path) -> None:
    found = told("mtls", tmp_path)
    assert found["protocol"] == "SSL"
    assert not {"mechanism", "user", "password"} & set(found)
    assert secured.server("mtls", tmp_path).client_auth == "required"
    assert b"PRIVATE KEY" in Path(found["key"]).read_bytes()
    assert b"BEGIN CERTIFICATE" in Path(found["certificate"]).read_bytes()


def test_the_stores_of_old_clients_hold_what_the_pem_files_hold(tmp_path: Path) -> None:
    found = told("mtls", tmp_path)
    password = found["store_password"].encode()
    trusted = pkcs12.load_pkcs12(Path(found["truststore"]).read_bytes(), password).additional_certs
    assert [each.certificate for each in trusted] == [
        x509.load_pem_x509_certificate(Path(found["ca"]).read_bytes())
    ]
    own = pkcs12.load_pkcs12(Path(found["keystore"]).read_bytes(), password)
    assert own.key is not None
    assert own.cert is not None
    assert own.cert.certificate == x509.load_pem_x509_certificates(Path(found["key"]).read_bytes())[0]


def test_the_token_is_of_the_issuer_whose_keys_the_server_reads(tmp_path: Path) -> None:
    asks = secured.server("oauthbearer", tmp_path)
    asks.prepare()
    with secured.environment("oauthbearer", asks) as environment:
        found = json.loads(environment[secured.VARIABLE])
        with urllib.request.urlopen(found["token_endpoint"], b"grant_type=client_credentials") as answer:
            served = json.load(answer)
    text = Path(found["token_file"]).read_text()
    assert served["access_token"] == text
    address = asks.magnetar()["sasl.oauthbearer.jwks.endpoint.url"]
    keys = KeySet.import_key_set(json.loads(Path(address.removeprefix("file://")).read_text()))
    claims = jwt.decode(text, keys, algorithms=["RS256"]).claims
    assert claims["sub"] == secured.USER
    assert claims["exp"] - claims["iat"] == served["expires_in"] == secured.LASTS
    assert "d" not in json.loads(Path(address.removeprefix("file://")).read_text())["keys"][0]


def test_a_client_that_cannot_log_in_so_is_left_out() -> None:
    def names(way: str) -> set[str]:
        return {client.name for client in secured.able(list(catalogue.clients().values()), way)}

    assert "c-kcat" in names("plain")
    assert "c-kcat" not in names("scram-256")
    assert "python-aiokafka" in names("scram-256") & names("oauthbearer") & names("mtls")
    without = replace(KCAT, cases=["acks"])
    assert secured.able([without], "plain") == []


def page(found: dict[str, Both]) -> str:
    return render(Results(), Results(), found)


def results(client: Client, **wrong: str) -> Results:
    found = Results()
    for case in set(catalogue.script()) & set(client.cases):
        found.add(Outcome(client.name, case, ok=case not in wrong, detail=wrong.get(case, "")))
    return found


def row(text: str) -> list[str]:
    chapter = text.split(f"## {secured_page.TITLE}")[1]
    (line,) = [line for line in chapter.splitlines() if line.startswith("| [c-kcat](")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_the_page_counts_what_passed() -> None:
    count = len(set(catalogue.script()) & set(KCAT.cases))
    found = page({"plain": Both(results(KCAT), results(KCAT))})
    assert row(found) == ["–", "–", f"✓ {count}", "–", "?", f"{count} of {count}"]
    assert f"**c-kcat** has no scram-256, scram-512: {KCAT.ways_lacked['scram-256']}." in found


def test_the_page_says_what_failed_and_whose_fault_it_is() -> None:
    count = len(set(catalogue.script()) & set(KCAT.cases))
    ours, kafka = results(KCAT, headers="no login"), results(KCAT)
    found = page({"plain": Both(ours, kafka)})
    assert row(found)[2] == f"{count - 1} of {count}"
    assert "- **c-kcat**, plain, headers: no login" in found
    there = page({"plain": Both(ours, results(KCAT, headers="no login there"))})
    assert "- **c-kcat**, plain, headers: no login there" in there
