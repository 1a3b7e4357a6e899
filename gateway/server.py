"""The gateway as a process: listeners, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway import apis, heap, open_files, reserve
from gateway.apis.homes import missing
from gateway.apis.registry import APIS
from gateway.auth.credentials import UserError
from gateway.auth.tokens import TokensError
from gateway.broker import kept_permissions
from gateway.broker.broker import Broker
from gateway.broker.clipping import clip
from gateway.broker.errors import KafkaError
from gateway.broker.first_users import make_first
from gateway.broker.housekeeping import jobs_of
from gateway.broker.jobs import Job, Jobs
from gateway.broker.rehoming import rehome
from gateway.broker.renaming import rename
from gateway.clock import SystemClock, implausible
from gateway.config.listeners import PROTOCOLS
from gateway.config.security import LISTENER, REFUSE
from gateway.errors import StartError
from gateway.listener import Listener
from gateway.metrics_catalog import GatewayMetrics
from gateway.peer import HOME
from gateway.sending import Senders
from gateway.version import VERSION
from gateway.wire import codec
from semantics.access.roles import KIND
from semantics.names import Namespace
from store.api import DiskFull, Durability, Family, Put, Store, StoreError
from store.steps import step
from store.transient import FIRST_TRANSIENT

if TYPE_CHECKING:
    from gateway.auth.context import Tls
    from gateway.config import Settings
    from gateway.config.listeners import Address

log = logging.getLogger("magnetar.server")

_CLUSTER_ID = b"cluster-id"
HANDED_OVER = 0.0002
"""Seconds after which the interpreter is handed over to a thread that asks for it, 5 ms by default. The store's writer
asks after each system call, while the loop is busy with what comes next: it wrote 10 to 20 % less of large batches."""
LOOK_MS = 3000
"""How often files of certificates are looked at."""

GC_THRESHOLD = 20_000, 20, 50
"""Who makes thousands of objects that stay for a while looks at them itself (`gateway/admin/slices.py`)."""


async def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then finish what is in flight. Raises StartError.

    `announce` gets the few lines that a person wants to see: version, listeners, data folder, admin address.
    """
    if (reason := implausible(SystemClock().wall_ms())) is not None:
        raise StartError(reason)
    heap.keep()
    sys.setswitchinterval(HANDED_OVER)
    open_files.raise_limit()
    if reason := open_files.too_few():
        raise StartError(reason)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        gateway = await start(settings, stack)
        announce(f"magnetar {VERSION}, node {gateway.broker.node_id}, cluster {gateway.broker.cluster_id}")
        for listener in gateway.listeners:
            told = listener.advertised
            also = "" if told == listener.address else f", clients are told {told}"
            home = "" if listener.namespace == HOME else f", for {listener.namespace}"
            speaks = "" if listener.protocol == listener.name else f", {listener.protocol}"
            speaks = "" if listener.protocol == PROTOCOLS[0] else speaks
            announce(f"listening on {listener.address} ({listener.name}{speaks}{home}{also})")
        where = "memory: gone when the gateway stops" if gateway.data is None else str(gateway.data)
        announce(f"data in {where}, durability {gateway.broker.durability}")
        if gateway.data is not None:
            announce(_SURVIVES[gateway.broker.durability])
        if gateway.admin_address is not None:
            scheme = "https" if settings.admin_tls else "http"
            announce(f"admin on {scheme}://{gateway.admin_address}")
            if settings.console != "off":
                announce(f"console on {scheme}://{gateway.admin_address}/ui/")
        for notice in gateway.broker.store.notices:
            log.warning(notice)
        # What is here stays. Requests make rows by the thousand that live for a millisecond and next to no cycles:
        # at Python's own threshold of 700 a tenth of the time goes into looking for those.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        await stop.wait()
        announce("stopping")


class Gateway:
    """A started gateway: what `start` made."""

    def __init__(self, broker: Broker, listeners: list[Listener], data: Path | None) -> None:
        self.broker = broker
        self.listeners = listeners
        self.data = data
        self.admin_address: str | None = None
        self.tls: Tls | None = None


