import asyncio
import contextlib
import datetime
import filecmp
import hashlib
import http.client
import io
import json
import math
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import wsgiref.simple_server
import zipfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import stint
from server import Node, Proxy, ROOT, SecureNode, ask, refused_port
from stint import ASGILimit, AsyncStint, Stint, StintError, WSGILimit, client_ip, safe_key

HERE = os.path.join(ROOT, "client", "python")


# What a cluster says that cannot decide. It is not asked again: no test has to wait for the end of a time.
UNDECIDED = {"code": "internal", "message": "cannot decide", "details": [{"type": "stint.v1.Failure", "value": ""}]}


def setUpModule():
    global node, limits, undecided, nowhere
    node = Node()
    limits = Stint([node.url], timeout=20)
    undecided = Proxy(node.url, lambda n: (500, json.dumps(UNDECIDED).encode()))
    nowhere = Stint([undecided.url], timeout=20)


def tearDownModule():
    limits.close()
    nowhere.close()
    undecided.close()
    node.close()


def first_at(addresses, **options):
    """A client that begins at the first of its addresses."""
    client = Stint(addresses, **{"timeout": 20, **options})
    client._next = 0
    return client


def used(policy, key):
    return limits.get({"policy": policy, "key": key})[0].used


class Case(unittest.TestCase):
    def proxy(self, fate):
        proxy = Proxy(node.url, fate)
        self.addCleanup(proxy.close)
        return proxy

    def client(self, addresses, **options):
        client = first_at(addresses, **options)
        self.addCleanup(client.close)
        return client

    def fails(self, call, *args, **kwargs):
        with self.assertRaises(StintError) as caught:
            call(*args, **kwargs)
        return caught.exception


