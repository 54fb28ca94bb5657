#!/usr/bin/env python3
"""Clusters over several hosts: the API as one program uses it, and what happens when a host's node dies."""
import os
import sys
import unittest

from host_lab import PATIENCE, SKIPPED, HostLab, can_make_hosts

TOUR = os.environ["ATOLL_TOUR"]
SCENARIO = os.environ["ATOLL_SCENARIO"]


class Hosts(unittest.TestCase):
    def ends(self, lab, processes, codes):
        for process, code in zip(processes, codes):
            self.assertEqual(process.wait(PATIENCE), code, lab.output(process))

    def test_the_tour_over_tcp_between_hosts_and_shared_memory_within_one(self):
        with HostLab(3) as lab:
            master, nodes = lab.start_cluster([TOUR, "--transport=auto"], [0, 1, 1, 2])
            self.ends(lab, nodes + [master], [0] * 5)
            said = [lab.output(node) for node in nodes]
            for k, near in enumerate([0, 1, 1, 0]):
                self.assertIn("transport tcp;ofi_rxm on eth0 (chosen: all nodes have it)", said[k])
                self.assertEqual(f"shm to {near} on this host" in said[k], near > 0, said[k])

    def test_nodes_that_turn_out_to_be_on_one_host_use_nothing_but_shared_memory(self):
        with HostLab(1) as lab:
            master, nodes = lab.start_cluster([SCENARIO, "work"], [0, 0])
            self.ends(lab, nodes + [master], [0] * 3)
            for node in nodes:
                self.assertIn("transport shm (all nodes on this host)", lab.output(node))

    def test_a_node_that_is_killed_is_named_to_those_who_wait_for_it(self):
        with HostLab(3) as lab:
            _, nodes = lab.start_cluster([SCENARIO, "killed", "lock"], [0, 1, 2])
            self.ends(lab, nodes, [0, -9, 0])
            for k in (0, 2):
                self.assertRegex(lab.output(nodes[k]), r"got: node died \(node 1\)")

    def test_shared_memory_alone_does_not_reach_another_host(self):
        with HostLab(2) as lab:
            _, nodes = lab.start_cluster([TOUR, "--transport=shm"], [0, 1], {"ATOLL_TRANSPORT": "shm"})
            said = "".join(lab.output(node) for node in nodes if node.wait(PATIENCE) != 0)
            self.assertIn("is on another host, and --transport shm does not reach it", said)


if __name__ == "__main__":
    why = can_make_hosts()
    if why:
        print(f"SKIPPED: no hosts can be made here: {why}")
        sys.exit(SKIPPED)
    unittest.main()