def _bound(
    settings: Settings, stack: contextlib.AsyncExitStack
) -> tuple[list[socket.socket], socket.socket | None]:
    """The sockets of the listeners, and that of the admin server if it is on. Raises StartError."""
    sockets = []
    for wanted in settings.listeners:
        sock = bind(wanted.host, wanted.port)
        stack.callback(sock.close)
        sockets.append(sock)
    admin_socket = None
    if settings.admin is not None:
        admin_socket = bind_address(settings.admin)
        stack.callback(admin_socket.close)
    return sockets, admin_socket


async def start(settings: Settings, stack: contextlib.AsyncExitStack) -> Gateway:
    """Start everything; what must be undone at the end is pushed on `stack`. Raises StartError."""
    loop = asyncio.get_running_loop()
    tls = open_tls(settings, loop)
    # Ports first: the commonest reason not to start should not cost the recovery of a store.
    sockets, admin_socket = _bound(settings, stack)
    apis.load_all()
    store, data = await open_store(settings)
    stack.push_async_callback(store.close)
    try:
        await rename(store)
        await rehome(store, settings.homes)
        await kept_permissions.to_rows(store)
    except StoreError as error:
        raise StartError(f"The data folder cannot be written: {error}") from error
    from store import memory

    # every start has offsets of its own
    transient = memory.open_forgetting(
        epoch=store.leader_epoch(FIRST_TRANSIENT), max_bytes=settings.integer("non.persistent.max.bytes")
    )
    metrics = GatewayMetrics()
    try:
        broker = Broker(
            settings,
            store,
            SystemClock(),
            metrics,
            loop,
            cluster_id=await cluster_id(store),
            version=VERSION,
            data=data,
            transient=transient,
        )
    except TokensError as error:
        raise StartError(str(error)) from None
    except StoreError as error:
        raise StartError(f"The data folder cannot be read: {error}") from error
    metrics.watch_store(store.stats)
    jobs = []
    if tls is not None:
        metrics.watch_certificate(lambda: tls.ends_in(broker.clock.wall_ms()))
        jobs.append(Job("certificates", LOOK_MS, lambda: tls.look(broker.clock.wall_ms())))

    listeners: list[Listener] = []
    senders = Senders(loop)
    for setting, sock in zip(settings.listeners, sockets, strict=True):
        port = sock.getsockname()[1]
        broker.endpoints[setting.name] = (setting.advertised_host, setting.advertised_port or port)
        listeners.append(Listener(broker, setting, port, senders, tls))
    # What clients ask first should not wait for its codec to be made.
    codec.preload()
    # The rest is made when it is asked for, from memory: later there may be no file to be had (5 ms).
    codec.load_schemas(APIS)
    try:
        await broker.transactions.recover()
    except (StoreError, KafkaError) as error:
        raise StartError(f"Transactions cannot be read: {error}") from error
    if (users_file := settings.optional_text("users.file")) is not None:
        try:
            await make_first(broker.users, users_file)
        except UserError as error:
            raise StartError(f"users.file: {error}") from None
        except StoreError as error:
            raise StartError(f"The data folder cannot be written: {error}") from error
    gateway = Gateway(broker, listeners, data)
    gateway.tls = tls
    backlog = settings.integer("socket.listen.backlog.size")
    for listener, sock in zip(listeners, sockets, strict=True):
        await listener.start(sock, backlog)
        # also where the start fails behind this
        stack.callback(listener.accept_no_more)
    for setting in settings.listeners:
        if not broker.catalog.namespaces.exists(setting.namespace):
            log.warning(missing(setting.namespace), extra={"listener": setting.name})
    for line in warnings(broker):
        log.warning(line)
    housekeeping = Jobs(broker, [*jobs_of(broker, listeners), *jobs])
    housekeeping.start()
    broker.tokens.start()

    stopping = asyncio.Event()

    async def finish() -> None:
        stopping.set()
        await housekeeping.stop()
        await broker.compaction.stop()
        broker.subscriptions.stop()
        timeout = settings.integer("shutdown.timeout.ms") / 1000
        await asyncio.gather(*(listener.stop(timeout) for listener in listeners))
        senders.stop()
        broker.redrive.close()
        broker.watching.close()
        broker.audit_log.close()
        broker.subscriptions.close()
        broker.users.close()
        await broker.tokens.stop()
        broker.turn.end()

    stack.push_async_callback(finish)
    if admin_socket is not None:
        admin_socket.listen(128)
        gateway.admin_address = _shown(admin_socket)
        admin = asyncio.ensure_future(
            _start_admin(
                broker,
                admin_socket,
                lambda: not_ready(broker, stopping.is_set()),
                tls if settings.admin_tls else None,
            )
        )

        async def stop_admin() -> None:
            admin.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await (await admin).stop()

        stack.push_async_callback(stop_admin)
    return gateway


