"""A storage of the package "limits", and so of Flask-Limiter and slowapi: storage_uri="stint://127.0.0.1:7400".

    import stint_limits                      # registers stint:// and stint+https://, and with async+ those for limits.aio
    storage = limits.storage.storage_from_string("stint://10.0.0.1:7400,10.0.0.2:7400", token=token)

Strategy fixed-window counts hits, denied ones too, in a window that begins with the first hit. The others are decided by the cluster,
and denied hits do not count: moving-window by a sliding log of at most 10,000 hits, sliding-window-counter (limits 4.1 and later) by two
weighted windows.
"""

import math
import re
import urllib.parse
from typing import Any, Dict, Optional, Tuple

import limits.aio.storage
from limits.limits import GRANULARITIES
from limits.storage import MovingWindowSupport, Storage

from stint import Stint, StintError, _awaited, safe_key

_QUOTA_MOST = 2 ** 53  # the storage counts, and its caller compares
_LOG, _WEIGHTED = ("log", "slidingLog"), ("weighted", "slidingWindow")  # the name of a limit, and its algorithm

# limits before 4.1 has no such strategy, and no base class for it.
_Weighted: Any = getattr(limits.storage, "SlidingWindowCounterSupport", object)
_AsyncWeighted: Any = getattr(limits.aio.storage, "SlidingWindowCounterSupport", object)


class StintStorage(Storage, MovingWindowSupport, _Weighted):
    """Options: token, timeout in seconds, namespace, prefix of the keys. Every method raises a StintError if there is no answer."""

    STORAGE_SCHEME = ["stint", "stint+https"]

    def __init__(self, uri: Optional[str] = None, token: str = "", timeout: float = 5.0, namespace: str = "", prefix: str = "",
                 **options: Any):
        super().__init__(uri, **options)
        url = urllib.parse.urlsplit(uri or "")
        if url.path.strip("/") or url.query or "@" in url.netloc:
            raise ValueError("stint: the URI is stint://HOST:PORT[,HOST:PORT...]; give token, namespace and others as options")
        scheme = "https" if url.scheme == "stint+https" else "http"
        self._limits = Stint([f"{scheme}://{host}" for host in url.netloc.split(",")], token, float(timeout), namespace)
        self._prefix = prefix

    @property
    def base_exceptions(self) -> Any:
        return StintError

    def incr(self, key: str, expiry: int, elastic_expiry: bool = False, amount: int = 1) -> int:
        """Counts hits, and returns the hits of the window with them."""
        if elastic_expiry:
            raise NotImplementedError("stint: a window that grows with each hit (elastic expiry) is not there: use moving-window")
        return self._limits.check(self._window(key, int(expiry), amount), mode="count").limits[0].used

    def get(self, key: str) -> int:
        """Returns the hits of the window."""
        return self._limits.get(self._window(key, _item_of(key)[1]))[0].used

    def get_expiry(self, key: str) -> int:
        """Returns when the window ends, in Unix seconds, rounded down as other storages do: who shows it adds one. Now, if there is none."""
        expiry = _item_of(key)[1]
        decision = self._limits.check(self._window(key, expiry), mode="peek", idempotency_id=None)
        ends = decision.limits[0].reset_at if decision.limits[0].used else decision.decided_at
        return int(ends.timestamp())

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Decides and counts."""
        return self._limits.check(self._sliding(_LOG, key, limit, expiry, amount)).allowed

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[int, int]:
        """Returns the start of the window, in Unix seconds, rounded down, and the hits in it. The start is that of the oldest hit: when
        it leaves, one more fits."""
        used, now, wait = self._used(_LOG, key, limit, expiry)
        return int(now + wait) - expiry, used

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Decides and counts."""
        return self._limits.check(self._sliding(_WEIGHTED, key, limit, expiry, amount)).allowed

    def get_sliding_window(self, key: str, expiry: int) -> Tuple[int, float, int, float]:
        """Returns the hits and the seconds left of the previous and of the current window. The cluster has weighed both already: all
        hits are given as those of the current one, and its seconds as those until one more fits."""
        used, _, wait = self._used(_WEIGHTED, key, _item_of(key)[0], expiry)
        return 0, 0.0, used, min(wait, math.nextafter(expiry, 0))  # the caller takes a whole period for none

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self.clear(key)

    def check(self) -> bool:
        """Reports whether a node can serve."""
        return self._limits.ready()

    def reset(self) -> Optional[int]:
        raise NotImplementedError("stint: nothing resets all keys")

    def clear(self, key: str) -> None:
        raise NotImplementedError("stint: windows that requests bring along cannot be reset; a policy's can: stint adjust POLICY KEY reset")

    # The keys that limits makes name amount and window: one key has one limit of each name.

    def _window(self, key: str, expiry: int, amount: int = 1) -> Dict[str, Any]:
        window = {"name": "window", "quota": str(_QUOTA_MOST), "fixedWindow": {"period": f"{expiry}s", "anchor": "ANCHOR_FIRST_HIT"}}
        return {"policy": "limits", "key": safe_key(self._prefix + key), "cost": amount, "limits": [window]}

    def _sliding(self, kind: Tuple[str, str], key: str, limit: int, expiry: int, amount: int = 1) -> Dict[str, Any]:
        name, algorithm = kind
        sliding = {"name": name, "quota": str(limit), algorithm: {"period": f"{expiry}s"}}
        return {"policy": "limits", "key": safe_key(self._prefix + key), "cost": amount, "limits": [sliding]}

    def _used(self, kind: Tuple[str, str], key: str, limit: int, expiry: int) -> Tuple[int, float, float]:
        """The hits, the cluster's time, and the seconds until one more fits than now."""
        state = self._limits.get(self._sliding(kind, key, limit, expiry))[0]
        more = self._sliding(kind, key, limit, expiry, min(limit, state.remaining + 1))
        peek = self._limits.check(more, mode="peek", idempotency_id=None)
        return state.used, peek.decided_at.timestamp(), expiry if peek.retry_after is None else peek.retry_after