class Client(Case):
    def test_an_answer_that_is_no_object_is_no_answer(self):
        for body in (b"null", b"5", b'"ok"', b"[]", b"<html>"):
            stranger = self.client([node.url], timeout=0.05)
            stranger._nodes[0]._exchange = lambda *_: (200, body)
            for ask in (lambda: stranger.check({"policy": "five", "key": "py stranger"}),
                        lambda: stranger.get({"policy": "five", "key": "py stranger"}), lambda: stranger.forget("py stranger")):
                error = self.fails(ask)
                self.assertTrue(error.no_decision and error.maybe_applied, (body, error))

    def test_a_call_has_a_bound_of_its_own(self):
        proxy = self.proxy(lambda n: (500, json.dumps(UNDECIDED).encode()))
        for options, want in (({}, "5000"), ({"timeout": 0.7}, "700")):
            client = Stint([proxy.url], **options)
            self.addCleanup(client.close)
            self.fails(client.check, {"policy": "five", "key": "bound"})
            self.assertEqual(proxy.seen[-1][0]["Connect-Timeout-Ms"], want)

    def test_a_check_counts_and_a_denial_is_a_decision_with_its_wait(self):
        for i in range(1, 6):
            d = limits.check({"policy": "five", "key": "py counts"})
            self.assertTrue(d.allowed)
            self.assertEqual((d.limits[0].used, d.limits[0].remaining), (i, 5 - i))
        d = limits.check({"policy": "five", "key": "py counts"})
        self.assertEqual((d.allowed, d.denied_by, d.retry_after), (False, ["five/ever"], None))
        for _ in range(3):
            limits.check({"policy": "window", "key": "py counts"})
        d = limits.check({"policy": "window", "key": "py counts"})
        self.assertTrue(0 < d.retry_after <= 86400)
        self.assertEqual(d.headers["Retry-After"], str(d.retry_after_seconds))
        self.assertEqual(d.retry_after_seconds, math.ceil(d.retry_after))

    def test_an_answer_that_got_lost_is_asked_for_again_and_counts_once(self):
        lossy = self.proxy(lambda n: "drop")
        d = self.client([lossy.url, node.url]).check({"policy": "many", "key": "py lost"})
        self.assertTrue(d.allowed and d.replayed)
        self.assertEqual(len(lossy.seen), 1)
        self.assertEqual(len(lossy.seen[0][1]["idempotencyId"]), 36)
        self.assertEqual(used("many", "py lost"), 1)

    def test_a_node_that_never_answers_costs_its_share_of_the_time(self):
        silent = self.proxy(lambda n: "hang")
        d = self.client([silent.url, node.url], timeout=4).check({"policy": "many", "key": "py hangs"})
        self.assertTrue(d.replayed)
        self.assertEqual(used("many", "py hangs"), 1)

    def test_without_an_id_a_request_that_may_have_been_counted_is_not_repeated(self):
        lossy = self.proxy(lambda n: "drop")
        e = self.fails(self.client([lossy.url, node.url]).check, {"policy": "many", "key": "py no id"}, idempotency_id=None)
        self.assertTrue(e.maybe_applied and e.no_decision and e.code == "aborted")
        self.assertEqual(lossy.seen[0][1]["idempotencyId"], "")
        self.assertEqual(used("many", "py no id"), 1)

    def test_an_address_at_which_nobody_listens_is_certainly_not_counted(self):
        refused = refused_port()
        self.assertTrue(self.client([refused, node.url]).check({"policy": "many", "key": "py refused"}, idempotency_id=None).allowed)
        e = self.fails(self.client([refused], timeout=3).check, {"policy": "many", "key": "py refused"})
        self.assertEqual((e.code, e.maybe_applied), ("unavailable", False))
        self.assertEqual(used("many", "py refused"), 1)

    def test_a_wrong_request_is_refused_once_and_names_the_field(self):
        seen = self.proxy(lambda n: "answer")
        client = self.client([node.url])
        e = self.fails(client.check, {"policy": "nope", "key": "k"})
        self.assertTrue(e.code == "not_found" and not e.no_decision and not e.unknown_key and "entries[0].policy" in str(e))
        self.assertTrue(self.fails(client.check, {"policy": "known", "key": "k"}).unknown_key)
        client = self.client([seen.url])
        for key in ("", None, 7):
            self.assertIn("entries[0].key", str(self.fails(client.check, {"policy": "five", "key": key})))
        for cost in (-1, 1.5, True):
            self.assertIn("cost", str(self.fails(client.check, {"policy": "five", "key": "k", "cost": cost})))
        for timeout in (0, -1, math.nan, math.inf):
            self.assertIn("timeout", str(self.fails(client.check, {"policy": "five", "key": "k"}, timeout=timeout)))
            with self.assertRaisesRegex(ValueError, "timeout"):
                Stint([node.url], timeout=timeout)
        self.fails(client.check, [])
        self.assertEqual(seen.seen, [])

    def test_a_hold_is_settled_once_and_a_decision_given_back_once(self):
        hold = limits.reserve({"policy": "login", "key": "py ann"}, ttl=30)
        self.assertTrue(hold.allowed and hold.hold_id and hold.hold_expires_at > hold.decided_at)
        self.assertGreater(limits.settle(hold, "extend", ttl=60).hold_expires_at, hold.hold_expires_at)
        limits.settle(hold, "success")
        limits.settle(hold.hold_id, "success")
        self.assertEqual(self.fails(limits.settle, hold, "failed").code, "failed_precondition")
        for _ in range(3):
            limits.settle(limits.reserve({"policy": "login", "key": "py bob"}), "failed")
        blocked = limits.reserve({"policy": "login", "key": "py bob"})
        self.assertEqual((blocked.allowed, blocked.reason), (False, "Too many attempts."))
        self.assertIn("nothing to settle", str(self.fails(limits.settle, blocked, "failed")))
        d = limits.check({"policy": "many", "key": "py refund", "cost": 10})
        limits.settle(d, "commit", actual_cost=[4])
        self.assertEqual(used("many", "py refund"), 4)
        self.fails(limits.settle, d, "cancel", actual_cost=[1])

    def test_an_attempt_is_settled_by_the_end_of_its_block(self):
        login = {"policy": "login", "key": "py eve"}
        for _ in range(3):
            with self.assertRaises(PermissionError):
                with limits.attempt(login, done="success", raised="failed") as attempt:
                    self.assertTrue(attempt.allowed)
                    raise PermissionError("a wrong password")
        with limits.attempt(login, done="success", raised="failed") as attempt:
            self.assertFalse(attempt.allowed)  # three failures in a row
        self.assertEqual([limit.allowed for limit in limits.adjust("login", "py eve", "unblock", note="by a test")], [True])
        with limits.attempt({"policy": "many", "key": "py job", "cost": 5}):
            pass
        with self.assertRaises(KeyboardInterrupt):
            with limits.attempt({"policy": "many", "key": "py job", "cost": 7}):
                raise KeyboardInterrupt
        self.assertEqual(used("many", "py job"), 5)
        self.assertIn("action", str(self.fails(limits.adjust, "login", "py eve", "set")))

    def test_what_the_block_raises_is_not_lost_with_its_settlement(self):
        hold = {"decision": {"allowed": True, "holdId": "h1"}}
        gone = self.proxy(lambda n: (200, json.dumps(hold).encode()) if n == 1 else (500, json.dumps(UNDECIDED).encode()))
        with self.assertRaises(PermissionError):
            with self.client([gone.url]).attempt({"policy": "login", "key": "k"}):
                raise PermissionError("a wrong password")
        self.assertEqual(len(gone.seen), 2)
        seen = self.proxy(lambda n: (200, json.dumps(hold).encode()) if n == 1 else (500, json.dumps(UNDECIDED).encode()))
        with self.assertRaises(StintError):
            with self.client([seen.url]).attempt({"policy": "login", "key": "k"}):
                pass

    def test_overrides_and_what_is_forgotten(self):
        entry = {"policy": "five", "key": "py acme"}
        limits.put_override("five", "py acme", limits={"ever": {"quota": 7}}, note="by a test",
                            expires_at=datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc))
        self.assertEqual(limits.check({**entry, "cost": 7}).allowed, True)
        self.assertEqual(limits.get(entry)[0].quota, 7)
        self.assertEqual([limits.delete_override("five", "py acme") for _ in range(2)], [True, False])
        self.assertEqual((limits.get(entry)[0].quota, used("five", "py acme")), (5, 7))
        limits.forget("py acme", note="by a test")
        self.assertEqual(used("five", "py acme"), 0)
        self.assertEqual(self.fails(limits.put_override, "nope", "k", tier="large").code, "not_found")
        self.assertIn("time zone", str(self.fails(limits.put_override, "five", "k", expires_at=datetime.datetime(2999, 1, 1))))
        self.assertIn("key", str(self.fails(limits.put_override, "five", "")))

    def test_an_answer_that_does_not_end_is_given_up(self):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def drip():
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while True:
                        connection.sendall(b" ")
                        time.sleep(0.01)

            dripping = threading.Thread(target=drip)
            dripping.start()
            slow = self.client([f"http://127.0.0.1:{server.getsockname()[1]}"], timeout=0.5)
            self.assertTrue(self.fails(slow.check, {"policy": "many", "key": "py drips"}).maybe_applied)
            dripping.join()

    def test_all_addresses_of_a_host_have_the_time_of_one_call(self):
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
            for _ in range(4):  # a full queue: who comes now gets no answer
                queued = waiting.enter_context(socket.socket())
                queued.setblocking(False)
                queued.connect_ex(full.getsockname())
            found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", full.getsockname())] * 1000
            with unittest.mock.patch("socket.getaddrinfo", lambda *_, **__: found):
                host = self.client(["http://localhost:7400"], timeout=1)
                self.assertEqual(self.fails(host.check, {"policy": "many", "key": "k"}).code, "unavailable")

    def test_bills_and_their_corrections(self):
        limits.check({"policy": "billed", "key": "py billed", "cost": 7})
        corrected = limits.correct_usage("billed", "py billed", -2, "by a test")
        page = limits.list_usage(policy="billed", key="py billed")
        self.assertEqual(page.records, [corrected])
        self.assertEqual((page.next_page_token, page.unreadable), ("", []))
        self.assertLessEqual(corrected.start, page.complete_through)
        self.assertEqual((corrected.meter, corrected.key, corrected.state, corrected.units, corrected.credits, corrected.corrections),
                         ("calls", "py billed", "open", 7, 0, -2))
        self.assertEqual(self.fails(limits.correct_usage, "billed", "py nobody", 1, "by a test").code, "failed_precondition")
        self.assertEqual(limits.correct_usage("billed", "py nobody", 1, "by a test", new=True).corrections, 1)
        self.assertIn("units", str(self.fails(limits.correct_usage, "billed", "py billed", 0.5, "by a test")))
        lossy = self.proxy(lambda n: "drop")
        self.client([lossy.url, node.url]).correct_usage("billed", "py billed", 5, "by a test")
        self.assertEqual(len(lossy.seen[0][1]["idempotencyId"]), 36)
        self.assertEqual(limits.list_usage(policy="billed", key="py billed").records[0].corrections, 3)

    def test_64_threads_get_exactly_5_of_5(self):
        with ThreadPoolExecutor(64) as pool:
            all = list(pool.map(lambda _: limits.check({"policy": "five", "key": "py crowd"}).allowed, range(64)))
        self.assertEqual(sum(all), 5)

    def test_a_connection_that_the_node_has_closed_is_not_used_again(self):
        seen = self.proxy(lambda n: "answer")
        client = self.client([seen.url])
        client.check({"policy": "many", "key": "py stale"}, idempotency_id=None)
        for connection in client._nodes[0]._idle:
            connection.sock.shutdown(2)  # as an end that has been reached
        self.assertTrue(client.check({"policy": "many", "key": "py stale"}, idempotency_id=None).allowed)
        self.assertEqual(used("many", "py stale"), 2)

    def test_a_fork_does_not_read_its_parents_answers(self):
        client = self.client([node.url])
        client.check({"policy": "many", "key": "py fork"})
        parents = [connection.sock.getsockname() for connection in client._nodes[0]._idle]
        child = os.fork()
        if child == 0:
            try:
                client.check({"policy": "many", "key": "py fork"})
                os._exit(any(connection.sock.getsockname() in parents for connection in client._nodes[0]._idle))
            except BaseException:
                os._exit(2)
        self.assertEqual((len(parents), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), (1, 0))
        self.assertEqual(used("many", "py fork"), 2)

    def test_a_token_goes_to_https_and_to_this_machine_only(self):
        for address in ("http://192.0.2.1:7400", "http://node.example.com", "http://localhost.example.com", "http://[2001:db8::1]:7400", "http://0.0.0.0"):
            with self.assertRaisesRegex(ValueError, "not sent in the clear"):
                Stint([node.url, address], token="stint_x_y")
            Stint([address])
        for address in ("https://node.example.com", "http://localhost:7400", "http://127.1.2.3", "http://[::1]:7400", "http://[::ffff:127.0.0.1]:7400"):
            Stint([address], token="stint_x_y")
        seen = self.proxy(lambda n: "answer")
        self.client([seen.url], token="stint_x_y").check({"policy": "many", "key": "py token"})
        self.client([seen.url]).check({"policy": "many", "key": "py token"})
        self.assertEqual([headers.get("Authorization") for headers, _ in seen.seen], ["Bearer stint_x_y", None])

    def test_addresses_that_are_none_are_refused(self):
        for addresses in ([], node.url, ["localhost:7400"], ["127.0.0.1:7400"], ["ftp://x"], ["http://"], ["http://a/?b"], ["http://a:b"]):
            with self.assertRaises(ValueError):
                Stint(addresses)
        with self.assertRaises(ValueError) as caught:
            Stint(["http://u:secret@127.0.0.1"])
        self.assertNotIn("secret", str(caught.exception))

    def test_tls_and_tokens_of_a_real_node(self):
        dir = tempfile.TemporaryDirectory()
        self.addCleanup(dir.cleanup)
        secure = SecureNode(dir.name)
        self.addCleanup(secure.close)
        trusting = ssl.create_default_context(cafile=secure.certificate)
        entry = {"policy": "five", "key": "tls"}
        client = self.client([secure.url], token=secure.token, context=trusting)
        self.assertEqual([client.check(entry).allowed for _ in range(2)], [True, True])
        self.assertTrue(client.ready())
        for token in ("", "stint_x_y"):
            e = self.fails(self.client([secure.url], token=token, context=trusting).check, entry)
            self.assertEqual((e.code, e.maybe_applied, e.no_decision), ("unauthenticated", False, False))
        e = self.fails(self.client([secure.url], timeout=3).check, entry)
        self.assertEqual((e.code, e.maybe_applied), ("unavailable", False))
        e = self.fails(self.client([secure.url.replace("https", "http")]).check, entry)
        self.assertEqual((e.code, e.maybe_applied), ("failed_precondition", False))

    def test_ready(self):
        self.assertTrue(limits.ready())
        self.assertFalse(Stint([refused_port()]).ready())