def warnings(broker: Broker) -> Iterator[str]:
    """What whoever starts the gateway should know of who may come in, and may do what."""
    settings = broker.settings
    yield from settings.exposed(settings.listeners)
    if settings.authorization and not settings.super_users:
        yield (
            "rights are asked for, and nobody is a super-user who could give some: set super.users, such as "
            "super.users=User:ada"
        )
    if unknown := _unknown_super_users(broker):
        yield (
            f"super.users names {', '.join(unknown)}, and there is no such user: magnetar-admin users create "
            f"{unknown[0].removeprefix(KIND)}, or magnetar users create while the gateway is stopped"
        )
    unbound = settings.text("tenancy.unbound")
    if unbound not in (LISTENER, REFUSE) and not broker.catalog.namespaces.exists(Namespace.parse(unbound)):
        yield (
            f"tenancy.unbound is {unbound}, and there is no such namespace: who is bound to none is refused. "
            f"magnetar-admin namespaces create {unbound}"
        )
    asks = any(each.sasl for each in settings.listeners)
    if asks and "OAUTHBEARER" in settings.strings("sasl.enabled.mechanisms") and not broker.tokens.any:
        yield (
            "OAUTHBEARER is enabled, and no key is known that signs tokens: set "
            "sasl.oauthbearer.jwks.endpoint.url, token.secret.key or token.public.key"
        )


def _unknown_super_users(broker: Broker) -> list[str]:
    """Those that nobody can log in as: who they are is said by passwords alone, and they have none."""
    settings = broker.settings
    mechanisms = settings.strings("sasl.enabled.mechanisms")
    passwords = any(each.sasl for each in settings.listeners) and any(
        each.startswith(("SCRAM", "PLAIN")) for each in mechanisms
    )
    others = broker.tokens.any or any(settings.client_auth(each) != "none" for each in settings.listeners)
    if not settings.authorization or not passwords or others:
        return []
    return [
        each for each in sorted(settings.super_users) if broker.users.get(each.removeprefix(KIND)) is None
    ]


def not_ready(broker: Broker, stopping: bool) -> str | None:
    """Why clients should rather not come here at present, for /health/ready; None when they may."""
    if stopping:
        return "The gateway stops."
    if broker.store.read_only:
        return broker.store.read_only
    if broker.failing:
        reason = broker.commit_watch.reason
        # clients that stay away because of this answer do not write: the next answer is from this one
        broker.probe()
        return f"Writes fail: {reason}"
    return None


def open_tls(settings: Settings, loop: asyncio.AbstractEventLoop) -> Tls | None:
    """Certificates and what is made of them, where something speaks TLS. Raises StartError."""
    if not any(each.tls for each in settings.listeners) and not (settings.admin and settings.admin_tls):
        return None
    # it brings `cryptography`, for which others need not wait
    from gateway.auth.context import Tls

    heap.warm()
    return Tls(settings, SystemClock().wall_ms(), loop.time())


