"""A throttle of Django REST framework.

    class LoginThrottle(StintThrottle):
        limits = Stint(["http://127.0.0.1:7400"])
        policy = "login"
        fail = "closed"

        def key_of(self, request, view):
            return request.data.get("email", "").strip().lower()

    class Login(APIView):
        throttle_classes = [LoginThrottle]

A denial is the framework's 429 with Retry-After. README.md explains fail and on_missing.
"""

import json
from typing import Any, Callable, Dict, Optional, Union

from rest_framework.exceptions import APIException
from rest_framework.throttling import BaseThrottle

from stint import Stint, StintError, _Guard


_EXPOSED = "Access-Control-Expose-Headers"


class StintThrottle(BaseThrottle):
    """What decides on the requests of a view: a class of it has limits, policy, fail and key_of. self.decision is the decision."""

    limits: Stint
    policy: str
    fail: str
    cost: Union[int, Callable[[Any], int], None] = None
    on_missing = "deny"
    on_error: Optional[Callable[[StintError], None]] = None
    timeout: Optional[float] = None

    def key_of(self, request: Any, view: Any) -> Union[str, Dict[str, str], None]:
        """Whom the request counts for: a text, or parts by name. None: nobody is named."""
        raise NotImplementedError("stint: a throttle says whom a request counts for: key_of")

    def allow_request(self, request: Any, view: Any) -> bool:
        of = type(self)  # a function in a class is not to become a method
        entry = {"policy": self.policy, "key": lambda asked: self.key_of(asked, view), "cost": of.cost}
        verdict = _Guard(self.limits, [entry], self.fail, self.on_missing, of.on_error, self.timeout)(request)
        self.decision = verdict.decision
        told = {name: value for name, value in verdict.headers.items() if not name.startswith("Content-")}
        before = view.headers  # of the throttles that were asked before this one
        if verdict.status == 429 and "Retry-After" in told and "Retry-After" in before:
            told["Retry-After"] = max(told["Retry-After"], before["Retry-After"], key=int)
        if _EXPOSED in told and _EXPOSED in before:
            told[_EXPOSED] = f"{before[_EXPOSED]}, {told[_EXPOSED]}"
        view.headers.update(told)
        if verdict.status in (0, 429):
            return verdict.status == 0
        said = json.loads(verdict.body)
        text, code = said.get("detail", said["title"]), said.get("code")
        refusal = APIException({"detail": text, "code": code} if code else text, code)  # the framework renders no code by itself
        refusal.status_code = verdict.status
        raise refusal

    def wait(self) -> Optional[float]:
        return self.decision.retry_after_seconds
