"""Client of stint, the rate limiter and quota service that counts exactly. One file on the standard library, for Python 3.9+.

    limits = Stint(["http://127.0.0.1:7400"])
    decision = limits.check({"policy": "login", "key": "user:42"})
    if not decision.allowed:
        print(f"wait {decision.retry_after_seconds} s")

A denial is a Decision, never an error. An error is a StintError, never a denial. WSGILimit and ASGILimit are middlewares.
README.md is the manual.
"""

import asyncio
import base64
import contextlib
import datetime
import functools
import hashlib
import http.client
import inspect
import io
import ipaddress
import json
import math
import os
import random
import re
import select
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

__all__ = ["ASGILimit", "AsyncStint", "Decision", "LimitStatus", "Stint", "StintError", "UsagePage", "UsageRecord", "WSGILimit", "client_ip",
           "safe_key"]
__version__ = "0.2.0"

_PAUSE_LEAST = 0.010  # seconds
_PAUSE_MOST = 0.200
_ATTEMPT_LEAST = 0.250  # what one address is given at least before the next is asked
_REST_LEAST = 0.050  # less is left out: such an attempt could only make a certain failure unsure
_IDLE_MOST = 16  # connections kept for each address


class StintError(Exception):
    """Why there is no decision. It is never a denial.

    code: name of the RPC code, as in "unavailable". maybe_applied: the request was counted once or not at all; False: it was
    certainly not counted.
    """

    def __init__(self, code: str, message: str, maybe_applied: bool = False):
        super().__init__(f"stint: {code}: {message}")
        self.code = code
        self.message = message
        self.maybe_applied = maybe_applied

    @property
    def no_decision(self) -> bool:
        """The cluster could not decide: the case for a fail mode. False: the request will never be right, or its key has no room."""
        return self.code in _NO_DECISION and not self.no_room

    @property
    def no_room(self) -> bool:
        """The cluster refuses another key (max_keys, or a full shard). Whoever can make keys can cause it: let no request pass for it."""
        return "until old ones end" in self.message

    @property
    def unknown_key(self) -> bool:
        """The policy refuses keys without an override (unknown_key: deny), and this key has none."""
        return self.code == "not_found" and re.match(r"(check\.)?entries\[\d+\]\.key: ", self.message) is not None


_NO_DECISION = {"unavailable", "aborted", "deadline_exceeded", "canceled", "internal", "unknown", "data_loss", "resource_exhausted"}


@dataclass(frozen=True)
class LimitStatus:
    """State of one limit after a decision."""

    policy: str
    limit: str
    key: str
    quota: int
    used: int
    held: int
    remaining: int
    granted: int
    window_start: Optional[datetime.datetime]
    reset_at: Optional[datetime.datetime]
    retry_after: Optional[float]  # seconds
    allowed: bool
    shadow: bool
    unlimited: bool
    lockout_level: int
    blocked_until: Optional[datetime.datetime]
    soft: bool = False  # where it has no room, it asks for a challenge


@dataclass(frozen=True)
class Decision:
    """Allowed or denied, with the state of every limit."""

    allowed: bool
    decision_id: str  # handle for a refund; empty for a denial
    limits: List[LimitStatus]
    denied_by: List[str]
    reason: str  # safe to show
    retry_after: Optional[float]  # seconds; None: no wait helps
    decided_at: Optional[datetime.datetime]
    headers: Dict[str, str]  # to copy into a response
    hold_id: str
    hold_expires_at: Optional[datetime.datetime]
    replayed: bool  # counted before, under the same id, and not again
    shadow_denied: bool
    explanation: str
    challenge: bool = False  # not allowed, and only limits with on_exceeded: challenge say no: ask for a proof of a person
    leased: bool = False  # from a lease, as of its grant: used contains all of the lease, and there is no decision_id

    @property
    def retry_after_seconds(self) -> Optional[int]:
        """The wait in whole seconds, rounded up, 1 at least."""
        return None if self.retry_after is None else max(1, math.ceil(self.retry_after))


@dataclass(frozen=True)
class UsageRecord:
    """The bill of one key for one period. What is owed is units - credits + corrections."""

    id: str
    namespace: str
    policy: str
    meter: str
    key: str
    start: Optional[datetime.datetime]
    end: Optional[datetime.datetime]
    state: str  # open, closed or final
    units: int
    credits: int
    corrections: int
    revision: int
    recovered: bool
    time_zone: str


@dataclass(frozen=True)
class UsagePage:
    """A page of bills. Of the last page, next_page_token is empty; what is final by its complete_through is complete."""

    records: List[UsageRecord]
    next_page_token: str
    complete_through: Optional[datetime.datetime]
    unreadable: List[Tuple[str, str]]  # policies and keys whose bills their owner cannot read


Entries = Union[Dict[str, Any], Sequence[Dict[str, Any]]]
_NEW: Any = object()  # draw an idempotency id