async def _start_admin(
    broker: Broker, sock: socket.socket, not_ready: Callable[[], str | None], tls: Tls | None
) -> AdminStop:
    """Import the HTTP server, and its pages, beside the running gateway: it would double the time to start."""
    loop = asyncio.get_running_loop()
    module = await loop.run_in_executor(None, importlib.import_module, "gateway.admin.server")
    pages = None
    if broker.settings.console != "off":
        console = await loop.run_in_executor(None, importlib.import_module, "gateway.console.console")
        pages = console.open_console
    try:
        server: AdminStop = await module.start(broker, sock, not_ready=not_ready, tls=tls, pages=pages)
    except Exception:
        log.exception("the admin server did not start")
        raise
    return server


class AdminStop:
    """What is used of the admin server here."""

    def stop(self) -> Awaitable[None]:
        raise NotImplementedError


_SURVIVES = {
    Durability.OS: "what is acknowledged survives a crash of Magnetar, not a power cut (--durability fsync: both)",
    Durability.FSYNC: "what is acknowledged survives a crash of Magnetar and a power cut (--durability os: faster, a "
    "power cut may take the last seconds)",
}
"""What the setting means, for whoever starts the gateway."""


@step(after="start.opened")
async def open_store(settings: Settings) -> tuple[Store, Path | None]:
    """The store by `store.driver`. Raises StartError with what is wrong with the folder."""
    files = open_files.shares()
    options: dict[str, Any] = {
        "open_files": files.segments,
        "table_files": files.tables,
        "tail_cache_bytes": settings.integer("store.tail.cache.bytes"),
        # -1 follows the machine
        "page_cache_bytes": None if (kept := settings.integer("store.page.cache.bytes")) < 0 else kept,
    }
    try:
        if settings.text("store.driver") == "memory":
            from store import memory

            return memory.open(), None
        from store import rocksdb

        data = Path(settings.text("data")).absolute()
        try:
            store = await rocksdb.open(data, clip=clip, **options)
        except DiskFull as error:
            if not reserve.give_up(data):
                raise
            log.warning(
                "%s For this start the gateway gave up the %d MiB that it keeps aside for it: delete topics or free "
                "space otherwise before they are used up too.",
                error,
                reserve.SIZE >> 20,
            )
            store = await rocksdb.open(data, clip=clip, **options)
        else:
            if not store.read_only:
                # beside what is going on: nobody waits for it
                asyncio.get_running_loop().run_in_executor(None, reserve.keep, data)
        return store, data
    except StoreError as error:
        raise StartError(str(error)) from error


async def cluster_id(store: Store) -> bytes:
    """16 bytes that name this cluster for ever; made at the first start."""
    known = store.get(Family.META, _CLUSTER_ID)
    if known is None:
        known = uuid.uuid4().bytes
        try:
            await store.write([Put(Family.META, _CLUSTER_ID, known)], Durability.FSYNC)
        except StoreError as error:
            raise StartError(f"The data folder cannot be written: {error}") from error
    return known


def bind_address(address: Address) -> socket.socket:
    return bind(address.host, address.port)


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to a TCP port, not yet listening. Raises StartError with a sentence."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartError(
            f"{shown} is no address that this machine can listen on: {error.strerror}."
        ) from error
    # An empty host means every interface: IPv6 with IPv4 mapped into it where there is IPv6.
    infos.sort(key=lambda info: info[0] != socket.AF_INET6 if not host else info[0] != socket.AF_INET)
    problem: OSError | None = None
    for family, kind, protocol, _, address in infos:
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            problem = error
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
            sock.bind(address)
            sock.setblocking(False)
            return sock
        except OSError as error:
            sock.close()
            problem = error
    if problem is not None and problem.errno == errno.EADDRINUSE:
        raise StartError(
            f"{shown} is in use by another process: stop it, or choose another port with --listen or --admin "
            "(port 0 picks a free one)."
        )
    if problem is not None and problem.errno == errno.EACCES:
        raise StartError(f"This user may not listen on {shown}: choose a port above 1023.")
    raise StartError(
        f"{shown} cannot be listened on: {os.strerror(problem.errno or 0) if problem else 'no address found'}."
    )


def _shown(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
