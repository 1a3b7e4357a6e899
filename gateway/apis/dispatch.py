"""From a request's header to the bytes of its answer, for every API that is not written by hand."""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from gateway.apis.audited import AUDITED, begun
from gateway.apis.homes import home_of
from gateway.apis.metadata import shows_queues
from gateway.apis.registry import APIS, Context, Handler
from gateway.promise import Promise
from gateway.wire import codec
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from gateway.wire.malformed import Malformed
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.client_bounds import ClientBounds

Question = tuple[int, str, bool, bytes]
"""Of Metadata: version, listener, whether queue topics show, the request's bytes."""

LOGINS = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""Who logs in again is not held back from it, as in Kafka, and how often it may do so is bounded. What is out of place
of these counts as any other request."""

_SIZE = struct.Struct(">i")
_CACHED = 256
"""Metadata answers that are kept: clients of one kind ask the same bytes again and again."""
_CACHED_BYTES = 16 * 1024 * 1024
"""And how much they, and their questions, may take."""


def dispatch(broker: Broker, context: Context, frame: bytes, position: int) -> Pending[bytes]:
    """The whole answer frame, or an awaitable of it. `frame` is the request without its length.

    Raises Malformed for bytes that do not follow their schema, and for APIs and versions that are not served (the
    connection is then closed, as Kafka does), save ApiVersions, which tells what is served.
    """
    key, version = context.api_key, context.api_version
    api = APIS.get(key)
    if api is None or api.handler is None or not api.min_version <= version <= api.max_version:
        # Produce comes here only in the versions 0 to 2, which are advertised and not served.
        if key == ApiKey.API_VERSIONS:
            return _unsupported_api_versions(broker, context)
        raise Malformed(f"API {key} version {version} is not served")
    peer = context.peer
    quotas = peer.quotas
    if quotas is not None:
        context.began = began = quotas.begin()
    elif key == ApiKey.METADATA and not peer.prefix and not peer.rights.checked:
        # what is kept is told to everybody who may have everything
        return _metadata(broker, api.handler, context, frame, position)
    request = _request(broker, context, frame, position)
    if key in AUDITED or peer.rights.checked:
        context.told = begun(broker, context, request)
    answer = api.handler(broker, context, request)
    if quotas is not None and isinstance(answer, (Promise, Awaitable)):
        # what it waits for is no work
        quotas.worked(began)
        context.began = None
    if type(answer) is Promise:
        return _promised(context, answer)
    if isinstance(answer, Awaitable):
        return _encode_later(context, answer)
    return encode(context, answer)


def _request(broker: Broker, context: Context, frame: bytes, position: int) -> Any:
    """A request in the catalog's words. What its client is told will be put into its own."""
    request = codec.decode_request(context.api_key, context.api_version, frame, position)
    context.home = home_of(broker, context.peer)
    if context.home is not None:
        context.home.inward(context.api_key, request)
    return request


def _promised(context: Context, answer: Promise[Any]) -> Promise[bytes]:
    """What a commit brings, nearly always: encoded in the call that brings it, without a task."""
    frame = Promise[bytes]()

    def told(message: Pending[Any]) -> None:
        found: Pending[bytes]
        try:
            if isinstance(message, Awaitable):
                found = _encode_later(context, message)
            else:
                found = encode(context, message)
        except Exception as error:
            # whoever brings it has others to tell, and who waits for it must hear of it
            found = _raise(error)
        frame.tell(found)

    answer.then(told)
    return frame


async def _raise(error: Exception) -> bytes:
    raise error


def encode(context: Context, message: Any) -> bytes:
    """The answer with its header and length."""
    key, version = context.api_key, context.api_version
    if context.peer.quotas is not None and (key not in LOGINS or message.error_code):
        _charge(context.peer.quotas, context, message)
    if context.told is not None:
        context.told(message)
    if context.home is not None:
        context.home.outward(key, message)
    header = codec.encode_response_header(key, version, context.correlation_id)
    body = codec.encode_response(key, version, message)
    return _SIZE.pack(len(header) + len(body)) + header + body


def _charge(quotas: ClientBounds, context: Context, message: Any) -> None:
    """The work counts, and the answer says for how long its client should wait."""
    if context.began is not None:
        quotas.worked(context.began)
    wait = quotas.after_request(mutated=context.mutated)
    if wait and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = wait


async def _encode_later(context: Context, answer: Awaitable[Any]) -> bytes:
    return encode(context, await answer)


def _metadata(
    broker: Broker, handler: Handler, context: Context, frame: bytes, position: int
) -> Pending[bytes]:
    """Metadata, kept by the bytes of the question: the same answer holds until the catalog or the placement changes.
    For clients who all see the same: at home in public/default, where nobody asks for rights.
    """
    version = context.api_version
    if broker.metadata_placement != broker.placement.version:
        broker.metadata_cache.clear()
        broker.metadata_placement = broker.placement.version
    question = (version, context.peer.listener, shows_queues(context.peer), frame[position:])
    body = broker.metadata_cache.get(question)
    if body is None:
        answer = handler(broker, context, _request(broker, context, frame, position))
        if isinstance(answer, Awaitable):
            return _encode_later(context, answer)
        if context.home is not None:
            context.home.outward(ApiKey.METADATA, answer)
        body = codec.encode_response(ApiKey.METADATA, version, answer)
        if all(topic.error_code == 0 for topic in answer.topics):
            _keep(broker.metadata_cache, question, body)
    header = codec.encode_response_header(ApiKey.METADATA, version, context.correlation_id)
    return _SIZE.pack(len(header) + len(body)) + header + body


def _keep(cache: dict[Question, bytes], question: Question, answer: bytes) -> None:
    size = len(question[3]) + len(answer)
    if (
        len(cache) >= _CACHED
        or sum(len(key[3]) + len(kept) for key, kept in cache.items()) + size > _CACHED_BYTES
    ):
        cache.clear()
    if size <= _CACHED_BYTES:
        cache[question] = answer


def _unsupported_api_versions(broker: Broker, context: Context) -> bytes:
    """A version 0 body with error 35 that lists what is served, whatever version was asked (KIP-511)."""
    handler = APIS[ApiKey.API_VERSIONS].handler
    assert handler is not None
    quotas = context.peer.quotas
    began = quotas.begin() if quotas is not None else 0
    message: Any = handler(broker, context, None)
    if quotas is not None:
        # version 0 has no field that would tell how long the client waits
        quotas.worked(began)
        quotas.after_request()
    message.error_code = Error.UNSUPPORTED_VERSION
    header = codec.encode_response_header(ApiKey.API_VERSIONS, 0, context.correlation_id)
    body = codec.encode_response(ApiKey.API_VERSIONS, 0, message)
    return _SIZE.pack(len(header) + len(body)) + header + body