class Keys(unittest.TestCase):
    def test_outside_text(self):
        self.assertEqual(safe_key("user:42"), "user:42")
        self.assertEqual(safe_key("{a}%\n=|"), "%7Ba%7D%25%0A%3D%7C")
        self.assertEqual(safe_key("\u0085"), "%C2%85")
        self.assertEqual(safe_key({"a": "x|b=y", "b": "z"}), "a=x%7Cb%3Dy|b=z")
        self.assertEqual(safe_key({"route": "/x/{y}", "user": "z"}), "route=%2Fx%2F%7By%7D|user=z", "no part makes a parent")
        self.assertEqual(safe_key("vendor:acme/product:x"), "vendor:acme/product:x")
        self.assertNotEqual(safe_key({"a": "x_y", "b": "z"}), safe_key({"a": "x", "b": "y_z"}))
        for missing in ("", None, 5, {}, {"a": ""}, {"a": None, "b": "x"}, "\ud800"):
            self.assertIsNone(safe_key(missing))
        long = "ü" * 400
        self.assertLessEqual(len(safe_key(long).encode()), 512)
        self.assertNotEqual(safe_key(long), safe_key(long + "x"))
        self.assertNotEqual(safe_key(safe_key(long)), safe_key(long))
        self.assertEqual(safe_key("a" * 600), "a" * 447 + "|" + hashlib.sha256(b"a" * 153).hexdigest())

    def test_the_client_address(self):
        def wsgi(peer, xff):
            return {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": xff} if xff is not None else {"REMOTE_ADDR": peer}

        def asgi(peer, xff):
            lines = [(b"x-forwarded-for", line.encode()) for line in (xff.split(",") if xff is not None else [])]
            return {"client": (peer, 1234), "headers": lines}

        ip = client_ip(trusted_proxies=["10.0.0.0/8", "fd00::/8", "192.0.2.9"])
        for peer, xff, want in (
            ("192.0.2.1", "1.1.1.1", "ip:192.0.2.1"),
            ("10.0.0.1", "9.9.9.9", "ip:9.9.9.9"),
            ("::ffff:10.0.0.1", "6.6.6.6, 9.9.9.9 , 10.0.0.2,192.0.2.9", "ip:9.9.9.9"),
            ("10.0.0.1", "9.9.9.9, junk", None),
            ("10.0.0.1", "", None),
            ("10.0.0.1", None, None),
            ("10.0.0.1", "9.9.9.9,", None),
            ("10.0.0.1", "junk, 9.9.9.9", "ip:9.9.9.9"),
            ("10.0.0.1", "10.0.0.7", "ip:10.0.0.7"),
            ("fd00::1", "[2001:db8:1:2:3:4:5:6]:443", "ip:2001:db8:1:2::"),
            ("10.0.0.1", "2001:db8::9%eth0", "ip:2001:db8::"),
            ("10.0.0.1", "64:ff9b::203.0.113.7", "ip:203.0.113.7"),
            ("10.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "ip:192.0.2.45"),
            ("10.0.0.1", "64:ff9b:1::203.0.113.7", "ip:64:ff9b:1::"),
            ("10.0.0.1", "::ffff:9.9.9.9", "ip:9.9.9.9"),
            ("10.0.0.1", "::1", "ip:::"),
            ("10.0.0.1", "01.2.3.4", None),
            (None, "9.9.9.9", None),
        ):
            for request in (wsgi, asgi):
                self.assertEqual(ip(request(peer, xff)), want, (peer, xff, request))
                self.assertEqual(client_ip()(request("192.0.2.1", xff)), "ip:192.0.2.1")
        platform = client_ip(header="CF-Connecting-IP")
        self.assertEqual(platform({"HTTP_CF_CONNECTING_IP": "9.9.9.9", "REMOTE_ADDR": "10.0.0.1"}), "ip:9.9.9.9")
        self.assertEqual(platform({"headers": [(b"cf-connecting-ip", b"9.9.9.9")], "client": ("10.0.0.1", 1)}), "ip:9.9.9.9")
        self.assertIsNone(platform({"headers": [], "client": ("10.0.0.1", 1)}))
        for wrong in ({"header": "X-Forwarded-For"}, {"trusted_proxies": ["10.0.0"]}, {"trusted_proxies": "10.0.0.0/8"}, {"header": "a", "trusted_proxies": ["::1"]}):
            with self.assertRaises(ValueError):
                client_ip(**wrong)


def by_user(request):
    return stint._header(request, "X-User")


class Middleware(Case):
    def wsgi(self, entries, **options):
        """Serves an application behind a middleware, and returns its base URL."""
        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", "application/json"), ("RateLimit", "of the application")])
            return [json.dumps(environ["stint"].limits[0].used if environ["stint"] else "unasked").encode()]

        class Quiet(wsgiref.simple_server.WSGIRequestHandler):
            def log_message(self, *args):
                pass

            def get_stderr(self):
                return io.StringIO()

        class Server(wsgiref.simple_server.WSGIServer):
            def handle_error(self, *args):
                pass

        middleware = WSGILimit(app, options.pop("limits", limits), entries, **options)
        server = wsgiref.simple_server.make_server("127.0.0.1", 0, middleware, Server, Quiet)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), thread.join(), server.server_close()))
        return f"http://127.0.0.1:{server.server_port}"

    def asgi(self, entries, headers=(), kind="http", **options):
        """Sends one request through a middleware, and returns status, headers and body."""
        async def app(scope, receive, send):
            decision = scope.get("state", {}).get("stint")
            await send({"type": "http.response.start", "status": 200, "headers": [(b"RateLimit", b"of the application")]})
            await send({"type": "http.response.body", "body": json.dumps(decision.limits[0].used if decision else "unasked").encode()})

        messages = []

        async def send(message):
            messages.append(message)

        middleware = ASGILimit(app, options.pop("limits", limits), entries, **options)
        scope = {"type": kind, "headers": list(headers), "client": ("192.0.2.77", 1)}
        asyncio.run(middleware(scope, None, send))
        return messages[0]["status"], [(k.decode(), v.decode()) for k, v in messages[0]["headers"]], messages[1]["body"]

    def test_asgi_a_wait_for_a_thread_is_a_part_of_the_time(self):
        async def app(scope, receive, send):
            passed.append(scope["state"]["stint"])

        async def late():
            loop, free = asyncio.get_running_loop(), threading.Event()
            loop.set_default_executor(ThreadPoolExecutor(1))
            busy = loop.run_in_executor(None, free.wait)
            middleware = ASGILimit(app, limits, [{"policy": "five", "key": lambda _: "py late"}], fail="open", timeout=0.05, on_error=told.append)
            waits = [asyncio.ensure_future(middleware({"type": "http", "headers": []}, None, None)),
                     asyncio.ensure_future(asked.check({"policy": "five", "key": "py late"}, timeout=0.05))]
            await asyncio.sleep(0)  # both have asked for the thread
            time.sleep(0.06)
            free.set()
            await busy
            return (await asyncio.gather(*waits, return_exceptions=True))[1]

        told, passed, asked = [], [], AsyncStint([node.url])
        self.addCleanup(asked._blocking.close)
        error = asyncio.run(late())
        self.assertEqual([(type(e), e.no_decision, e.maybe_applied) for e in [error, *told]], [(StintError, True, False)] * 2)
        self.assertEqual(passed, [None])
        self.assertEqual(limits.get({"policy": "five", "key": "py late"})[0].used, 0)

    def test_wsgi_exactly_five_then_429(self):
        url = self.wsgi([{"policy": "five", "key": by_user}], fail="closed")
        for i in range(1, 6):
            status, headers, body = ask(url, {"X-User": "py ann"})
            self.assertEqual((status, headers["ratelimit"], json.loads(body)), (200, f'"ever";r={5 - i}', i))
            self.assertEqual(headers["access-control-expose-headers"], "RateLimit, RateLimit-Policy")
        status, headers, body = ask(url, {"X-User": "py ann"})
        self.assertEqual((status, headers["cache-control"], headers["content-type"]), (429, "no-store", "application/problem+json"))
        self.assertNotIn("retry-after", headers)
        self.assertEqual(json.loads(body), {"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                                            "title": "Too many requests", "status": 429, "violated-policies": ["five/ever"]})

    def test_wsgi_an_answer_to_head_has_no_body(self):
        url = self.wsgi([{"policy": "five", "key": lambda _: None}], fail="closed")
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as sock:
            sock.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            head, _, body = sock.makefile("rb").read().partition(b"\r\n\r\n")
        self.assertIn(b" 400 ", head)
        self.assertRegex(head, rb"Content-Length: [1-9]")
        self.assertEqual(body, b"")

    def test_wsgi_a_challenge_is_a_403_with_its_code(self):
        url = self.wsgi([{"policy": "soft", "key": by_user}], fail="closed")
        self.assertEqual(ask(url, {"X-User": "py soft"})[0], 200)
        status, headers, body = ask(url, {"X-User": "py soft"})
        self.assertEqual(status, 403)
        self.assertEqual(json.loads(body), {"type": "urn:stint:problem:challenge", "title": "Challenge required", "status": 403,
                                            "code": "challenge", "detail": "Are you a robot?", "violated-policies": ["soft/challenge"]})
        decision = limits.check({"policy": "soft", "key": "py soft"})
        self.assertEqual((decision.challenge, [l.soft for l in decision.limits]), (True, [True, False]))

    def test_wsgi_a_forged_address_is_not_read_and_retry_after(self):
        url = self.wsgi([{"policy": "window", "key": client_ip()}], fail="closed")
        statuses = [ask(url, {"X-Forwarded-For": f"198.51.100.{i}"}) for i in range(4)]
        self.assertEqual([s[0] for s in statuses], [200, 200, 200, 429])
        self.assertGreaterEqual(int(statuses[3][1]["retry-after"]), 1)

    def test_wsgi_the_proxys_line_counts_and_not_the_clients(self):
        url = self.wsgi([{"policy": "window", "key": client_ip(trusted_proxies=["127.0.0.1"])}], fail="closed")
        statuses = []
        for i in range(4):  # a proxy that adds a line of its own below the client's
            connection = http.client.HTTPConnection(url[7:], timeout=60)
            self.addCleanup(connection.close)
            connection.putrequest("GET", "/")
            connection.putheader("X-Forwarded-For", f"198.51.100.{i}")
            connection.putheader("X-Forwarded-For", "203.0.113.50")
            connection.endheaders()
            statuses.append(connection.getresponse().status)
        self.assertEqual(statuses, [200, 200, 200, 429])
        self.assertEqual(used("window", "ip:203.0.113.50"), 3)

    def test_wsgi_entries_are_all_or_nothing(self):
        url = self.wsgi([{"policy": "window", "key": by_user}, {"policy": "many", "key": lambda e: {"user": by_user(e)}, "cost": lambda e: 7}], fail="closed")
        self.assertEqual([ask(url, {"X-User": "py {both}"})[0] for _ in range(4)], [200, 200, 200, 429])
        self.assertEqual(used("many", "user=py %7Bboth%7D"), 21)

    def test_without_a_key(self):
        entries = [{"policy": "many", "key": by_user}]
        for serve in (lambda **o: ask(self.wsgi(entries, fail="open", **o)), lambda **o: self.asgi(entries, fail="open", **o)):
            self.assertEqual(serve()[0], 400)
            self.assertEqual(json.loads(serve(on_missing="skip")[2]), "unasked")
            before = used("many", "shared")
            self.assertEqual(serve(on_missing="shared")[0], 200)
            self.assertEqual(used("many", "shared"), before + 1)

    def test_no_decision_by_fail_mode_and_a_mistake_is_never_open(self):
        errors = []
        entries = [{"policy": "five", "key": lambda request: "py k"}]
        for serve in (lambda e, **o: (lambda s, h, b: (s, h, b))(*ask(self.wsgi(e, **o))), lambda e, **o: (lambda s, h, b: (s, dict(h), b))(*self.asgi(e, **o))):
            status, headers, _ = serve(entries, limits=nowhere, fail="closed", on_error=errors.append)
            self.assertEqual((status, headers["retry-after"]), (503, "1"))
            self.assertEqual(headers["access-control-expose-headers"], "Retry-After")
            status, headers, _ = serve(entries, limits=nowhere, fail="open", on_error=errors.append)
            self.assertEqual((status, headers["stint-failed"]), (200, "open"))
            self.assertEqual(serve([{"policy": "known", "key": lambda r: "invented"}], fail="open")[0], 403)
        self.assertEqual([e.code for e in errors], ["internal"] * 4)
        for fail in ("open", "closed"):  # a policy that does not exist is our mistake, never a denial
            self.assertEqual(ask(self.wsgi([{"policy": "nope", "key": lambda r: "k"}], fail=fail))[0], 500)
            with self.assertRaises(StintError):
                self.asgi([{"policy": "nope", "key": lambda r: "k"}], fail=fail)

    def test_a_key_without_room_never_passes(self):
        answers = [ask(self.wsgi([{"policy": "few", "key": lambda r: f"py {i}"}], fail="open"))[:2] for i in range(2)]
        self.assertEqual({(status, headers.get("stint-failed")) for status, headers in answers if status != 200}, {(503, None)})
        self.assertFalse(any(headers.get("stint-failed") for _, headers in answers))

    def test_asgi(self):
        entries = [{"policy": "five", "key": by_user}]
        for i in range(1, 6):
            status, headers, body = self.asgi(entries, [(b"x-user", b"py asgi")], fail="closed")
            self.assertEqual((status, json.loads(body)), (200, i))
            self.assertEqual([v for k, v in headers if k == "ratelimit"], [f'"ever";r={5 - i}'])
        status, headers, body = self.asgi(entries, [(b"x-user", b"py asgi")], fail="closed")
        self.assertEqual((status, json.loads(body)["status"]), (429, 429))
        self.assertEqual(json.loads(self.asgi(entries, kind="lifespan", fail="closed")[2]), "unasked")

    def test_options_that_would_be_a_trap_are_refused(self):
        key = client_ip()
        for entries, options, says in (
            ([], {"fail": "open"}, "entries"), ([{"key": key}], {"fail": "open"}, "policy"), ([{"policy": "a"}], {"fail": "open"}, "key"),
            ([{"policy": "a", "key": "k"}], {"fail": "open"}, "key"), ([{"policy": "a", "key": key}], {"fail": "maybe"}, "fail"),
            ([{"policy": "a", "key": key}], {"fail": "open", "on_missing": "allow"}, "on_missing"),
            ([{"policy": "a", "key": key}], {"fail": "open", "idempotency_id": "one"}, "idempotency_id"),
        ):
            for middleware in (WSGILimit, ASGILimit):
                with self.assertRaisesRegex(ValueError, says):
                    middleware(None, limits, entries, **options)
        with self.assertRaises(TypeError):
            WSGILimit(None, limits, [{"policy": "a", "key": key}])


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.limits = AsyncStint([node.url], timeout=20)
        self.addAsyncCleanup(self.limits.close)

    async def test_calls_at_once_are_exact(self):
        decisions = await asyncio.gather(*(self.limits.check({"policy": "five", "key": "async"}) for _ in range(32)))
        self.assertEqual(sum(d.allowed for d in decisions), 5)
        self.assertEqual((await self.limits.get({"policy": "five", "key": "async"}))[0].used, 5)
        await self.limits.adjust("five", "async", "reset")
        self.assertTrue((await self.limits.check({"policy": "five", "key": "async"}, mode="peek")).allowed)
        with self.assertRaises(StintError):
            await self.limits.check({"policy": "nope", "key": "async"})

    async def test_an_attempt_is_settled_by_the_end_of_its_block(self):
        def login():
            return self.limits.attempt({"policy": "login", "key": "async"}, ttl=30, done="success", raised="failed")

        async with login() as attempt:
            self.assertTrue(attempt.allowed)
        for _ in range(3):
            with self.assertRaises(KeyError):
                async with login():
                    raise KeyError("wrong password")
        async with login() as attempt:
            self.assertFalse(attempt.allowed, "the third failure blocks")

    async def test_every_call_of_the_client_is_there(self):
        for name, member in vars(Stint).items():
            self.assertTrue(name.startswith("_") or not callable(member) or hasattr(AsyncStint, name), name)


class Package(unittest.TestCase):
    def test_the_built_file_has_all_that_it_needs(self):
        with tempfile.TemporaryDirectory() as dir:
            source, built, installed = (os.path.join(dir, name) for name in ("source", "built", "installed"))
            shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("test", "__pycache__"))
            build = "import sys, setuptools.build_meta as b; print(b.build_wheel(sys.argv[1]))"
            made = subprocess.run([sys.executable, "-c", build, built], cwd=source, capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(os.listdir(built), [f"stint_client-{stint.__version__}-py3-none-any.whl"])
            with zipfile.ZipFile(os.path.join(built, os.listdir(built)[0])) as wheel:
                wheel.extractall(installed)  # which is what pip does
                [license] = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
            self.assertTrue(filecmp.cmp(os.path.join(installed, license), os.path.join(ROOT, "LICENSE"), shallow=False))
            self.assertTrue(os.path.exists(os.path.join(installed, "stint", "py.typed")), "checkers of types look for it (PEP 561)")
            asks = ("import importlib.metadata as m, stint, stint_limits; print(m.version('stint-client'), stint.__file__, "
                    "stint.Stint([" + repr(node.url) + "]).check({'policy': 'five', 'key': 'installed'}).allowed)")
            asked = subprocess.run([sys.executable, "-c", asks], cwd=dir, env={**os.environ, "PYTHONPATH": installed}, capture_output=True, text=True)
            self.assertEqual(asked.stdout.split(), [stint.__version__, os.path.join(installed, "stint", "__init__.py"), "True"], asked.stderr)


class Readme(unittest.TestCase):
    def test_its_code_runs(self):
        example = Node(os.path.join(ROOT, "policy", "dev.yaml"))
        self.addCleanup(example.close)
        blocks = []
        for name in (os.path.join(HERE, "README.md"), os.path.join(ROOT, "docs", "errors.md")):
            with open(name, encoding="utf-8") as page:
                blocks += re.findall(r"^```py\n(.*?)^```", page.read(), re.M | re.S)
        self.assertEqual(len(blocks), 6)
        for block in blocks:
            names = {"__name__": "readme"}
            block = block.replace("127.0.0.1:7400", example.url[7:])
            exec(compile(block, "README.md", "exec"), names)
            if "FastAPI" in names:
                statuses = [asyncio.run(get(names["app"], "/login")) for _ in range(6)]
                self.assertEqual(statuses, [200] * 5 + [429])
                names["limits"] = names["limits"]._blocking
            (names["storage"]._limits if "storage" in names else names["limits"]).close()


async def get(app, path):
    """The status of a page of an ASGI application."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    await app({"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
               "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [], "client": ("192.0.2.7", 1),
               "server": ("app", 80)}, receive, send)
    return sent[0]["status"]


if __name__ == "__main__":
    unittest.main()
