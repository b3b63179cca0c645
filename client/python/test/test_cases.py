"""The cases that the clients of all languages pass: client/testdata/cases.json says what its fields are."""

import http.server
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from server import ROOT, refused_port
from stint import Stint, StintError

NAMES = {"deniedBy": "denied_by", "retryAfterSeconds": "retry_after_seconds", "shadowDenied": "shadow_denied", "holdId": "hold_id",
         "maybeApplied": "maybe_applied", "noDecision": "no_decision", "noRoom": "no_room", "unknownKey": "unknown_key"}


class Scripted:
    """Nodes that give the answers of a case, in the order of the requests and whichever is asked."""

    def __init__(self, answers, nodes):
        self.bodies, self._lock = [], threading.Lock()
        script = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with script._lock:
                    script.bodies.append(body)
                    answer = answers[min(len(script.bodies), len(answers)) - 1]
                if answer == "drop":
                    self.close_connection = True
                    return
                body = answer["body"] if isinstance(answer["body"], str) else json.dumps(answer["body"])
                self.send_response(answer["status"])
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        self._servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(nodes)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.urls = [f"http://127.0.0.1:{server.server_port}" for server in self._servers]

    def close(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()


def call(limits, do):
    """Makes the case's call, and returns the part of the answer that the case may want."""
    id = do.get("id")
    try:
        if do["op"] == "get":
            return {"limits": limits.get(do["entries"])}
        if do["op"] == "settle":
            return {"decision": limits.settle(do.get("holdId") or Given(do["decisionId"]), do["action"])}
        if do["op"] == "reserve":
            return {"decision": limits.reserve(do["entries"], ttl=do["ttlMs"] / 1000, idempotency_id=id)}
        return {"decision": limits.check(do["entries"], idempotency_id=id)}
    except StintError as error:
        return {"error": error}


class Given:
    """A decision that was kept as its id."""

    def __init__(self, decision_id):
        self.hold_id, self.decision_id = "", decision_id


def named(want, got):
    """Keeps of an answer what the case names."""
    if isinstance(want, dict):
        part = (lambda name: got.get(name)) if isinstance(got, dict) else (lambda name: getattr(got, NAMES.get(name, name)))
        return {name: named(value, part(name)) for name, value in want.items()}
    if isinstance(want, list) and len(want) == len(got):
        return [named(a, b) for a, b in zip(want, got)]
    return got


class Cases(unittest.TestCase):
    def test_cases_of_all_clients(self):
        with open(os.path.join(ROOT, "client", "testdata", "cases.json"), encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            with self.subTest(case["name"]):
                script = Scripted(case["answers"], case.get("nodes", 1))
                limits = Stint([refused_port() for _ in range(case.get("refused", 0))] + script.urls,
                               timeout=case.get("timeoutMs", 120_000) / 1000)
                try:
                    self.assertEqual(named(case["want"], call(limits, case["do"])), case["want"])
                    self.assertEqual(len(script.bodies), case["asked"])
                    self.assertEqual(script.bodies, script.bodies[:1] * case["asked"])
                finally:
                    limits.close()
                    script.close()


if __name__ == "__main__":
    unittest.main()
