"""HTTP for `magnetar-admin`: http.client, because a tool that is started for one question must start fast."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urljoin, urlsplit

from gateway.cli.admin_messages import Message, read_messages
from gateway.cli.admin_misplaced import instead

if TYPE_CHECKING:
    from ssl import SSLContext

HOME = "persistent://public/default/"
"""What stands before the topics that Kafka clients call by their bare names."""

_REDIRECTS = 5
_NAMESPACE = re.compile(r"[^/]+/[^/]+\Z")
_TOPIC = re.compile(r"(?:(?P<domain>persistent|non-persistent)://)?(?P<rest>[^/]+(?:/[^/]+/[^/]+)?)\Z")

_IN_DEFAULT = re.compile(r".*/(?:non-)?persistent/public/default/(?P<name>[^/]+)")


class AdminError(Exception):
    """A call that failed. `status` is 0 when no gateway answered, or not like one."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class Misused(AdminError):
    """What was written on the command line cannot be: no gateway was asked for it."""


class Login(Protocol):
    """Who one is, and whom one trusts. Each raises AdminError for what cannot be."""

    def authorization(self) -> str | None:
        """The header of that name."""
        ...

    def context(self) -> SSLContext:
        """For https."""
        ...

    def hint(self, status: int, reason: str) -> str:
        """What to do about an answer with 401 or 403, which says `reason`."""
        ...


