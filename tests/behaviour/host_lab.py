"""Hosts that are network namespaces of this machine, on one bridge: made and removed by the test."""
import os
import signal
import subprocess
import tempfile
import time

PATIENCE = 120
SKIPPED = 77
COMMAND = os.environ.get("ATOLL_COMMAND", "")


def run(*words, check=True):
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=PATIENCE)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done


def can_make_hosts():
    """Whether this machine lets us; why not, else."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    name = f"atoll{os.getpid()}t"
    made = run("ip", "netns", "add", name, check=False)
    run("ip", "netns", "del", name, check=False)
    return made.stderr.strip()


class HostLab:
    """`count` hosts, 10.88.N.11 and on; the master's own is 10.88.N.1, outside of them."""

    made = 0  # the kernel may still be at taking an earlier one down: no name is used twice

    def __init__(self, count):
        self.network = f"10.88.{os.getpid() % 250}"
        HostLab.made += 1
        self.tag = f"at{os.getpid()}{chr(ord('a') + HostLab.made % 26)}"
        self.bridge = f"{self.tag}b"
        self.master_host = f"{self.network}.1"
        self.names = [f"{self.tag}h{k}" for k in range(count)]
        self.folder = tempfile.TemporaryDirectory(prefix="atoll-hosts-")
        self.processes = []
        try:
            run("ip", "link", "add", self.bridge, "type", "bridge")
            run("ip", "addr", "add", f"{self.master_host}/24", "dev", self.bridge)
            run("ip", "link", "set", self.bridge, "up")
            for k, name in enumerate(self.names):
                run("ip", "netns", "add", name)
                run("ip", "link", "add", self.port(k), "type", "veth", "peer", "name", "eth0", "netns", name)
                run("ip", "link", "set", self.port(k), "master", self.bridge, "up")
                run("ip", "-n", name, "addr", "add", f"{self.address(k)}/24", "dev", "eth0")
                for device in ("eth0", "lo"):
                    run("ip", "-n", name, "link", "set", device, "up")
            self.key = os.path.join(self.folder.name, "key")
            run(COMMAND, "key", "--out", self.key)
        except BaseException:
            self.close()
            raise

    def port(self, host):
        return f"{self.tag}v{host}"

    def start(self, words, host=None, environment=None):
        """Starts a process on a host, or beside the bridge. Its output goes to a file that `output` reads."""
        inside = [] if host is None else ["ip", "netns", "exec", self.names[host]]
        path = os.path.join(self.folder.name, f"out{len(self.processes)}")
        with open(path, "w", encoding="utf-8") as file:
            process = subprocess.Popen(inside + words, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                       env={**os.environ, "ATOLL_KEY_FILE": self.key, **(environment or {})})
        process.output_path = path
        self.processes.append(process)
        return process

    @staticmethod
    def output(process):
        with open(process.output_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def await_line(self, processes, text):
        """Until all of them have said it."""
        end = time.monotonic() + PATIENCE
        for process in processes:
            while text not in self.output(process):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(f"never said \"{text}\":\n{self.output(process)}")
                time.sleep(0.02)

    def start_master(self, nodes, options=()):
        return self.start([COMMAND, "master", "--listen", f"{self.master_host}:7470", "--nodes", str(nodes), *options],
                          environment={"ATOLL_LOG": "info"})

    def start_cluster(self, words, hosts, environment=None, options=()):
        """A master and a node on each of `hosts`; the master and the nodes."""
        address = f"{self.master_host}:7470"
        master = self.start_master(len(hosts), options)
        nodes = []
        for k, host in enumerate(hosts):
            nodes.append(self.start(words, host, {"ATOLL_MASTER": address, "ATOLL_NODES": str(len(hosts)),
                                                  "ATOLL_NODE": str(k), "ATOLL_MEMORY": "8M", "ATOLL_CACHE": "256K",
                                                  "ATOLL_LOG": "info", **(environment or {})}))
        return master, nodes

    def address(self, host):
        return f"{self.network}.{11 + host}"

    def set_link(self, host, state):
        """The cable of a host: "down" or "up"."""
        run("ip", "link", "set", self.port(host), state)

    def cut_one_way(self, source, targets):
        """What `source` sends to the addresses of `targets` goes nowhere from now on; what they send arrives."""
        for target in targets:
            run("ip", "-n", self.names[source], "neigh", "replace", target, "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                "nud", "permanent")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        for k, name in enumerate(self.names):
            run("ip", "link", "del", self.port(k), check=False)
            run("ip", "netns", "del", name, check=False)
        run("ip", "link", "del", self.bridge, check=False)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
