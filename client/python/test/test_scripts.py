"""The package limits with its own storage for Redis, whose scripts stint knows."""

import os
import socket
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import limits
import redis
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

from server import POLICIES, Node


def setUpModule():
    global node, storage
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = Node(POLICIES, "--redis-addr", f"127.0.0.1:{port}")
    storage = limits.storage.storage_from_string(f"redis://127.0.0.1:{port}")


def tearDownModule():
    storage.storage.close()
    storage.storage.connection_pool.disconnect()
    node.close()


def all_hits(limiter, item, cost=1):
    with ThreadPoolExecutor(16) as pool:
        return sum(pool.map(lambda _: limiter.hit(item, "ann", cost=cost), range(32)))


class Scripts(unittest.TestCase):
    def test_fixed_window(self):
        limiter, item = FixedWindowRateLimiter(storage), limits.parse("5/day")
        self.assertEqual(all_hits(limiter, item), 5)
        self.assertFalse(limiter.test(item, "ann"))
        reset, remaining = limiter.get_window_stats(item, "ann")
        self.assertEqual(remaining, 0)
        self.assertTrue(storage.storage.ttl(item.key_for("ann")) > 80_000, "the window ends a day after its first hit")
        limiter.clear(item, "ann")
        self.assertTrue(limiter.hit(item, "ann", cost=5))
        self.assertFalse(limiter.hit(item, "ann"))

    def test_moving_window(self):
        limiter, item = MovingWindowRateLimiter(storage), limits.parse("5/day")
        self.assertEqual(all_hits(limiter, item, cost=2), 2)
        self.assertTrue(limiter.hit(item, "ann"))
        self.assertFalse(limiter.hit(item, "ann"))
        self.assertFalse(limiter.hit(item, "bob", cost=6))
        limiter.clear(item, "ann")
        self.assertTrue(limiter.hit(item, "ann", cost=5))

    def test_an_unknown_script_is_refused(self):
        limiter, item = MovingWindowRateLimiter(storage), limits.parse("5/day")
        with self.assertRaisesRegex(redis.exceptions.ResponseError, "3136f0028c572d2959b5cdc5ec15b287fab6a9ff is not known"):
            limiter.get_window_stats(item, "ann")


if __name__ == "__main__":
    unittest.main()