class Client:
    """One gateway's admin port. A connection is opened for each call: there is one call a run, rarely two."""

    def __init__(self, url: str, timeout: float = 60.0, login: Login | None = None) -> None:
        """Raises AdminError for what is no URL."""
        self._login = login
        self.url = url if "://" in url else f"http://{url}"
        self._timeout = timeout
        try:
            parts = urlsplit(self.url)
            printable = self.url.isascii() and self.url.isprintable() and " " not in self.url
            good = (
                printable and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            good = False
        if not good:
            raise Misused(f"{url!r} is no address of a gateway: write it like http://127.0.0.1:8080.")

    def get(self, path: str, **query: str | bool) -> Any:
        """The answer's JSON, or its text. Query parameters are in the names of the REST API."""
        return self.call("GET", path, None, query)

    def look_up(self, path: str) -> Any:
        """The same of what stands below `/lookup/v2/topic`."""
        return self.call("GET", path, None, {}, "/lookup/v2/topic/")

    def put(self, path: str, body: object = None, **query: str | bool) -> Any:
        return self.call("PUT", path, body, query)

    def post(self, path: str, body: object = None, **query: str | bool) -> Any:
        return self.call("POST", path, body, query)

    def delete(self, path: str, **query: str | bool) -> Any:
        return self.call("DELETE", path, None, query)

    def call(
        self, method: str, path: str, body: object, query: dict[str, str | bool], root: str = "/admin/v2/"
    ) -> Any:
        """The answer's JSON or text, or what a write says it did. Raises AdminError with the gateway's reason, or with
        one sentence when no gateway answers.
        """
        url = self.url.rstrip("/") + root + path
        if query:
            url += "?" + urlencode({key: _text(value) for key, value in query.items()})
        data = None if body is None and method in ("GET", "DELETE") else json.dumps(body).encode()
        status, answer, body_bytes = self._asked(method, url, data)
        text = body_bytes.decode("utf-8", "replace")
        if status == 204 or not text:
            return _result(answer) if method != "GET" else None
        if answer.get("Content-Type", "").startswith("application/json"):
            try:
                return json.loads(text)
            except ValueError:
                raise AdminError(f"{self.url} does not answer like a Magnetar gateway.") from None
        return text

    def message(self, path: str, **query: str | bool) -> Message:
        """One message: the payload and what its headers say. Raises AdminError."""
        return self.messages(path, **query)[0]

    def messages(self, path: str, **query: str | bool) -> list[Message]:
        """One message, or those of an entry in Pulsar's batch form. Raises AdminError."""
        url = self.url.rstrip("/") + "/admin/v2/" + path
        if query:
            url += "?" + urlencode({key: _text(value) for key, value in query.items()})
        _, headers, body = self._asked("GET", url, None)
        try:
            return read_messages(headers, body)
        except (ValueError, IndexError, KeyError):
            raise AdminError(f"{self.url} does not answer like a Magnetar gateway.") from None

    def _asked(self, method: str, url: str, data: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of an answer that is no refusal. Raises AdminError."""
        for _ in range(_REDIRECTS):
            status, headers, body = self._once(method, url, data)
            location = headers.get("Location", "")
            if status not in (307, 308) or not location:
                break
            # another node owns the topic: the same call, method and body, goes there
            url = urljoin(url, location)
        if status >= 300:
            reason = _reason(status, body.decode("utf-8", "replace"))
            hint = self._login.hint(status, reason) if self._login is not None else ""
            raise AdminError(reason + hint + _perhaps_elsewhere(url, status, reason), status)
        return status, headers, body

    def _once(self, method: str, url: str, data: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(url)
        connection = self._connection(parts)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": "application/json, text/plain", "User-Agent": "magnetar-admin"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        # nobody who listens in gets what was kept from him until a redirect
        told = parts.scheme == "https" or not self.url.startswith("https:")
        if self._login is not None and told and (said := self._login.authorization()) is not None:
            headers["Authorization"] = said
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            body = response.read()
        except TimeoutError:
            raise AdminError(
                f"{self.url} has not answered within {self._timeout:g} seconds. Is it a gateway's admin"
                " address? --request-timeout gives it longer."
            ) from None
        except (OSError, HTTPException) as error:
            if wrong := _of_tls(self.url, error):
                raise AdminError(wrong) from None
            why = (
                (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            )
            raise AdminError(
                f"No gateway answers at {self.url} ({why.lower()}). Start one with `magnetar serve` or"
                " `make run`, or name another with --admin-url or MAGNETAR_ADMIN_URL."
                + _perhaps_tls(parts, error)
            ) from None
        finally:
            connection.close()
        return response.status, dict(response.getheaders()), body

    def _connection(self, parts: SplitResult) -> HTTPConnection:
        if parts.scheme == "https":
            context = self._login.context() if self._login is not None else None
            return HTTPSConnection(parts.hostname or "", parts.port, timeout=self._timeout, context=context)
        return HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout)


def _perhaps_elsewhere(url: str, status: int, reason: str) -> str:
    """What to say where a topic of public/default is refused or not there, and one of another namespace may be meant:
    who is at home there calls it by its bare name over Kafka, and others by a dotted one.
    """
    parts = urlsplit(url)
    asked = _IN_DEFAULT.match(parts.path)
    if asked is not None:
        name = unquote(asked["name"])
    elif parts.path.endswith("/magnetar/kafka"):
        # as Kafka clients call it: a name with a dot may be one of another namespace
        name = parse_qs(parts.query).get("topic", [""])[0]
        if not name or "." in name:
            return ""
    else:
        return ""
    if status == 403:
        return f" Asked for was {name} of public/default: write a topic of another namespace tenant/namespace/{name}."
    if status != 404 or not reason.startswith("There is no topic"):
        return ""
    tenant, _, rest = name.partition(".")
    namespace, _, local = rest.partition(".")
    if not (tenant and namespace and local):
        return ""
    return f" Is it the one that Kafka clients call so? Write {tenant}/{namespace}/{local}."


def topic_path(name: str) -> str:
    """Where a topic is in the API: `persistent/public/default/orders` for `orders`. Raises AdminError."""
    match = _TOPIC.match(name)
    if _NAMESPACE.match(name):
        raise Misused(
            f"{name!r} is a namespace, and a topic is asked for, such as {name}/orders."
            + instead("namespaces", name)
        )
    if match is None or (match["domain"] and match["rest"].count("/") != 2):
        raise Misused(f"{name!r} is no topic: write orders, or persistent://tenant/namespace/orders.")
    parts = match["rest"].split("/")
    if len(parts) == 1:
        parts = ["public", "default", *parts]
    return "/".join([match["domain"] or "persistent", *[quote(part, safe="") for part in parts]])


def kafka_name(name: str) -> str:
    """What Kafka clients call a topic: `orders`, or `shop.eu.orders`. Raises AdminError."""
    _, tenant, namespace, local = topic_path(name).split("/")
    local = unquote(local)
    return local if (tenant, namespace) == ("public", "default") else f"{tenant}.{namespace}.{local}"


def namespace_path(name: str) -> str:
    """`tenant/namespace`, percent-encoded. Raises AdminError."""
    parts = name.split("/")
    topic = _TOPIC.match(name)
    if topic and topic["rest"].count("/") == 2:
        tenant, namespace, _ = topic["rest"].split("/")
        raise Misused(
            f"{name!r} is a topic, and a namespace is asked for, such as {tenant}/{namespace}."
            + instead("topics", name)
        )
    if len(parts) != 2 or not all(parts):
        raise Misused(f"{name!r} is no namespace: write tenant/namespace, for example public/default.")
    return "/".join([quote(part, safe="") for part in parts])


def tenant_path(name: str) -> str:
    """A tenant, percent-encoded. Raises AdminError."""
    if not name:
        raise Misused("A tenant's name cannot be empty.")
    if _NAMESPACE.match(name):
        raise Misused(f"{name!r} is a namespace, and a tenant is asked for, such as {name.split('/')[0]}.")
    return segment(name)


def pair(text: str, what: str, form: str = "name=value") -> tuple[str, str]:
    """The two halves of `name=value`, which somebody wrote as a `what`. Raises AdminError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Misused(f"{text!r} is no {what}: write it as {form}.")
    return name, value


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Properties, `name=value` each; the last of a name counts. Raises AdminError."""
    return dict(pair(text, "property", "KEY=VALUE") for text in texts)


def segment(text: str) -> str:
    """One part of a path, percent-encoded."""
    return quote(text, safe="")


def _result(headers: Mapping[str, str]) -> dict[str, Any]:
    """What a write says that it did; nothing from servers that do not say."""
    try:
        value = json.loads(headers.get("X-Magnetar-Result", "{}"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else "true" if value else "false"


def _of_tls(url: str, error: Exception) -> str:
    """What is wrong with TLS at an address, as a sentence; empty where something else is."""
    verification = getattr(error, "verify_message", "")
    if verification:
        return (
            f"The certificate that {url} shows is not to be trusted ({verification}). Name the CA that it comes from "
            "with --tls-ca, and the gateway by a name that stands in it."
        )
    if getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"{url} does not speak TLS: write http:// before its address."
    return ""


def _perhaps_tls(parts: SplitResult, error: Exception) -> str:
    """A port that speaks TLS ends a connection that does not, without a word."""
    if parts.scheme == "http" and isinstance(error, RemoteDisconnected):
        return " If it speaks TLS, write https:// before its address."
    return ""


def _reason(status: int, text: str) -> str:
    try:
        reason = json.loads(text)["reason"]
    except (ValueError, KeyError, TypeError):
        reason = text.strip()[:300]
    return (
        reason if isinstance(reason, str) and reason else f"The gateway answered with HTTP status {status}."
    )
