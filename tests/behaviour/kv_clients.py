#!/usr/bin/env python3
"""Clients that know nothing of Atoll use a cluster of two nodes: redis-py, redis-cli, redis-benchmark, hiredis."""
import os
import pty
import subprocess
import threading
import time
import unittest

import kv_cluster

try:
    import redis
except ImportError:
    kv_cluster.fail_without("python3-redis")


class KvTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = kv_cluster.Cluster(2)
        cls.a, cls.b = (redis.Redis(port=port, socket_timeout=kv_cluster.PATIENCE, decode_responses=True)
                        for port in cls.cluster.ports)

    @classmethod
    def tearDownClass(cls):
        cls.a.close()
        cls.b.close()
        cls.cluster.stop()

    def setUp(self):
        self.a.flushall()


class RedisPy(KvTest):
    def test_strings(self):
        a, b = self.a, self.b
        self.assertTrue(a.set("key", "value"))
        self.assertEqual(b.get("key"), "value")
        self.assertIsNone(b.get("none"))
        self.assertIsNone(a.set("key", "other", nx=True))
        self.assertEqual(a.set("key", "other", xx=True, get=True), "value")
        self.assertEqual(b.getset("key", "third"), "other")
        self.assertEqual(b.getdel("key"), "third")
        self.assertTrue(a.setnx("key", "1"))
        self.assertFalse(b.setnx("key", "2"))
        self.assertEqual([b.incr("key"), a.incrby("key", 10), b.decr("key"), a.decrby("key", 5)], [2, 12, 11, 6])
        self.assertEqual(a.append("key", "abc"), 4)
        self.assertEqual(b.strlen("key"), 4)
        self.assertEqual(b.getrange("key", 1, 2), "ab")
        self.assertTrue(a.mset({"x": 1, "y": 2}))
        self.assertEqual(b.mget("x", "none", "y"), ["1", None, "2"])
        self.assertFalse(b.msetnx({"y": 3, "z": 3}))
        self.assertTrue(b.msetnx({"z": 3, "w": 4}))
        self.assertEqual(a.exists("x", "y", "z", "w", "none"), 4)
        self.assertEqual(a.delete("x", "none", "y"), 2)
        self.assertEqual(b.unlink("z"), 1)
        self.assertEqual(b.type("w"), "string")
        self.assertEqual(sorted(b.keys("*")), ["key", "w"])
        self.assertEqual(a.dbsize(), 2)
        self.assertIn(a.randomkey(), ["key", "w"])

    def test_any_bytes(self):
        binary = redis.Redis(port=self.cluster.ports[0])
        key, value = bytes(range(256)), b"\r\n\0*$" * 100_000
        binary.set(key, value)
        self.assertEqual(redis.Redis(port=self.cluster.ports[1]).get(key), value)

    def test_expiry(self):
        a, b = self.a, self.b
        a.set("key", "value", ex=100)
        self.assertTrue(90 < b.ttl("key") <= 100)
        self.assertTrue(90_000 < b.pttl("key") <= 100_000)
        self.assertTrue(b.persist("key"))
        self.assertEqual(a.ttl("key"), -1)
        self.assertEqual(a.ttl("none"), -2)
        self.assertTrue(a.expire("key", 50))
        self.assertTrue(a.pexpire("key", 60_000))
        self.assertTrue(a.expireat("key", int(time.time()) + 100))
        self.assertTrue(a.pexpireat("key", int(time.time() * 1000) + 100_000))
        self.assertFalse(a.execute_command("EXPIRE", "key", 1, "NX"))
        self.assertTrue(b.getex("key", ex=70) == "value" and 60 < a.ttl("key") <= 70)
        a.setex("second", 1000, "x")
        a.psetex("third", 1, "y")
        kv_cluster.eventually(lambda: b.get("third") is None, "a key expires")
        self.assertEqual(b.exists("third"), 0)
        # What nobody asks for goes too.
        for i in range(300):
            a.set(f"short{i}", "x", px=1)
        kv_cluster.eventually(lambda: b.dbsize() == 2, "the sweeper erases what has expired")

    def test_scan(self):
        with self.a.pipeline(transaction=False) as pipeline:
            for i in range(2000):
                pipeline.set(f"key:{i}", i)
            pipeline.execute()
        self.assertEqual(len(set(self.b.scan_iter("key:*", count=100))), 2000)
        self.assertEqual(sorted(self.b.scan_iter("key:199?")), sorted(f"key:199{i}" for i in range(10)))
        self.assertEqual(self.a.dbsize(), 2000)
        self.b.flushdb()
        self.assertEqual(self.a.dbsize(), 0)

    def test_pipelines(self):
        with self.a.pipeline(transaction=False) as pipeline:
            for i in range(5000):
                pipeline.set(f"k{i % 7}", i).get(f"k{i % 7}")
            answers = pipeline.execute()
        self.assertEqual(answers[1::2], [str(i) for i in range(5000)])
        self.assertTrue(all(answers[0::2]))

    def test_errors(self):
        for words, text in ((("FOO", "a"), "unknown command 'FOO', with args beginning with: 'a'"),
                            (("GET",), "wrong number of arguments for 'get' command"),
                            (("SET", "a", "b", "EX"), "syntax error"),
                            (("INCRBY", "a", "x"), "value is not an integer or out of range"),
                            (("SELECT", "5"), "DB index is out of range"),
                            (("GET", "k" * 2000), "the key is longer than 1024 bytes")):
            with self.assertRaisesRegex(redis.ResponseError, text):
                self.a.execute_command(*words)

    def test_about_itself(self):
        info = self.b.info()
        self.assertEqual((info["redis_version"], info["atoll_node"], info["atoll_nodes"]), ("7.0.0", 1, 2))
        self.a.set("a", 1)
        self.assertEqual(self.b.info("keyspace")["db0"]["keys"], 1)
        self.assertEqual(self.a.config_get("appendonly"), {"appendonly": "no"})
        self.assertEqual(self.a.config_get("save"), {"save": ""})
        self.assertIn("get", self.a.command())
        self.assertGreater(self.a.command_count(), 40)
        self.a.client_setname("me")
        self.assertEqual(self.a.client_getname(), "me")
        self.assertIsInstance(self.a.client_id(), int)
        self.assertEqual(self.a.echo("x"), "x")
        self.assertTrue(self.a.ping())

    def test_watch(self):
        self.a.set("balance", 10)

        def withdraw(pipeline):
            balance = int(pipeline.get("balance"))
            pipeline.multi()
            pipeline.set("balance", balance - 1)

        threads = [threading.Thread(target=lambda r=r: [r.transaction(withdraw, "balance") for _ in range(5)])
                   for r in (self.a, self.b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.b.get("balance"), "0")


class Isolation(KvTest):
    def test_transactions_are_atomic(self):
        """Clients of both nodes move amounts from one account to another; the sum never changes for anybody."""
        self.a.mset({"x": 500, "y": 500, "moves": 0})
        rounds, wrong = 150, []

        def move(port, source, target):
            client = redis.Redis(port=port)
            for i in range(rounds):
                client.pipeline().decrby(source, i).incrby(target, i).incr("moves").execute()

        def look(port):
            client = redis.Redis(port=port)
            for i in range(rounds):
                if i % 2 == 0:
                    x, y = client.mget("x", "y")
                else:
                    x, y = client.pipeline().get("x").get("y").execute()
                if int(x) + int(y) != 1000:
                    wrong.append((x, y))

        jobs = [(move, (port, *pair)) for port in self.cluster.ports for pair in (("x", "y"), ("y", "x"))]
        jobs += [(look, (port,)) for port in self.cluster.ports for _ in range(2)]
        threads = [threading.Thread(target=f, args=arguments) for f, arguments in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.b.mget("x", "y", "moves"), ["500", "500", str(4 * rounds)])

    def test_counters_lose_nothing(self):
        def count(port):
            client = redis.Redis(port=port)
            for _ in range(20):
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(50):
                        pipeline.incr("counter")
                    pipeline.execute()

        threads = [threading.Thread(target=count, args=(port,)) for port in self.cluster.ports * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.a.get("counter"), "4000")

    def test_what_is_set_is_seen_by_all_at_once(self):
        for i in range(300):
            writer, reader = (self.a, self.b) if i % 2 == 0 else (self.b, self.a)
            writer.set("seen", i)
            self.assertEqual(reader.get("seen"), str(i))


class Programs(KvTest):
    def run_program(self, *words, **options):
        return subprocess.run(words, capture_output=True, text=True, timeout=kv_cluster.PATIENCE, check=True, **options).stdout

    def test_redis_cli(self):
        first, second = (str(port) for port in self.cluster.ports)
        self.assertEqual(self.run_program("redis-cli", "-p", first, "SET", "a", "1"), "OK\n")
        self.assertEqual(self.run_program("redis-cli", "-p", second, "GET", "a"), "1\n")
        self.assertIn("proto", self.run_program("redis-cli", "-3", "-p", second, "HELLO"))
        script = "MULTI\nINCR a\nGET a\nEXEC\n"
        self.assertEqual(self.run_program("redis-cli", "-p", second, input=script), "OK\nQUEUED\nQUEUED\n2\n2\n")
        self.assertIn("a", self.run_program("redis-cli", "-p", second, "--scan"))

    def test_redis_cli_with_a_terminal(self):
        """It asks for the documentation of all commands then."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(["redis-cli", "-p", str(self.cluster.ports[0])], stdin=theirs, stdout=theirs,
                                   stderr=theirs, close_fds=True, env={**os.environ, "TERM": "dumb"})
        os.close(theirs)
        os.write(ours, b"SET a hello-from-a-terminal\nGET a\nquit\n")
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass  # how the end of a terminal shows
        self.assertEqual(process.wait(timeout=kv_cluster.PATIENCE), 0)
        os.close(ours)
        self.assertIn(b'"hello-from-a-terminal"', shown)

    def test_redis_benchmark(self):
        for port in self.cluster.ports:
            shown = self.run_program("redis-benchmark", "-p", str(port), "-q", "-n", "2000", "-c", "20", "-P", "16", "-r",
                                     "1000", "-t", "ping,set,get,incr,mset")
            self.assertEqual(shown.count("requests per second"), 6, shown)
            self.assertNotIn("rror", shown)

    def test_hiredis(self):
        self.run_program(os.environ["ATOLL_KV_HIREDIS"], *(str(port) for port in self.cluster.ports))


if __name__ == "__main__":
    unittest.main()
