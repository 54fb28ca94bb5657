#!/usr/bin/env python3
"""Four hosts under load, one of which is killed, hung or cut off: it is out in time, the others go on, and what all of
them saw is judged as a whole. With --figures FILE the times that this took are written there."""
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest
from datetime import datetime

from host_lab import PATIENCE, SKIPPED, HostLab, can_make_hosts, run

HISTORY_NODE = os.environ["ATOLL_HISTORY_NODE"]
HISTORY_CHECK = os.environ["ATOLL_HISTORY_CHECK"]
LEASE = float(os.environ.get("ATOLL_TEST_LEASE", "2"))
VICTIM = 1
SURVIVORS = (0, 2, 3)
SILENT = f"nothing was heard of it for {LEASE:.1f} s"
FIGURES = {}


def seconds_of(line):
    """The time of day that a line of the log begins with."""
    at = re.match(r"(\d+):(\d+):(\d+\.\d+) ", line)
    return int(at[1]) * 3600 + int(at[2]) * 60 + float(at[3])


class Failover(unittest.TestCase):
    def setUp(self):
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="atoll-failover-", dir=base)
        self.lab = HostLab(4)
        self.addCleanup(self.lab.close)

    def start(self, options=()):
        """A cluster under load: a node on each host."""
        seed = int.from_bytes(os.urandom(4), "little")
        words = [HISTORY_NODE, self.folder, "--loss", "--threads", "2", "--pause-us", "300", "--operations", "200000",
                 "--seed", str(seed)]
        self.options = ["--lease", str(LEASE), *options]
        self.master, self.nodes = self.lab.start_cluster(words, [0, 1, 2, 3], {"ATOLL_CACHE": "32K"}, self.options)
        self.lab.await_line(self.nodes, "working")
        time.sleep(1)

    def said(self, node):
        return self.lab.output(self.nodes[node])

    def finish(self, name, fault, reason):
        """Waits for the survivors. `fault`: when it was. They hear of it once, with this reason."""
        for node in SURVIVORS:
            self.assertEqual(self.nodes[node].wait(PATIENCE), 0, self.said(node))
        began = fault.hour * 3600 + fault.minute * 60 + fault.second + fault.microsecond / 1e6
        learned = []
        for node in SURVIVORS:
            lines = [line for line in self.said(node).splitlines() if f"node {VICTIM} is gone" in line]
            self.assertEqual(len(lines), 1, self.said(node))
            self.assertRegex(lines[0], reason)
            learned.append((seconds_of(lines[0]) - began) % 86400)
        FIGURES[name] = {"lease_s": LEASE, "declared_out_after_s": round(max(learned), 3)}
        self.judge(name)

    def judge(self, name):
        done = run(HISTORY_CHECK, self.folder, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}\nlook at it: {HISTORY_CHECK} {self.folder}")
        longest = re.search(r"the longest call took ([\d.]+) ms", done.stdout)
        FIGURES[name]["longest_call_s"] = round(float(longest[1]) / 1000, 3)
        FIGURES[name]["operations"] = int(re.match(r"(\d+) operations", done.stdout)[1])
        self.assertGreater(FIGURES[name]["operations"], 1000)
        shutil.rmtree(self.folder)

    def is_fenced(self):
        """The victim finds out by itself, and ends in its own way."""
        self.assertNotEqual(self.nodes[VICTIM].wait(PATIENCE), -signal.SIGKILL)
        self.assertIn(f"node {VICTIM} is fenced", self.said(VICTIM))

    def test_a_node_that_is_killed(self):
        self.start()
        fault = datetime.now()
        self.nodes[VICTIM].send_signal(signal.SIGKILL)
        self.finish("killed", fault, SILENT)

    def test_a_node_that_is_stopped_and_goes_on_later(self):
        self.start()
        fault = datetime.now()
        self.nodes[VICTIM].send_signal(signal.SIGSTOP)
        self.addCleanup(self.nodes[VICTIM].send_signal, signal.SIGCONT)
        self.lab.await_line([self.nodes[node] for node in SURVIVORS], f"node {VICTIM} is gone")
        self.nodes[VICTIM].send_signal(signal.SIGCONT)
        self.is_fenced()
        self.finish("stopped", fault, SILENT)

    def test_a_host_whose_cable_is_pulled_and_plugged_in_again(self):
        self.start()
        fault = datetime.now()
        self.lab.set_link(VICTIM, "down")
        self.lab.await_line([self.nodes[VICTIM]], "suspends itself")
        self.lab.await_line([self.nodes[node] for node in SURVIVORS], f"node {VICTIM} is gone")
        self.lab.set_link(VICTIM, "up")
        self.is_fenced()
        self.finish("cable pulled", fault, SILENT)

    def test_a_host_whose_packets_to_all_others_are_lost(self):
        self.start()
        fault = datetime.now()
        self.lab.cut_one_way(VICTIM, [self.lab.master_host] + [self.lab.address(k) for k in SURVIVORS])
        self.lab.await_line([self.nodes[VICTIM]], "suspends itself")
        self.finish("cut one way, to all", fault, SILENT)

    def test_two_hosts_that_do_not_reach_each_other_but_all_else(self):
        self.start()
        fault = datetime.now()
        self.lab.cut_one_way(VICTIM, [self.lab.address(0)])
        self.is_fenced()
        self.finish("cut one way, from one other", fault, "it and others do not reach each other")

    def test_a_short_failure_of_the_network_is_waited_out(self):
        self.start()
        self.lab.set_link(VICTIM, "down")
        time.sleep(LEASE / 4)
        self.lab.set_link(VICTIM, "up")
        time.sleep(LEASE)
        for node in self.nodes:
            self.assertIsNone(node.poll(), self.lab.output(node))
            self.assertNotIn("is gone", self.lab.output(node))
            self.assertNotIn("is fenced", self.lab.output(node))
        fault = datetime.now()
        self.nodes[VICTIM].send_signal(signal.SIGKILL)
        self.finish("killed after a short failure", fault, SILENT)

    def test_a_master_that_is_killed_and_started_again(self):
        state = os.path.join(self.lab.folder.name, "state")
        self.start(["--state", state])
        self.master.send_signal(signal.SIGKILL)
        self.master.wait()
        time.sleep(LEASE * 1.5)  # longer than a lease: they go on without a master
        self.master = self.lab.start_master(4, self.options)
        self.lab.await_line(self.nodes, "the master is there again")
        self.lab.await_line([self.master], "took the cluster over")
        for node in self.nodes:
            self.assertIsNone(node.poll(), self.lab.output(node))
            self.assertNotIn("suspends itself", self.lab.output(node))
        time.sleep(LEASE)
        fault = datetime.now()
        self.nodes[VICTIM].send_signal(signal.SIGKILL)
        self.finish("killed under a second master", fault, SILENT)
        self.assertEqual(self.master.wait(PATIENCE), 1, self.lab.output(self.master))
        self.assertFalse(os.path.exists(state))  # it is over: the next cluster is a new one


if __name__ == "__main__":
    why = can_make_hosts()
    if why:
        print(f"SKIPPED: no hosts can be made here: {why}")
        sys.exit(SKIPPED)
    figures = None
    if "--figures" in sys.argv:
        at = sys.argv.index("--figures")
        figures = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    program = unittest.main(exit=False)
    if figures:
        with open(figures, "w", encoding="utf-8") as file:
            json.dump(FIGURES, file, indent=2)
    print(json.dumps(FIGURES, indent=2))
    sys.exit(not program.result.wasSuccessful())