class AsyncStintStorage(limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport, _AsyncWeighted):
    """StintStorage for limits.aio. Each call takes a thread of the loop's executor while it waits."""

    STORAGE_SCHEME = ["async+stint", "async+stint+https"]

    def __init__(self, uri: Optional[str] = None, **options: Any):
        super().__init__(uri)
        self._blocking = StintStorage((uri or "").replace("async+", "", 1), **options)

    @property
    def base_exceptions(self) -> Any:
        return StintError

    incr = _awaited(StintStorage.incr)
    get = _awaited(StintStorage.get)
    get_expiry = _awaited(StintStorage.get_expiry)
    acquire_entry = _awaited(StintStorage.acquire_entry)
    get_moving_window = _awaited(StintStorage.get_moving_window)
    acquire_sliding_window_entry = _awaited(StintStorage.acquire_sliding_window_entry)
    get_sliding_window = _awaited(StintStorage.get_sliding_window)
    clear_sliding_window = _awaited(StintStorage.clear_sliding_window)
    check = _awaited(StintStorage.check)
    reset = _awaited(StintStorage.reset)
    clear = _awaited(StintStorage.clear)


def _item_of(key: str) -> Tuple[int, int]:
    """The amount of hits and the seconds of a window, which are the end of every key that limits makes: AMOUNT/MULTIPLES/GRANULARITY."""
    found = re.search(r"/(\d+)/(\d+)/([a-z]+)\Z", key)
    if found is None or found[3] not in GRANULARITIES:
        raise ValueError(f"stint: the key {key!r} was not made by limits, and does not say how long its window is")
    return int(found[1]), int(found[2]) * GRANULARITIES[found[3]].GRANULARITY.seconds