class Stint:
    """Client of one cluster. All methods may be called by any number of threads. A program needs one."""

    def __init__(self, addresses: Sequence[str], token: str = "", timeout: float = 5.0, namespace: str = "",
                 context: Optional[ssl.SSLContext] = None):
        """addresses are base URLs of some nodes; the next one is asked when one does not answer. timeout: seconds for a call
        with all its attempts; finding the address of a host name is not bounded by it. context: for https://, in place of
        the system's authorities."""
        if isinstance(addresses, str) or not addresses:
            raise ValueError("stint: no address: give a list with the base URL of one node at least, as in http://127.0.0.1:7400")
        if not 0 < timeout < math.inf:
            raise ValueError("stint: timeout must be a number of seconds above 0")
        if re.search(r"[^\x21-\x7e]", token):
            raise ValueError("stint: the token is not one that stint gave out")
        self._nodes = [_Node(address, token != "", context) for address in addresses]
        self._token = token
        self._timeout = timeout
        self._namespace = namespace
        self._next = random.randrange(len(self._nodes))  # index of the node to ask: the last one that answered

    def close(self) -> None:
        """Closes idle connections. Calls under way end by themselves."""
        for node in self._nodes:
            node.close()

    def check(self, entries: Entries, *, mode: str = "", idempotency_id: Optional[str] = _NEW, explain: bool = False,
              timeout: Optional[float] = None, namespace: Optional[str] = None) -> Decision:
        """Decides and counts: all entries or none. An entry is {"policy", "key"}, perhaps with "cost", "tier" or "limits".
        mode: enforce, count, peek or partial. idempotency_id: by default a new one, so that a retry counts once; None: none, and
        a request that may have been counted is not repeated."""
        request = self._check(entries, mode, idempotency_id, explain, namespace)
        answer = self._call("LimitService/Check", request, request["idempotencyId"] != "", timeout)
        return _decision(answer.get("decision"))

    def reserve(self, entries: Entries, *, ttl: float = 60.0, on_expire: str = "", idempotency_id: Optional[str] = _NEW,
                timeout: Optional[float] = None, namespace: Optional[str] = None) -> Decision:
        """Takes units as a hold that settle ends. ttl: seconds. on_expire: cancel or commit; "": the policy's."""
        request: Dict[str, Any] = {"check": self._check(entries, "", idempotency_id, False, namespace), "ttl": _seconds(ttl)}
        if on_expire:
            request["onExpire"] = "ON_EXPIRE_" + on_expire.upper()
        answer = self._call("LimitService/Reserve", request, request["check"]["idempotencyId"] != "", timeout)
        return _decision(answer.get("decision"))

    def settle(self, target: Union[Decision, str], action: str, *, actual_cost: Optional[Sequence[int]] = None, overage: str = "",
               ttl: Optional[float] = None, timeout: Optional[float] = None) -> Decision:
        """Ends a hold (commit, cancel, success, failed), makes it live longer (extend, with ttl in seconds), or gives back what a
        decision took (cancel). target: the Decision, or the id of a hold. The same settlement sent again does nothing."""
        hold = target if isinstance(target, str) else target.hold_id
        request: Dict[str, Any] = {"holdId": hold} if hold else {"decisionId": getattr(target, "decision_id", "")}
        if not hold and not request["decisionId"]:
            raise StintError("invalid_argument", "target: has no hold and no decision: a denial has nothing to settle")
        if action not in ("commit", "cancel", "success", "failed", "extend"):
            raise StintError("invalid_argument", "action: must be commit, cancel, success, failed or extend")
        if action != "commit" and (actual_cost is not None or overage):
            raise StintError("invalid_argument", "action: actual_cost and overage belong to commit")
        request[action] = {}
        if actual_cost is not None:
            request["commit"]["actualCost"] = [str(cost) for cost in actual_cost]
        if overage:
            request["commit"]["overage"] = "OVERAGE_" + overage.upper()
        if action == "extend":
            if ttl is None:
                raise StintError("invalid_argument", "ttl: is missing")
            request["extend"]["ttl"] = _seconds(ttl)
            request["idempotencyId"] = str(uuid.uuid4())
        return _decision(self._call("LimitService/Settle", request, True, timeout).get("decision"))

    def get(self, entries: Entries, *, stale_ok: bool = False, timeout: Optional[float] = None,
            namespace: Optional[str] = None) -> List[LimitStatus]:
        """Returns the state of keys and changes nothing."""
        request = {"namespace": self._in(namespace), "entries": _entries(entries), "staleOk": stale_ok}
        return [_limit(limit) for limit in self._call("LimitService/Get", request, True, timeout).get("limits", [])]

    @contextlib.contextmanager
    def attempt(self, entries: Entries, *, done: str = "commit", raised: str = "cancel", **options: Any) -> Iterator[Decision]:
        """Takes units for a block of code, and settles them by its end: done if it ends, raised if it raises. For a login:
        done="success", raised="failed". The block looks at the decision first: a denied one has nothing to settle. options: those
        of reserve."""
        decision = self.reserve(entries, **options)
        try:
            yield decision
        except BaseException:
            if decision.allowed:
                with contextlib.suppress(StintError):  # the policy's on_expire settles it, and the caller wants what was raised
                    self.settle(decision, raised)
            raise
        if decision.allowed:
            self.settle(decision, done)

    def adjust(self, policy: str, key: str, action: str, *, limit: str = "", note: str = "", timeout: Optional[float] = None,
               namespace: Optional[str] = None) -> List[LimitStatus]:
        """Resets or unblocks a key by one policy, or by one of its limits. action: reset or unblock. It is kept in the audit log,
        and needs a token that may adjust."""
        if action not in ("reset", "unblock"):
            raise StintError("invalid_argument", "action: must be reset or unblock")
        request = {**self._changed(policy, key, note, namespace), "limit": limit, action: {}}
        return [_limit(limit) for limit in self._call("LimitService/Adjust", request, True, timeout).get("limits", [])]

    def put_override(self, policy: str, key: str, *, tier: str = "", limits: Optional[Dict[str, Dict[str, int]]] = None,
                     expires_at: Optional[datetime.datetime] = None, note: str = "", timeout: Optional[float] = None,
                     namespace: Optional[str] = None) -> None:
        """Gives one key a tier or quotas of its own, as in limits={"hour": {"quota": 500}}, in place of an override that it has.
        expires_at: an instant with a time zone; None: never."""
        request = {**self._changed(policy, key, note, namespace), "tier": tier, "limits": limits or {}}
        if expires_at is not None:
            if expires_at.tzinfo is None:
                raise StintError("invalid_argument", "expires_at: has no time zone")
            request["expiresAt"] = expires_at.isoformat()
        self._call("PolicyService/PutOverride", request, True, timeout)

    def delete_override(self, policy: str, key: str, *, note: str = "", timeout: Optional[float] = None,
                        namespace: Optional[str] = None) -> bool:
        """Removes the override of one key, and reports whether there was one."""
        request = self._changed(policy, key, note, namespace)
        return self._call("PolicyService/DeleteOverride", request, True, timeout).get("deleted") is True

    def forget(self, key: str, *, note: str = "", bills: bool = False, timeout: Optional[float] = None,
               namespace: Optional[str] = None) -> None:
        """Ends everything that the cluster keeps of one key, under all policies of its namespace. bills: those too; without it a key
        that has any is not forgotten. It may be called again: if it fails, a part may have been ended."""
        request = {"namespace": self._in(namespace), "key": key, "note": note, "bills": bills}
        self._call("LimitService/Forget", request, True, timeout)

    def list_usage(self, *, policy: str = "", key: str = "", period: str = "", page_size: int = 0, page_token: str = "",
                   timeout: Optional[float] = None, namespace: Optional[str] = None) -> UsagePage:
        """Returns a page of bills. period: a year, a month or a day in which periods start, as in "2026-10". page_token: the
        next_page_token of the page before, with everything else as for that one."""
        request = {"namespace": self._in(namespace), "policy": policy, "key": key, "period": period, "pageSize": page_size,
                   "pageToken": page_token}
        page = self._call("ObserveService/ListUsage", request, True, timeout)
        return UsagePage([_usage(record) for record in page.get("records", [])], page.get("nextPageToken", ""),
                         _instant(page.get("completeThrough")), [(u["policy"], u["key"]) for u in page.get("unreadable", [])])

    def correct_usage(self, policy: str, key: str, units: int, note: str, *, meter: str = "", period: str = "", new: bool = False,
                      timeout: Optional[float] = None, namespace: Optional[str] = None) -> Optional[UsageRecord]:
        """Adds units to the bill of one key, or takes some away, and returns the bill. It moves no limit. note: why, for the audit
        log. period: as for list_usage; "": the one that is open. new: the key may be one that was never billed. None: it was
        corrected by an earlier copy of this call, whose answer is forgotten."""
        if not isinstance(units, int) or isinstance(units, bool):
            raise StintError("invalid_argument", "units: must be a whole number")
        request = {**self._changed(policy, key, note, namespace), "units": str(units), "meter": meter, "period": period, "new": new}
        record = self._call("LimitService/CorrectUsage", request, True, timeout).get("record")
        return None if record is None else _usage(record)

    def _changed(self, policy: str, key: str, note: str, namespace: Optional[str]) -> Dict[str, Any]:
        entry = _entries({"policy": policy, "key": key})[0]
        return {**entry, "namespace": self._in(namespace), "note": note, "idempotencyId": str(uuid.uuid4())}

    def ready(self, timeout: Optional[float] = None) -> bool:
        """Reports whether a node can serve. It never raises."""
        within = (self._timeout if timeout is None else timeout) / len(self._nodes)
        return any(node.ready(within) for node in self._nodes)

    def _in(self, namespace: Optional[str]) -> str:
        return self._namespace if namespace is None else namespace

    def _check(self, entries: Entries, mode: str, idempotency_id: Optional[str], explain: bool, namespace: Optional[str]) -> Dict[str, Any]:
        if idempotency_id == "":
            raise StintError("invalid_argument", "idempotency_id: must be a text; None sends none")
        drawn = str(uuid.uuid4()) if idempotency_id is _NEW else idempotency_id or ""
        request = {"namespace": self._in(namespace), "entries": _entries(entries), "idempotencyId": drawn, "explain": explain}
        if mode:
            request["mode"] = "MODE_" + mode.upper()
        return request

    def _call(self, method: str, request: Dict[str, Any], counts_once: bool, timeout: Optional[float]) -> Dict[str, Any]:
        """Sends a request until it is answered, its time is over, or a retry would be unsafe or useless. counts_once: sending it
        twice counts it once."""
        if timeout is not None and not 0 < timeout < math.inf:
            raise StintError("invalid_argument", "timeout: must be a number of seconds above 0")
        body = json.dumps(request).encode()
        ends = time.monotonic() + (self._timeout if timeout is None else timeout)
        maybe_applied = False  # by an earlier attempt, whatever a later one says
        attempt = 0
        while True:
            at = self._next
            left = ends - time.monotonic()
            within = max(0.001, min(left, max(_ATTEMPT_LEAST, left / len(self._nodes))))
            try:
                return self._nodes[at].send(f"/stint.v1.{method}", body, self._headers(within), within)
            except StintError as error:
                failure = error
            elsewhere = failure.maybe_applied or failure.code == "unavailable" and not failure.no_room
            if elsewhere and self._next == at:
                self._next = (at + 1) % len(self._nodes)
            again = elsewhere and (counts_once or not failure.maybe_applied)
            if maybe_applied and not failure.maybe_applied:
                failure = StintError("aborted", f"an earlier attempt may have been counted; the last one: {failure}", True)
            maybe_applied = failure.maybe_applied
            # Another address is asked at once, the same one after a pause.
            pause = 0.0 if attempt + 1 < len(self._nodes) else min(_PAUSE_LEAST * 2 ** min(attempt, 8), _PAUSE_MOST)
            if not again or time.monotonic() + pause + _REST_LEAST > ends:
                raise failure
            time.sleep(pause)
            if time.monotonic() + _REST_LEAST > ends:  # the pause was longer than it should have been
                raise failure
            attempt += 1

    def _left(self, begun: float, timeout: Optional[float]) -> Optional[float]:
        """What is left of the time of a call that began at an instant, and has waited for a thread since."""
        if timeout is not None and not 0 < timeout < math.inf:
            return timeout  # to be refused as it is
        whole = self._timeout if timeout is None else timeout
        left = begun + whole - time.monotonic()
        if left < min(_REST_LEAST, whole / 2):
            raise StintError("unavailable", "no thread was free in time, so nothing was sent")
        return left

    def _headers(self, within: float) -> Dict[str, str]:
        headers = {"Content-Type": "application/json", "Connect-Timeout-Ms": str(max(1, math.ceil(within * 1000)))}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        return headers

