#!/usr/bin/env python3
"""Clients that behave badly, passwords, and what `atoll kv serve` does when it cannot start: it goes on for the others."""
import os
import random
import socket
import subprocess
import tempfile
import unittest

import kv_cluster


def array(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = kv_cluster.Cluster(2, "--max-clients", "3000", "--stalled", "1", "--output-limit", "4M", "--buffers", "32M")
        cls.steady = cls.cluster.connect()

    @classmethod
    def tearDownClass(cls):
        cls.steady.close()
        cls.cluster.stop()

    def tearDown(self):
        """Whatever happened: who was there before is served, and so are newcomers."""
        self.serves(self.steady)
        for node in range(2):
            with self.cluster.connect(node) as connection:
                self.serves(connection)

    def serves(self, connection):
        connection.sendall(array(b"SET", b"alive", b"1") + array(b"GET", b"alive"))
        self.assertEqual(kv_cluster.receive_exactly(connection, 12), b"+OK\r\n$1\r\n1\r\n")

    def figure(self, name):
        with self.cluster.connect() as connection:
            connection.sendall(b"INFO\r\nQUIT\r\n")
            text = kv_cluster.receive_all(connection).decode()
        return int(text.split(name + ":")[1].split("\r\n")[0])

    def test_what_is_no_request(self):
        for sent, answer in ((b"*1\r\n$104857600\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
                             (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
                             (b"*2000000000\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
                             (b"*1\r\nx", b"-ERR Protocol error: expected '$', got 'x'\r\n"),
                             (b'GET "a\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
                             (b"PING\r\n*x\r\n", b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"),
                             (b"x" * 100_000, b"-ERR Protocol error: too big inline request\r\n")):
            with self.cluster.connect() as connection:
                connection.sendall(sent)
                self.assertEqual(kv_cluster.receive_all(connection), answer)

    def test_a_request_that_is_too_large(self):
        value = b"$1000000\r\n" + b"v" * 1_000_000 + b"\r\n"
        with self.cluster.connect() as connection:
            try:
                connection.sendall(b"*41\r\n$4\r\nMSET\r\n" + (b"$1\r\nk\r\n" + value) * 20)
            except ConnectionError:
                pass  # it had enough
            self.assertIn(kv_cluster.receive_all(connection), (b"-ERR Protocol error: the request is too large\r\n", b""))

    def test_random_bytes(self):
        chance = random.Random(1)
        words = [b"*3\r\n", b"$3\r\n", b"GET", b"SET", b"\r\n", b"MULTI\r\n", b"EXEC\r\n", b"*-1\r\n", b"$0\r\n\r\n", b"SCAN 0\r\n"]
        for _ in range(200):
            if chance.random() < 0.5:
                sent = chance.randbytes(chance.randrange(1, 500))
            else:
                sent = b"".join(chance.choice(words) for _ in range(chance.randrange(1, 40)))
            with self.cluster.connect(chance.randrange(2)) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                kv_cluster.receive_all(connection)

    def test_half_requests_and_hasty_ends(self):
        kept = []
        for cut in range(1, 30):
            connection = self.cluster.connect()
            connection.sendall(array(b"SET", b"half", b"value")[:cut])
            kept.append(connection)
        self.serves(self.steady)
        for connection in kept:
            connection.close()

    def test_byte_by_byte(self):
        with self.cluster.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in array(b"ECHO", b"slow"):
                connection.sendall(bytes([byte]))
            self.assertEqual(kv_cluster.receive_exactly(connection, 10), b"$4\r\nslow\r\n")

    def test_one_that_never_reads(self):
        self.steady.sendall(array(b"SET", b"large", b"v" * 500_000))
        self.assertEqual(kv_cluster.receive_exactly(self.steady, 5), b"+OK\r\n")
        before = self.figure("client_timeout_disconnections")
        with self.cluster.connect() as connection:
            connection.setblocking(False)
            try:
                for _ in range(100_000):
                    connection.send(array(b"GET", b"large") * 100)
            except (BlockingIOError, ConnectionError):
                pass  # nobody reads from us any more
            self.serves(self.steady)
            kv_cluster.eventually(lambda: self.figure("client_timeout_disconnections") > before, "it is cut")

    def test_an_answer_that_is_too_large(self):
        self.steady.sendall(array(b"SET", b"large", b"v" * 500_000))
        self.assertEqual(kv_cluster.receive_exactly(self.steady, 5), b"+OK\r\n")
        before = self.figure("client_output_buffer_limit_disconnections")
        with self.cluster.connect() as connection:
            connection.sendall(array(b"MGET", *[b"large"] * 100))
            kv_cluster.receive_all(connection)
        self.assertEqual(self.figure("client_output_buffer_limit_disconnections"), before + 1)

    def test_many_that_hold_much_together(self):
        """Each may hold what it does, but not all of them: some are cut, and who holds little is not."""
        before = self.figure("client_output_buffer_limit_disconnections")
        clients = [self.cluster.connect() for _ in range(60)]
        try:
            for client in clients:
                try:
                    client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + b"v" * 900_000)
                except ConnectionError:
                    pass  # it was cut meanwhile
            kv_cluster.eventually(lambda: self.figure("client_output_buffer_limit_disconnections") > before, "one is cut")
            self.serves(self.steady)
        finally:
            for client in clients:
                client.close()

    def test_a_large_value_that_is_named_very_often(self):
        """It is read once: the memory that the node needs does not grow with how often."""
        self.steady.sendall(array(b"SET", b"large", b"v" * 1_000_000))
        self.assertEqual(kv_cluster.receive_exactly(self.steady, 5), b"+OK\r\n")
        before = self.peak()
        with self.cluster.connect() as connection:
            connection.sendall(array(b"EXISTS", *[b"large"] * 1000))
            self.assertEqual(kv_cluster.receive_exactly(connection, 7), b":1000\r\n")
            connection.sendall(b"MULTI\r\n" + array(b"APPEND", b"large", b"x") + array(b"STRLEN", b"large") * 999)
            kv_cluster.receive_exactly(connection, 5 + 1000 * 9)
            connection.sendall(b"EXEC\r\n")
            kv_cluster.receive_exactly(connection, 7 + 1000 * 10)
        self.assertLess(self.peak() - before, 100_000)

    def peak(self):
        """Of the memory of node 0, in kB."""
        with open(f"/proc/{self.figure('process_id')}/status") as status:
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1])

    def test_thousands_that_are_idle(self):
        files = kv_cluster.open_files(4000)
        idle = []
        try:
            refused = 0
            for _ in range(min(3100, files - 100)):
                idle.append(self.cluster.connect(1))
            if len(idle) > 3000:  # which is how many may be there
                refused = sum(kv_cluster.receive_exactly(c, 36) == b"-ERR max number of clients reached\r\n"[:36]
                              for c in idle[3000:])
                self.assertEqual(refused, len(idle) - 3000)
                for connection in idle[3000:]:
                    connection.close()
                del idle[3000:]
            for connection in (idle[0], idle[len(idle) // 2], idle[-1]):
                self.serves(connection)
        finally:
            for connection in idle:
                connection.close()
        kv_cluster.eventually(lambda: self.can_connect(1), "there is room again")

    def can_connect(self, node):
        with self.cluster.connect(node) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(5) == b"+PONG"


class Password(unittest.TestCase):
    def test_nothing_without_it(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("secret\n")
            file.flush()
            cluster = kv_cluster.Cluster(1, "--password-file", file.name, "--threads", "2")
            with cluster.connect() as connection:
                connection.sendall(b"GET a\r\nAUTH wrong\r\nAUTH secret\r\nGET a\r\nQUIT\r\n")
                self.assertEqual(kv_cluster.receive_all(connection),
                                 b"-NOAUTH Authentication required.\r\n"
                                 b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
                                 b"+OK\r\n$-1\r\n+OK\r\n")
            with cluster.connect() as connection:
                connection.sendall(b"*1000\r\n")
                self.assertEqual(kv_cluster.receive_all(connection),
                                 b"-ERR Protocol error: unauthenticated multibulk length\r\n")
            cluster.stop()


class Start(unittest.TestCase):
    def refused(self, *options):
        done = subprocess.run([kv_cluster.ATOLL, "kv", "serve", *options], capture_output=True, text=True,
                              timeout=kv_cluster.PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_a_port_that_is_taken_ends_all(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn(f"cannot listen on 127.0.0.1:{port}: Address already in use",
                          self.refused("-n", "2", "--port", str(port - 1)))

    def test_others_are_let_in_only_on_purpose(self):
        self.assertIn("--password-file", self.refused("--bind", "0.0.0.0"))
        self.assertIn("is no address", self.refused("--bind", "nowhere"))
        self.assertIn("cannot read a password", self.refused("--password-file", "/nonexistent"))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("x" * 16385)
            file.flush()
            self.assertIn("16384 bytes at most", self.refused("--password-file", file.name))
        self.assertIn("beyond 65535", self.refused("-n", "9", "--port", "65530"))

    def hint(self, cluster):
        """Stands behind the line of node 0, which may be the last that the cluster has waited for."""
        hints = [line for line in cluster.lines if line.startswith("Try")]
        return hints[0] if hints else cluster.process.stdout.readline().rstrip()

    def test_a_node_that_is_asked_to_end_ends_well(self):
        cluster = kv_cluster.Cluster(3)
        self.assertEqual(self.hint(cluster), f"Try `redis-cli -p {cluster.ports[0]}`; Ctrl-C ends it.")
        cluster.stop()

    @unittest.skipUnless(has_ipv6(), "there is no ::1")
    def test_the_hint_names_an_address_that_is_not_the_usual(self):
        cluster = kv_cluster.Cluster(1, "--bind", "::1")
        self.assertEqual(self.hint(cluster), f"Try `redis-cli -h ::1 -p {cluster.ports[0]}`; Ctrl-C ends it.")
        cluster.stop()


if __name__ == "__main__":
    unittest.main()
