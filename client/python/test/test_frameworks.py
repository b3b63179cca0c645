"""Frameworks that ask stint: Django REST framework by its throttle, and Flask by Flask-Limiter with the storage of stint_limits."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import django
import flask
import flask_limiter
from django.conf import settings

settings.configure(REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []}, ALLOWED_HOSTS=["*"])
django.setup()

from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

import stint_limits  # registers stint://
from server import Node, refused_port
from stint import Stint, StintError
from stint_drf import StintThrottle


def setUpModule():
    global node, limits
    node = Node()
    limits = Stint([node.url], timeout=20)


def tearDownModule():
    limits.close()
    node.close()


def ask(user, *, counted=False, **options):
    """The answer of a view behind a throttle, and what the throttle told on_error."""
    told = []

    class Throttle(StintThrottle):
        limits, policy, fail, on_error = globals()["limits"], "login", "closed", told.append
        cost = (lambda request: 2) if counted else None

        def key_of(self, request, view):
            return request.data.get("user")

    class View(APIView):
        throttle_classes = [type("Throttled", (Throttle,), options)]

        def post(self, request):
            return Response({})

    return View.as_view()(APIRequestFactory().post("/", {"user": user})), told


class Throttle(unittest.TestCase):
    def test_the_fourth_is_denied(self):
        answers = [ask("drf ann")[0] for _ in range(4)]
        self.assertEqual([answer.status_code for answer in answers], [200] * 3 + [429])
        self.assertGreater(int(answers[3]["Retry-After"]), 3600)
        self.assertEqual(answers[3]["Cache-Control"], "no-store")
        self.assertNotIn("Retry-After", answers[0])
        self.assertEqual(limits.get({"policy": "login", "key": "drf ann"})[0].used, 3)

    def test_a_cost_and_a_missing_key(self):
        self.assertEqual(ask("drf bob", counted=True)[0].status_code, 200)
        self.assertEqual(limits.get({"policy": "login", "key": "drf bob"})[0].used, 2)
        answer = ask("")[0]
        self.assertEqual((answer.status_code, answer.data["detail"]), (400, "The request does not say whom it counts for (login)."))

    def test_of_several_throttles_the_longest_wait_is_told(self):
        class View(APIView):
            throttle_classes = [type(policy, (StintThrottle,), {"limits": limits, "policy": policy, "fail": "closed",
                                                                "key_of": lambda *_: "drf both"}) for policy in ("login", "per-minute", "per-ip")]

            def post(self, request):
                return Response({})

        for policy, units in (("login", 3), ("per-minute", 100)):
            limits.check({"policy": policy, "key": "drf both", "cost": units})
        answer = View.as_view()(APIRequestFactory().post("/"))
        self.assertEqual(answer.status_code, 429)
        self.assertGreater(int(answer["Retry-After"]), 3600)
        self.assertIn("Retry-After", answer["Access-Control-Expose-Headers"])
        self.assertIn("X-RateLimit-Limit", answer["Access-Control-Expose-Headers"])

    def test_a_challenge_is_forbidden(self):
        answers = [ask("drf sue", policy="soft")[0] for _ in range(2)]
        self.assertEqual([answer.status_code for answer in answers], [200, 403])
        self.assertEqual((str(answers[1].data["detail"]), answers[1].data["detail"].code), ("Are you a robot?", "challenge"))
        self.assertEqual(json.loads(answers[1].render().content), {"detail": "Are you a robot?", "code": "challenge"})

    def test_no_decision_is_no_denial(self):
        dead = Stint([refused_port()], timeout=0.1)
        answer, told = ask("drf eve", limits=dead)
        self.assertEqual((answer.status_code, answer["Retry-After"], [type(e) for e in told]), (503, "1", [StintError]))
        answer, _ = ask("drf eve", limits=dead, fail="open")
        self.assertEqual((answer.status_code, answer["Stint-Failed"]), (200, "open"))
        with self.assertRaisesRegex(StintError, "not_found"):
            ask("drf eve", policy="nobody", fail="open")


class FlaskLimiter(unittest.TestCase):
    def test_strategies(self):
        for strategy in ("fixed-window", "moving-window"):
            app = flask.Flask("app")
            limiter = flask_limiter.Limiter(lambda: strategy, app=app, storage_uri="stint://" + node.url[7:], strategy=strategy,
                                            storage_options={"timeout": 20})
            self.addCleanup(limiter.storage._limits.close)
            app.route("/")(limiter.limit("5/hour")(lambda: "hello"))
            self.assertEqual([app.test_client().get("/").status_code for _ in range(7)], [200] * 5 + [429] * 2)


if __name__ == "__main__":
    unittest.main()