_T = TypeVar("_T")


def _awaited(method: Callable[..., _T]) -> Callable[..., Awaitable[_T]]:
    """A blocking method of self._blocking as a coroutine. Its timeout, if it takes one, begins before it has a thread."""
    timed = getattr(inspect.signature(method).parameters.get("timeout"), "kind", None) is inspect.Parameter.KEYWORD_ONLY

    @functools.wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> _T:
        begun = time.monotonic()

        def work() -> _T:
            if timed:
                options["timeout"] = self._blocking._left(begun, options.get("timeout"))
            return method(self._blocking, *args, **options)

        return await asyncio.get_running_loop().run_in_executor(None, work)

    return call


class AsyncStint:
    """Stint for asyncio: the same methods with the same arguments, as coroutines. Each call takes a thread of the loop's executor while it
    waits, and the wait for one is a part of its time. A call whose task is cancelled goes on, and may be counted."""

    def __init__(self, *args: Any, **options: Any):
        self._blocking = Stint(*args, **options)

    check = _awaited(Stint.check)
    reserve = _awaited(Stint.reserve)
    settle = _awaited(Stint.settle)
    get = _awaited(Stint.get)
    adjust = _awaited(Stint.adjust)
    put_override = _awaited(Stint.put_override)
    delete_override = _awaited(Stint.delete_override)
    forget = _awaited(Stint.forget)
    list_usage = _awaited(Stint.list_usage)
    correct_usage = _awaited(Stint.correct_usage)
    ready = _awaited(Stint.ready)
    close = _awaited(Stint.close)

    @contextlib.asynccontextmanager
    async def attempt(self, entries: Entries, *, done: str = "commit", raised: str = "cancel", **options: Any) -> AsyncIterator[Decision]:
        """Stint.attempt, for async with."""
        decision = await self.reserve(entries, **options)
        try:
            yield decision
        except BaseException:
            if decision.allowed:
                with contextlib.suppress(StintError):
                    await self.settle(decision, raised)
            raise
        if decision.allowed:
            await self.settle(decision, done)



