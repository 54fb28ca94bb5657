"""A cluster of `atoll kv serve` for the tests of this folder, and raw connections to it."""
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

ATOLL = os.environ["ATOLL_COMMAND"]
PATIENCE = 120  # seconds; nothing takes so long, but a machine may be busy


def consecutive_ports(count):
    """Ports that were free a moment ago."""
    for _ in range(1000):
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port + count > 65535:
                continue
            others = []
            try:
                for offset in range(1, count):
                    others.append(socket.socket())
                    others[-1].bind(("127.0.0.1", port + offset))
                return port
            except OSError:
                continue
            finally:
                for other in others:
                    other.close()
    raise RuntimeError("no free ports")


def eventually(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("never: " + what)
        time.sleep(0.02)


class Cluster:
    def __init__(self, nodes=2, *options):
        for _ in range(20):  # somebody else may take the ports first
            self.ports = [consecutive_ports(nodes)]
            self.ports += range(self.ports[0] + 1, self.ports[0] + nodes)
            self.log = tempfile.TemporaryFile(mode="w+")
            self.process = subprocess.Popen(
                [ATOLL, "kv", "serve", "-n", str(nodes), "--port", str(self.ports[0]), "--memory", "64M", "--cache", "8M",
                 *options], stdout=subprocess.PIPE, stderr=self.log, text=True)
            self.lines = []
            while len([line for line in self.lines if "listens" in line]) < nodes:
                line = self.process.stdout.readline()
                if not line:
                    break
                self.lines.append(line.rstrip())
            else:
                return
            self.process.wait()
            if "Address already in use" not in self.errors():
                raise RuntimeError("the cluster did not start: " + self.errors())
        raise RuntimeError("no free ports")

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def connect(self, node=0):
        return socket.create_connection(("127.0.0.1", self.ports[node]), timeout=PATIENCE)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()
        errors = self.errors()
        self.log.close()
        if code != 0 or re.search("Sanitizer|died|assert", errors):
            raise AssertionError(f"the cluster ended with {code}: {errors}")
        return errors


def open_files(wanted):
    """How many files we may open, at most `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > wanted:
        hard = wanted
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return min(wanted, max(soft, hard))


def receive_all(connection):
    """All until the other side ends it."""
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionError:
        pass
    return got


def receive_exactly(connection, count):
    got = b""
    while len(got) < count:
        piece = connection.recv(count - len(got))
        if not piece:
            raise AssertionError(f"the connection ended after {got!r}")
        got += piece
    return got


def fail_without(module):
    print(f"kv: there is no {module}: see scripts/packages.txt", file=sys.stderr)
    sys.exit(1)
