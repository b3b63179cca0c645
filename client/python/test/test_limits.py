import asyncio
import os
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

try:
    import limits
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the tests need the package limits: Debian has it in python3-limits") from error
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

import stint_limits
from server import Node, refused_port
from stint import StintError


def setUpModule():
    global node, storage
    node = Node()
    storage = limits.storage.storage_from_string("stint://" + node.url[7:], timeout=20)


def tearDownModule():
    storage._limits.close()
    node.close()


def now():
    """The cluster's time, in Unix seconds."""
    return storage._limits.check({"policy": "many", "key": "now"}).decided_at.timestamp()


class Storage(unittest.TestCase):
    def test_the_uri_names_the_nodes(self):
        self.assertIsInstance(storage, stint_limits.StintStorage)
        two = limits.storage.storage_from_string(f"stint://{refused_port()[7:]},{node.url[7:]}", timeout=20)
        self.assertEqual(two.incr("LIMITER/two/9/1/hour", 3600), 1)
        two._limits.close()
        for uri in ("stint://", "stint://a/b", "stint://a?token=x", "stint://u:p@a"):
            with self.assertRaises(ValueError):
                limits.storage.storage_from_string(uri)
        with self.assertRaisesRegex(ValueError, "in the clear"):
            limits.storage.storage_from_string("stint://192.0.2.1:7400", token="stint_x_y")
        limits.storage.storage_from_string("stint+https://192.0.2.1:7400", token="stint_x_y")

    def test_fixed_window(self):
        limiter = FixedWindowRateLimiter(storage)
        item = limits.parse("5/hour")
        before = now()
        self.assertTrue(limiter.test(item, "ann"))
        with ThreadPoolExecutor(32) as pool:
            hits = list(pool.map(lambda _: limiter.hit(item, "ann"), range(32)))
        self.assertEqual(sum(hits), 5)
        self.assertFalse(limiter.test(item, "ann"))
        reset, remaining = limiter.get_window_stats(item, "ann")
        self.assertEqual(remaining, 0)
        self.assertTrue(int(before) + 3600 <= reset <= now() + 3600, "the window begins with the first hit")
        self.assertEqual(storage.get(item.key_for("ann")), 32)
        self.assertEqual(limiter.get_window_stats(item, "bob")[1], 5)
        self.assertTrue(limiter.hit(item, "bob", cost=5))
        self.assertFalse(limiter.hit(item, "bob"))
        self.assertTrue(limiter.hit(limits.parse("5/minute"), "bob"), "another window counts apart")

    def test_moving_window(self):
        limiter = MovingWindowRateLimiter(storage)
        item = limits.parse("5/hour")
        self.assertEqual(limiter.get_window_stats(item, "eve")[1], 5)
        before = now()
        self.assertTrue(limiter.hit(item, "eve", cost=2))
        self.assertEqual(limiter.get_window_stats(item, "eve")[1], 3)
        with ThreadPoolExecutor(32) as pool:
            hits = list(pool.map(lambda _: limiter.hit(item, "eve"), range(32)))
        self.assertEqual(sum(hits), 3)
        self.assertFalse(limiter.test(item, "eve"))
        reset, remaining = limiter.get_window_stats(item, "eve")
        self.assertEqual(remaining, 0)
        self.assertTrue(int(before) + 3600 <= reset <= now() + 3600, "the oldest hit leaves after an hour")
        self.assertFalse(limiter.hit(item, "big", cost=6))
        self.assertTrue(limiter.hit(item, "big", cost=5))

    # The strategy of limits 4.1 and later; Debian's is older, so there the storage is asked as the strategy asks it.
    def test_sliding_window_counter(self):
        item, strategy = limits.parse("5/hour"), getattr(limits.strategies, "SlidingWindowCounterRateLimiter", None)
        key = item.key_for("sue")
        self.assertEqual(storage.get_sliding_window(key, 3600)[:3], (0, 0.0, 0))
        with ThreadPoolExecutor(32) as pool:
            hits = list(pool.map(lambda _: storage.acquire_sliding_window_entry(key, 5, 3600), range(32)))
        self.assertEqual(sum(hits), 5)
        previous, weight, used, wait = storage.get_sliding_window(key, 3600)
        self.assertEqual((previous, weight), (0, 0.0))
        self.assertTrue(used <= 5 and 0 < wait < 3600, (used, wait))
        big = item.key_for("sue's twin")
        self.assertFalse(storage.acquire_sliding_window_entry(big, 5, 3600, 6))
        self.assertTrue(storage.acquire_sliding_window_entry(big, 5, 3600, 5))
        with self.assertRaises(NotImplementedError):
            storage.clear_sliding_window(key, 3600)
        if strategy is not None:
            limiter = strategy(storage)
            self.assertEqual(limiter.get_window_stats(item, "tom").remaining, 5)
            self.assertEqual([limiter.hit(item, "tom", cost=3), limiter.hit(item, "tom", cost=3)], [True, False])
            self.assertTrue(limiter.test(item, "tom", cost=2))
            self.assertEqual(limiter.get_window_stats(item, "tom").remaining, 2)

    def test_the_window_ends(self):
        limiter = FixedWindowRateLimiter(storage)
        item = limits.parse("1/second")
        self.assertTrue(limiter.hit(item, "ends"))
        while not limiter.hit(item, "ends"):
            pass
        self.assertLessEqual(storage.get(item.key_for("ends")), 1)

    def test_asyncio(self):
        asynchronous = limits.storage.storage_from_string("async+stint://" + node.url[7:], timeout=20)
        self.addCleanup(asynchronous._blocking._limits.close)
        item = limits.parse("5/hour")

        async def hits(limiter, user):
            allowed = await asyncio.gather(*(limiter.hit(item, user) for _ in range(16)))
            return sum(allowed), (await limiter.get_window_stats(item, user))[1], await limiter.test(item, user)

        for name in ("FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"):
            strategy = getattr(limits.aio.strategies, name, None)
            if strategy is None:  # limits before 4.1
                continue
            self.assertEqual(asyncio.run(hits(strategy(asynchronous), strategy.__name__)), (5, 0, False))
        self.assertFalse(FixedWindowRateLimiter(storage).test(item, "FixedWindowRateLimiter"), "both storages count together")
        self.assertTrue(asyncio.run(asynchronous.check()))
        with self.assertRaises(NotImplementedError):
            asyncio.run(asynchronous.reset())

    def test_what_is_not_there_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "elastic"):
            storage.incr("LIMITER/ann/5/1/hour", 3600, elastic_expiry=True)
        with self.assertRaisesRegex(NotImplementedError, "reset"):
            storage.clear("LIMITER/ann/5/1/hour")
        with self.assertRaises(NotImplementedError):
            storage.reset()
        with self.assertRaisesRegex(ValueError, "how long"):
            storage.get("a key of somebody")

    def test_no_decision_is_an_error(self):
        dead = limits.storage.storage_from_string("stint://" + refused_port()[7:], timeout=0.1)
        with self.assertRaises(StintError):
            FixedWindowRateLimiter(dead).hit(limits.parse("5/hour"), "ann")
        with self.assertRaises(StintError):
            MovingWindowRateLimiter(dead).hit(limits.parse("5/hour"), "ann")
        self.assertFalse(dead.check())
        self.assertTrue(storage.check())


if __name__ == "__main__":
    unittest.main()