class _Node:
    """One address and its idle connections, which the lock guards."""

    def __init__(self, address: str, token: bool, context: Optional[ssl.SSLContext]):
        url = urllib.parse.urlsplit(address)
        try:
            port = url.port
        except ValueError:
            port = -1
        if url.scheme not in ("http", "https") or not url.hostname or port == -1 or url.query or url.fragment:
            raise ValueError(f"stint: {address!r} is no base URL, as http://127.0.0.1:7400 is")
        if url.username is not None or url.password is not None:
            raise ValueError(f"stint: the address of {url.hostname} has a name or password: use a token")
        if token and url.scheme != "https" and not _is_loopback(url.hostname):
            raise ValueError(f"stint: the token is not sent in the clear to {url.hostname}: use https://, or an address of this machine")
        self.address = f"{url.scheme}://{url.netloc}"
        self._host, self._port, self._path = url.hostname, port, url.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if url.scheme == "https" else None
        self._idle: List[http.client.HTTPConnection] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def _own(self) -> threading.Lock:
        """The lock of the idle connections. A fork begins without any: it must not read its parent's answers."""
        if self._owner != os.getpid():
            self._idle, self._lock, self._owner = [], threading.Lock(), os.getpid()
        return self._lock

    def close(self) -> None:
        with self._own():
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def send(self, path: str, body: bytes, headers: Dict[str, str], within: float) -> Dict[str, Any]:
        status, text = self._exchange("POST", path, body, headers, within)
        if status != 200:
            raise _refused(status, text)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise StintError("aborted", f"{self.address} sent an answer that is no JSON", True) from error
        if not isinstance(answer, dict):
            raise StintError("aborted", f"{self.address} sent an answer that is no JSON object", True)
        return answer

    def ready(self, within: float) -> bool:
        try:
            return self._exchange("GET", "/readyz", b"", {}, within)[0] == 200
        except StintError:
            return False

    def _exchange(self, method: str, path: str, body: bytes, headers: Dict[str, str], within: float) -> Tuple[int, bytes]:
        ends = time.monotonic() + within
        try:
            connection = self._connected(ends)
        except OSError as error:  # no request was sent: that includes a certificate that is not accepted
            raise StintError("unavailable", f"{self.address} cannot be reached: {error}") from error
        try:
            connection.sock.settimeout(_left(ends))
            connection.response_class = functools.partial(_Answer, ends)
            connection.request(method, self._path + path, body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException, AttributeError) as error:
            connection.close()
            raise StintError("aborted", f"{self.address} gave no answer: {error or type(error).__name__}", True) from error
        self._keep(connection, response)
        return response.status, text

    def _connected(self, ends: float) -> http.client.HTTPConnection:
        while True:
            with self._own():
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.sock is not None and not _readable(connection.sock):
                return connection
            connection.close()  # the other end has closed it
        if self._context is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port)
        connection.auto_open = 0  # a request goes out on this connection or not at all
        try:
            connection.sock = _dialed(self._host, connection.port, ends)
            if self._context is not None:
                connection.sock.settimeout(_left(ends))
                connection.sock = self._context.wrap_socket(connection.sock, server_hostname=self._host)
        except OSError:
            connection.close()
            raise
        return connection

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        with self._own():
            if not response.will_close and len(self._idle) < _IDLE_MOST:
                self._idle.append(connection)
                return
        connection.close()


class _Answer(http.client.HTTPResponse):
    """An answer that is read until an instant."""

    def __init__(self, ends: float, sock: Any, **options: Any):
        super().__init__(sock, **options)
        self.fp = io.BufferedReader(_Until(ends, sock, self.fp.detach()))


class _Until(io.RawIOBase):
    """The bytes of a connection until an instant: the timeout of a socket would begin again with each of them."""

    def __init__(self, ends: float, sock: Any, raw: Any):
        self._ends, self._sock, self._raw = ends, sock, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        if time.monotonic() > self._ends:
            raise TimeoutError("its time is over")
        self._sock.settimeout(_left(self._ends))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(ends: float) -> float:
    """The timeout of a socket until an instant: 0 would be none."""
    return max(0.001, ends - time.monotonic())


def _dialed(host: str, port: int, ends: float) -> socket.socket:
    """A connection to the first address of a host that takes one. Each has its share of the time, so that one that is silent leaves some
    for the others."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failed = OSError("the host has no address")
    for i, (family, kind, protocol, _, address) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(ends) / (len(found) - i))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            failed = error
    raise failed


def _readable(sock: Any) -> bool:
    try:
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or address is not None and address.is_loopback


def _refused(status: int, text: bytes) -> StintError:
    """The error of an answer that is not 200."""
    try:
        answer = json.loads(text)
        value = next(d["value"] for d in answer["details"] if d["type"] == "stint.v1.Failure")
        return StintError(str(answer["code"]), str(answer.get("message", "")), _maybe_applied(value))
    except (ValueError, KeyError, TypeError, StopIteration):
        shown = text[:200].decode("utf-8", "replace")
        return StintError("aborted", f"an answer {status} that is not stint's: {shown}", True)


def _maybe_applied(value: str) -> bool:
    """Field 3 of a stint.v1.Failure in protobuf, base64. What cannot be read may have been applied."""
    try:
        data = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
        at = 0
        while at < len(data):
            tag, at = _varint(data, at)
            number, at = _varint(data, at)
            if tag == 3 << 3:
                return bool(number)
            if tag & 7 != 2:
                return True  # no field of a Failure
            at += number
        return at != len(data)
    except (ValueError, IndexError):
        return True


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def _entries(entries: Entries) -> List[Dict[str, Any]]:
    """Checks entries. One without a key is refused here: "None" in a template is a key that all callers share."""
    listed = [entries] if isinstance(entries, dict) else list(entries)
    if not listed:
        raise StintError("invalid_argument", "entries: there must be one at least")
    messages = []
    for i, entry in enumerate(listed):
        key, policy, cost = entry.get("key"), entry.get("policy", ""), entry.get("cost")
        if not isinstance(key, str) or key == "":
            raise StintError("invalid_argument", f"entries[{i}].key: is missing or empty: all callers would share it")
        if not policy and "limits" not in entry:
            raise StintError("invalid_argument", f"entries[{i}].policy: is missing")
        message = {name: entry[name] for name in ("policy", "key", "tier", "limits") if name in entry}
        if cost is not None:
            if not isinstance(cost, int) or isinstance(cost, bool) or cost < 0:
                raise StintError("invalid_argument", f"entries[{i}].cost: must be a whole number from 0")
            message["cost"] = str(cost)
        messages.append(message)
    return messages


def _decision(d: Any) -> Decision:
    if not isinstance(d, dict):
        raise StintError("aborted", "an answer without a decision", True)
    return Decision(
        allowed=d.get("allowed") is True, decision_id=d.get("decisionId", ""), limits=[_limit(limit) for limit in d.get("limits", [])],
        denied_by=d.get("deniedBy", []), reason=d.get("reason", ""), retry_after=_span(d.get("retryAfter")),
        decided_at=_instant(d.get("decidedAt")), headers=d.get("headers", {}), hold_id=d.get("holdId", ""),
        hold_expires_at=_instant(d.get("holdExpiresAt")), replayed=d.get("replayed") is True,
        shadow_denied=d.get("shadowDenied") is True, explanation=d.get("explanation", ""),
        challenge=d.get("outcome") == "OUTCOME_CHALLENGE", leased=d.get("leased") is True)


def _limit(limit: Dict[str, Any]) -> LimitStatus:
    return LimitStatus(
        policy=limit.get("policy", ""), limit=limit.get("limit", ""), key=limit.get("key", ""), quota=int(limit.get("quota", 0)),
        used=int(limit.get("used", 0)), held=int(limit.get("held", 0)), remaining=int(limit.get("remaining", 0)),
        granted=int(limit.get("granted", 0)), window_start=_instant(limit.get("windowStart")), reset_at=_instant(limit.get("resetAt")),
        retry_after=_span(limit.get("retryAfter")), allowed=limit.get("allowed") is True, shadow=limit.get("shadow") is True,
        unlimited=limit.get("unlimited") is True, lockout_level=limit.get("lockoutLevel", 0),
        blocked_until=_instant(limit.get("blockedUntil")), soft=limit.get("soft") is True)


def _usage(record: Dict[str, Any]) -> UsageRecord:
    return UsageRecord(
        id=record.get("id", ""), namespace=record.get("namespace", ""), policy=record.get("policy", ""), meter=record.get("meter", ""),
        key=record.get("key", ""), start=_instant(record.get("start")), end=_instant(record.get("end")),
        state=record.get("state", "").replace("USAGE_STATE_", "").lower(), units=int(record.get("units", 0)),
        credits=int(record.get("credits", 0)), corrections=int(record.get("corrections", 0)), revision=int(record.get("revision", 0)),
        recovered=record.get("recovered") is True, time_zone=record.get("timeZone", ""))


def _instant(text: Optional[str]) -> Optional[datetime.datetime]:
    """An instant, which the API gives in microseconds."""
    if text is None:
        return None
    whole, _, fraction = text.rstrip("Z").partition(".")
    at = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return at + datetime.timedelta(microseconds=int(fraction[:6].ljust(6, "0")))


def _span(text: Optional[str]) -> Optional[float]:
    return None if text is None else float(text.rstrip("s"))


def _seconds(span: float) -> str:
    if not span > 0:
        raise StintError("invalid_argument", "ttl: must be more than 0 seconds")
    return f"{span:.6f}s"


# Keys


def safe_key(value: Union[str, Dict[str, str], None]) -> Optional[str]:
    """Makes a key of text that comes from outside, as a value or as parts by name. Different values give different keys. "%", "=", "|",
    braces and controls are written in percent: a brace would let a client choose the shard. So is "/" in parts: what stands before
    it is the key of a parent, which only a text may name. The end of a key over 512 bytes becomes its SHA-256. A text has the same
    key in the middleware for Go. None: the value, or one of the parts, is missing, empty or no Unicode."""
    if isinstance(value, str):
        return _shortened(_escaped(value)) if _is_text(value) else None
    if not isinstance(value, dict) or not value or not all(_is_text(v) for v in value.values()):
        return None
    return _shortened("|".join("=".join(_escaped(text).replace("/", "%2F") for text in part) for part in value.items()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not any(0xD800 <= ord(c) <= 0xDFFF for c in value)


def _escaped(text: str) -> str:
    return re.sub(r"[%=|{}\x00-\x1f\x7f-\x9f]", lambda c: "".join(f"%{b:02X}" for b in c[0].encode()), text)


_KEY_BYTES_MOST = 512


def _shortened(text: str) -> str:
    """Keeps the beginning of a long key, for people to read. No other key ends like that: behind the last bar of parts is "="."""
    data = text.encode()
    if len(data) <= _KEY_BYTES_MOST:
        return text
    cut = _KEY_BYTES_MOST - 65
    while data[cut] & 0xC0 == 0x80:  # not within a character
        cut -= 1
    return data[:cut].decode() + "|" + hashlib.sha256(data[cut:]).hexdigest()


def client_ip(*, header: Optional[str] = None, trusted_proxies: Sequence[str] = ()) -> Callable[[Any], Optional[str]]:
    """Returns a key function for the address of the client, as in "ip:192.0.2.7" and "ip:2001:db8:1:2::": a client has a whole
    /64 of IPv6. It takes the environ of WSGI or the scope of ASGI. None: there is no address that can be believed.

    client_ip()                                 the peer of the connection; a forwarded address is never read
    client_ip(trusted_proxies=["10.0.0.5/32"])  if the peer is one of these: X-Forwarded-For from the right, without them
    client_ip(header="CF-Connecting-IP")        a header that the platform overwrites
    """
    if header is not None and trusted_proxies:
        raise ValueError("stint: header and trusted_proxies exclude each other")
    if header is not None and header.lower() in ("x-forwarded-for", "forwarded"):
        raise ValueError(f"stint: a client can write {header}: give trusted_proxies instead")
    trusted = [ipaddress.ip_network(proxy, strict=False) for proxy in ([] if isinstance(trusted_proxies, str) else trusted_proxies)]
    if isinstance(trusted_proxies, str):
        raise ValueError("stint: trusted_proxies must be a list")

    def key(request: Dict[str, Any]) -> Optional[str]:
        address = _address(_header(request, header)) if header else _forwarded(request, trusted)
        if address is None:
            return None
        if address.version == 6 and address in _NAT64:  # where all clients of IPv4 have one /64
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        elif address.version == 6 and address in _TEREDO:
            address = ipaddress.IPv4Address(~int(address) & 0xFFFFFFFF)
        if address.version == 4:
            return f"ip:{address}"
        return f"ip:{ipaddress.IPv6Address(int(address) >> 64 << 64)}"

    return key


_NAT64, _TEREDO = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2001::/32")


def _forwarded(request: Dict[str, Any], trusted: List[Any]) -> Any:
    """The client's address. A proxy that sends no header tells nothing: all its clients would share its address. If all addresses are
    trusted it is the first one: nobody else has written the list."""
    peer = request.get("REMOTE_ADDR") if "REMOTE_ADDR" in request else (request.get("client") or (None,))[0]
    address = _address(peer)
    for hop in reversed((_header(request, "X-Forwarded-For") or "").split(",")):
        if address is None or not _is_in(address, trusted):
            break
        address = _address(hop)
    return address


def _is_in(address: Any, networks: List[Any]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _header(request: Dict[str, Any], name: str) -> Optional[str]:
    """A header of the environ of WSGI or the scope of ASGI; lines of one name are joined."""
    if isinstance(request.get("headers"), (list, tuple)):
        lines = [value.decode("latin-1") for key, value in request["headers"] if key.lower() == name.lower().encode()]
        return ", ".join(lines) if lines else None
    return request.get("HTTP_" + name.upper().replace("-", "_"))


def _address(text: Any) -> Any:
    """Reads an address, with a zone, a port or brackets or without. IPv4 within IPv6 becomes IPv4. None: it is none."""
    if not isinstance(text, str):
        return None
    text = text.strip()
    port = re.fullmatch(r"(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?", text)
    text = re.sub(r"%[\w.-]+\Z", "", (port[1] or port[2] or "") if port else text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address


# Middlewares


_PROBLEMS = "https://iana.org/assignments/http-problem-types#"
_TITLES = {400: "Bad request", 403: "Forbidden", 429: "Too many requests", 503: "Service unavailable"}
_UNDECIDED = "The request was not carried out, since its limits could not be checked. Try again."


@dataclass(frozen=True)
class _Verdict:
    status: int  # 0: go on
    headers: Dict[str, str]
    body: bytes = b""
    decision: Optional[Decision] = None


@dataclass(frozen=True)
class _Guard:
    """What both middlewares do: a request to a verdict. It raises what no fail mode may hide."""

    limits: Stint
    entries: Sequence[Dict[str, Any]]
    fail: str
    on_missing: str = "deny"
    on_error: Optional[Callable[[StintError], None]] = None
    timeout: Optional[float] = None
    idempotency_id: Any = field(default=_NEW)

    def __post_init__(self) -> None:
        if not self.entries:
            raise ValueError("stint: entries must be a list with one at least")
        for entry in self.entries:
            if not entry.get("policy"):
                raise ValueError("stint: an entry has no policy")
            if not callable(entry.get("key")):
                raise ValueError(f"stint: the key of policy {entry['policy']} must be a function of the request, as client_ip() is")
        if self.fail not in ("closed", "open"):
            raise ValueError("stint: say fail=\"closed\" (503) or fail=\"open\" for the time when the cluster gives no decision")
        if self.on_missing not in ("deny", "skip", "shared"):
            raise ValueError("stint: on_missing must be deny, skip or shared")
        if self.idempotency_id is not _NEW and self.idempotency_id is not None:
            raise ValueError("stint: idempotency_id can only be None: one id for all requests counts once")

    def __call__(self, request: Dict[str, Any], begun: Optional[float] = None) -> _Verdict:
        """begun: when the request began to wait for a thread, which is a part of its time."""
        asked = []
        for entry in self.entries:
            key = safe_key(entry["key"](request)) or ("shared" if self.on_missing == "shared" else None)
            cost = entry.get("cost")
            if key is not None:
                asked.append({"policy": entry["policy"], "key": key, "cost": cost(request) if callable(cost) else cost})
            elif self.on_missing == "deny":
                return _refusal(400, f"The request does not say whom it counts for ({entry['policy']}).")
        if not asked:
            return _Verdict(0, {})
        try:
            timeout = self.timeout if begun is None else self.limits._left(begun, self.timeout)
            decision = self.limits.check(asked, timeout=timeout, idempotency_id=self.idempotency_id)
        except StintError as error:
            if error.unknown_key:
                return _refusal(403, "The sender is not known.")
            if not error.no_decision and not error.no_room:
                raise
            if self.on_error is not None:
                self.on_error(error)
            if self.fail == "open" and not error.no_room:
                return _Verdict(0, {"Stint-Failed": "open"})
            return _refusal(503, _UNDECIDED, "temporary-reduced-capacity",
                            {"Retry-After": "1", "Access-Control-Expose-Headers": "Retry-After"})
        headers = dict(decision.headers)
        if headers:
            headers["Access-Control-Expose-Headers"] = ", ".join(decision.headers)
        if decision.allowed:
            return _Verdict(0, headers, decision=decision)
        return _refusal(403 if decision.challenge else 429, decision.reason or None, "quota-exceeded", headers, decision)


def _refusal(status: int, detail: Optional[str], problem: str = "", headers: Optional[Dict[str, str]] = None,
             decision: Optional[Decision] = None) -> _Verdict:
    """An answer of RFC 9457. No cache may keep it (RFC 6585)."""
    body: Dict[str, Any] = {"type": _PROBLEMS + problem if problem else "about:blank", "title": _TITLES[status], "status": status}
    if detail:
        body["detail"] = detail
    if decision and decision.challenge:
        body["type"], body["title"], body["code"] = "urn:stint:problem:challenge", "Challenge required", "challenge"
    if decision:
        body["violated-policies"] = decision.denied_by
    data = json.dumps(body).encode()
    return _Verdict(status, {**(headers or {}), "Cache-Control": "no-store", "Content-Type": "application/problem+json",
                             "Content-Length": str(len(data))}, data, decision)


class WSGILimit:
    """A WSGI middleware that counts a request before the application sees it. environ["stint"] is the decision.

        app = WSGILimit(app, limits, [{"policy": "per-ip", "key": client_ip()}], fail="open")

    An entry's key is a function of the environ, its cost a number or a function. README.md explains the options."""

    def __init__(self, app: Callable[..., Any], limits: Stint, entries: Sequence[Dict[str, Any]], *, fail: str, **options: Any):
        self._app = app
        self._guard = _Guard(limits, entries, fail, **options)

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Any:
        verdict = self._guard(environ)
        if verdict.status:
            start_response(f"{verdict.status} {_TITLES[verdict.status]}", list(verdict.headers.items()))
            return [] if environ.get("REQUEST_METHOD") == "HEAD" else [verdict.body]
        environ["stint"] = verdict.decision

        def start(status: str, headers: List[Any], *more: Any) -> Any:
            return start_response(status, _merged(headers, verdict.headers), *more)

        return self._app(environ, start)


class ASGILimit:
    """An ASGI middleware that counts an HTTP request before the application sees it, on asyncio. scope["state"]["stint"] is the
    decision. Other scopes (lifespan, websocket) pass uncounted. Its options are those of WSGILimit, and key functions get the
    scope. Each check takes a thread of the loop's executor while it waits, and the wait for one is a part of its timeout."""

    def __init__(self, app: Callable[..., Any], limits: Stint, entries: Sequence[Dict[str, Any]], *, fail: str, **options: Any):
        self._app = app
        self._guard = _Guard(limits, entries, fail, **options)

    async def __call__(self, scope: Dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        verdict = await asyncio.get_running_loop().run_in_executor(None, self._guard, scope, time.monotonic())
        if verdict.status:
            headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in verdict.headers.items()]
            await send({"type": "http.response.start", "status": verdict.status, "headers": headers})
            await send({"type": "http.response.body", "body": verdict.body})
            return
        scope = {**scope, "state": {**scope.get("state", {}), "stint": verdict.decision}}

        async def sent(message: Dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", [])]
                merged = _merged(headers, verdict.headers)
                message = {**message, "headers": [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in merged]}
            await send(message)

        await self._app(scope, receive, sent)


def _merged(headers: Sequence[Any], ours: Dict[str, str]) -> List[Any]:
    """Headers of an application with ours in place of those of the same name; lists of exposed names are kept."""
    replaced = {name.lower() for name in ours} - {"access-control-expose-headers"}
    return [h for h in headers if h[0].lower() not in replaced] + list(ours.items())
