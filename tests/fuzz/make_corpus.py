#!/usr/bin/env python3
"""Writes the seeds of the fuzz corpus: make_corpus.py [--check] FOLDER

Seeds are inputs that make sense, so that fuzzing begins behind the first checks. Files of the corpus that are not
written here were found by fuzzing; their names say what they show. --check writes nothing and fails when a seed differs.
"""
import json
import pathlib
import struct
import sys

LINE = 512
KINDS = ("GetShared GetExclusive Upgrade WriteHome GetOperated PutShared PutDirty PutOperated Invalidate ForwardShared ForwardExclusive Data Grant "
         "Written Refused PutAck InvalidateAck InvalidateRefused WriteBack Transfer OwnerRefused OwnerData Allocate "
         "AllocateReply Free FreeReply BarrierArrive BarrierRelease Leaving ElementLock ElementAnswer "
         "Probe ProbeAnswer").split()
TO_HOME = ("GetShared GetExclusive Upgrade WriteHome GetOperated PutShared PutDirty PutOperated InvalidateAck InvalidateRefused WriteBack Transfer "
           "OwnerRefused ElementLock").split()
READ, WRITE, ATOMIC, OPERATE, READ_LOCK, WRITE_LOCK, TRY_READ, TRY_WRITE = range(8)

# ---- wire messages (src/wire/message.hpp) ----


def address(node, offset):
    return node << 40 | offset


def message(kind, sender, requester, line, count=1, slots=(0,), argument=0, flags=0, epoch=1, version=2):
    slots = list(slots) + [0] * (8 - len(slots))
    number = KINDS.index(kind) + 1 if isinstance(kind, str) else kind
    return struct.pack("<IIBBBBHHQQ8I", 0, epoch, number, version, flags, count, sender, requester, line, argument,
                       *slots)


def wire_message():
    head = bytes([2, 0, 1, 3])  # of three nodes, node 0 hears node 1; lines of 512 bytes
    for kind in KINDS:
        home = 0 if kind in TO_HOME else 1
        line = address(2 if kind == "OwnerData" else home, 8 * LINE)
        requester = 2 if kind.startswith("Forward") else 1
        yield kind, head + message(kind, 1, requester, line, slots=[8 if kind == "Written" else 0],
                                   argument=8 << 32 if kind == "WriteHome" else 0)
    good = address(0, 8 * LINE)
    yield "a-run", head + message("GetShared", 1, 1, good, 8, [0, 0, 0, 0, 0, 0, 0, 0])
    yield "last-line", head + message("GetShared", 1, 1, address(0, (1 << 20) - LINE))
    yield "beyond-memory", head + message("GetShared", 1, 1, address(0, 1 << 20))
    yield "no-slot", head + message("GetShared", 1, 1, good, slots=[1 << 31])
    yield "stale", head + message("GetShared", 1, 1, good, epoch=7)
    yield "other-version", head + message("GetShared", 1, 1, good, version=9)
    yield "unknown-kind", head + message(99, 1, 1, good)
    yield "element-release", head + message("ElementLock", 1, 1, good + 8, argument=7, flags=8)
    yield "element-beyond-memory", head + message("ElementLock", 1, 1, address(0, 1 << 20), argument=7)
    yield "element-answer-of-a-death", head + message("ElementAnswer", 1, 1, address(1, 8), slots=[2, 2], argument=7)
    yield "element-answer-unknown", head + message("ElementAnswer", 1, 1, address(1, 8), slots=[4], argument=7)
    yield "two", head + message("GetShared", 1, 1, good) + message("PutShared", 1, 1, good)


# ---- steps (tests/fuzz/step.hpp) ----


def step(action, kind=0, sender=0, requester=0, line=0, home=0, slot=0, count=1, flags=0, argument=0):
    return struct.pack("<BBBBBBH", action, kind, sender | requester << 4, flags | (count - 1) << 4, line | home << 4,
                       slot, argument)


def said(kind, sender, requester=None, action=0, **more):
    return step(action, KINDS.index(kind), sender, sender if requester is None else requester, **more)


def wants(op, **more):
    return step(3, op, **more)


UNLOCK = step(4)


def protocol():
    at_home, at_cache = bytes([0]), bytes([1])
    yield "home-read-copies", at_home + said("GetShared", 1) + said("GetShared", 2) + said("PutShared", 1)
    yield "home-write", at_home + said("GetExclusive", 1) + said("PutDirty", 1)
    yield "home-upgrade", (at_home + said("GetShared", 1) + said("GetShared", 2) + said("Upgrade", 1) +
                           said("InvalidateAck", 2))
    yield "home-forward", (at_home + said("GetExclusive", 1) + said("GetShared", 2) + said("WriteBack", 1, 2))
    yield "home-transfer", (at_home + said("GetExclusive", 1) + said("GetExclusive", 2) + said("Transfer", 1, 2))
    yield "home-takes-back", at_home + said("GetExclusive", 1) + wants(WRITE) + said("Transfer", 1, 0)
    yield "home-locked", at_home + wants(WRITE_LOCK) + said("GetShared", 1) + said("GetExclusive", 2) + UNLOCK
    yield "home-try-refused", at_home + wants(READ_LOCK) + said("GetExclusive", 1, flags=1) + UNLOCK
    yield "cache-read", at_cache + wants(READ) + said("Data", 0, 1) + said("Invalidate", 0, 2)
    yield "cache-write", at_cache + wants(WRITE) + said("Data", 0, 1) + said("ForwardExclusive", 0, 2)
    yield "cache-upgrade", at_cache + wants(READ) + said("Data", 0, 1) + wants(WRITE) + said("Grant", 0, 1)
    yield "cache-by-owner", at_cache + wants(READ) + said("OwnerData", 2, 1) + said("Grant", 0, 1)
    yield "cache-held", at_cache + wants(READ_LOCK) + said("Data", 0, 1) + said("Invalidate", 0, 2) + UNLOCK
    yield "cache-try", at_cache + wants(TRY_WRITE) + said("Refused", 0, 1)
    yield "cache-evict", at_cache + wants(WRITE) + said("Data", 0, 1) + step(5) + said("PutAck", 0, 1)
    yield "cache-no-slot", at_cache + step(6) + wants(READ) + step(6, slot=4) + step(6, 1) + said("Data", 0, 1)
    yield "home-written", at_home + said("WriteHome", 1, slot=8) + wants(READ_LOCK) + said("WriteHome", 2, slot=8) + UNLOCK
    yield "cache-written", at_cache + wants(WRITE, flags=1) + wants(READ) + said("Written", 0, 1) + said("Data", 0, 1)
    yield "cache-write-refused", at_cache + wants(WRITE, flags=1) + said("Refused", 0, 1) + said("Data", 0, 1)
    yield "home-operated", (at_home + said("GetOperated", 1, argument=1) + said("GetOperated", 2, argument=1) + wants(OPERATE) +
                            said("PutOperated", 1) + said("GetShared", 1) + said("PutOperated", 2))
    yield "home-two-operators", (at_home + said("GetOperated", 1, argument=1) + said("GetOperated", 2, argument=2) +
                                 said("PutOperated", 1) + wants(READ) + said("PutOperated", 2))
    yield "home-operates-shared", at_home + said("GetShared", 1) + said("GetOperated", 2, argument=1) + said("InvalidateAck", 1)
    yield "home-operates-dirty", at_home + said("GetExclusive", 1) + said("GetOperated", 2, argument=1) + said("Transfer", 1, 0)
    yield "cache-operated", (at_cache + wants(OPERATE) + said("Grant", 0, 1) + wants(OPERATE) + said("Invalidate", 0, 0) +
                             said("PutAck", 0, 1))
    yield "cache-operates-otherwise", (at_cache + wants(OPERATE) + said("Grant", 0, 1) + wants(OPERATE, slot=1) + said("PutAck", 0, 1) +
                                       said("Grant", 0, 1) + wants(READ) + said("PutAck", 0, 1) + said("Data", 0, 1))
    yield "nonsense", at_home + said("Transfer", 1) + said("GetShared", 1) + said("GetShared", 2)


def hostile_node():
    def sends(kind, peer, requester, **more):
        return said(kind, peer - 1, requester, action=4, **more)

    def does(op, **more):
        return step(1, op, **more)

    pause = step(3, slot=200)
    yield "reads-of-a-peer", does(0, home=1) + pause + sends("Data", 1, 0) + pause + sends("Invalidate", 1, 2)
    yield "asks", sends("GetShared", 1, 1) + sends("GetExclusive", 2, 2) + does(0)
    yield "runs", sends("GetShared", 1, 1, count=8) + sends("PutShared", 1, 1, count=8) + does(3, slot=200)
    yield "calls", (sends("Allocate", 1, 1, argument=100, slot=1) + does(5, slot=0, argument=64) + pause +
                    sends("AllocateReply", 1, 0, slot=1, argument=4096) + sends("Free", 2, 2, argument=4096))
    yield "barriers", (does(7) + sends("BarrierArrive", 1, 1, argument=1) + sends("BarrierArrive", 2, 2, argument=1) +
                       sends("Leaving", 1, 1, argument=1))
    yield "locks", does(8) + sends("GetExclusive", 1, 1) + does(10) + does(9, home=1) + sends("Refused", 1, 0)
    yield "writes", does(1, home=1) + pause + sends("Data", 1, 0) + does(1, home=2) + sends("Data", 2, 0) + does(11)
    yield "small-writes", (sends("WriteHome", 1, 1, slot=8) + does(1, home=1) + pause + sends("Written", 1, 0) +
                           sends("Written", 1, 0, count=8) + does(1, home=2) + sends("Refused", 2, 0) + does(11))
    yield "operands", (does(12, home=1) + pause + sends("Grant", 1, 0) + pause + sends("Invalidate", 1, 1) + pause +
                       sends("PutAck", 1, 0) + sends("GetOperated", 1, 1, argument=1) + sends("GetOperated", 2, 2, argument=2) +
                       sends("PutOperated", 1, 1) + does(12) + sends("PutOperated", 2, 2))
    yield "elements", (sends("ElementLock", 1, 1, slot=1, flags=2, argument=5) + sends("ElementLock", 2, 2, slot=1, argument=5) +
                       does(14, slot=0) + does(13, home=1) + pause + sends("ElementAnswer", 1, 1, home=1, argument=2) + does(15) +
                       sends("ElementLock", 1, 1, slot=1, flags=8, argument=5) + sends("ElementLock", 2, 2, slot=1, flags=8, argument=5))
    yield "raw", step(0) + message("GetShared", 1, 1, address(0, 8 * LINE)) + step(0) + bytes(64)
    yield "garbage", step(0) + bytes(range(64)) + does(0)


# ---- control connections (tests/fuzz/control_script.hpp) ----


def frame(body):
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return struct.pack("<I", len(text)) + text.encode()


def control_frames():
    whole = bytes([0, 0])  # in one piece, no descriptors
    yield "one", whole + frame({"op": "status"})
    yield "two-in-pieces", bytes([3, 1, 5, 9, 0]) + frame({"op": "a", "id": 7}) + frame({"op": "b", "name": "x"})
    yield "descriptors", bytes([0, 2]) + frame({"op": "exchange", "fds": 1})
    yield "too-few-descriptors", bytes([0, 1]) + frame({"op": "exchange", "fds": 2})
    yield "nested", whole + frame({"op": "a", "peers": [[[[[[[[]]]]]]]]})
    yield "deep", whole + frame('{"op":"a","x":' + "[" * 500 + "]" * 500 + "}")
    yield "no-op", whole + frame({"id": 1})
    yield "op-no-text", whole + frame({"op": 1})
    yield "no-object", whole + frame("[1,2]")
    yield "no-json", whole + frame("{nonsense}")
    yield "too-long", whole + struct.pack("<I", 1 << 20)
    yield "too-short", whole + struct.pack("<I", 1) + b"1"
    yield "cut", whole + frame({"op": "lookup", "name": "root"})[:-3]
    yield "numbers", whole + frame('{"op":"a","id":-1,"node":1e99,"fds":0,"address":18446744073709551615}')
    yield "texts", whole + frame('{"op":"\\u00e4\\ud83d\\ude00","name":"\\u0000"}')


def handshake():
    def pieces(*texts):
        return b"".join(bytes([len(t)]) + t for t in texts)

    to_master, to_node, meeting, frames = (bytes([k]) for k in range(4))
    hello = b"Hatoll control" + struct.pack("<H", 1) + b"n" * 32
    yield "hello", to_master + pieces(hello, b"P" + b"p" * 32)
    yield "hello-in-pieces", to_master + pieces(hello[:1], hello[1:20], hello[20:])
    yield "too-much", to_master + pieces(hello + b"P")
    yield "other-version", to_master + pieces(b"Hatoll control" + struct.pack("<H", 2) + b"n" * 32)
    yield "http", to_master + pieces(b"GET / HTTP/1.1\r\n\r\n")
    yield "challenge", to_node + pieces(b"C" + b"n" * 32, b"P" + b"p" * 32)
    yield "reflected", to_node + pieces(hello)
    yield "honest", meeting + bytes(4)
    yield "flip", meeting + bytes([0, 1, 0, 5, 1])
    yield "cut", meeting + bytes([1, 1, 40, 8])
    yield "last-word", meeting + bytes([0, 0, 0, 1, 0, 9, 1])
    yield "frames", frames
    yield "frame-flip", frames + bytes([0, 30, 4])
    yield "frame-left-out", frames + bytes([1, 0, 49])
    yield "frame-twice", frames + bytes([2, 0, 49])
    yield "frame-byte", frames + bytes([3, 90, 65])


def raw(data):
    return bytes([0, len(data)]) + data


def text(body):
    return bytes([1]) + bytes([len(frame(body)) - 4]) + frame(body)[4:]


def known(which, a=0, b=0):
    return bytes([2, which, a, b])


def with_fds(first, count, which, a=0, b=0):
    return bytes([3, count, first, which, a, b])


WAIT = bytes([4])


def control_master():
    def client(k, *scripts):
        return b"".join(bytes([16 + k]) + script for script in scripts)

    two = bytes([1])
    joins = client(0, known(0, 0)) + client(1, known(0, 1))
    # All report, twice: the first time the cluster is founded, the second time they have its epoch.
    reports = b"".join(client(k, known(7, k, epoch)) for epoch in (1, 2) for k in (0, 1)) + client(0, WAIT)
    brings = client(0, with_fds(1, 1, 1)) + client(1, with_fds(1, 1, 1)) + reports
    asks = bytes([8])
    yield "status", two + client(0, known(5), WAIT)
    yield "start", two + joins + brings + asks
    yield "names", two + joins + brings + asks + client(0, known(3, 1, 1), known(2, 1, 9)) + client(1, known(3, 1, 2))
    yield "leave", two + joins + brings + asks + client(0, known(4)) + client(1, known(4), WAIT)
    yield "death", two + joins + brings + asks + bytes([4, 0]) + client(1, WAIT)
    yield "loss", two + joins + bytes([0]) + client(1, WAIT)
    yield "unsealed", two + joins + client(0, with_fds(3, 1, 1)) + asks
    yield "damaged", two + joins + client(0, with_fds(4, 1, 1)) + asks
    yield "twice", two + client(0, known(0, 0), known(0, 1))
    yield "early", two + client(0, known(2, 1, 1))
    yield "garbage", two + client(0, raw(b"\xff" * 20)) + client(1, text("[]")) + client(2, text({"op": "x"}))
    yield "cut", two + client(0, raw(frame({"op": "join", "node": 0})[:9])) + bytes([12])
    by_doors = bytes([4])
    offers = client(0, known(1, 0)) + client(1, known(1, 0))
    ready = client(0, known(6)) + client(1, known(6)) + reports
    yield "doors", by_doors + joins + offers + ready + asks + client(0, known(3, 1, 1), known(4))
    yield "doors-two-hosts", by_doors + joins + client(0, known(1, 0)) + client(1, known(1, 1)) + ready + asks
    yield "doors-too-early", by_doors + joins + client(0, known(1, 0), known(6)) + asks
    yield "doors-a-segment", by_doors + joins + client(0, with_fds(1, 1, 1)) + asks
    yield "doors-report", by_doors + joins + offers + ready + client(0, known(7, 0, 10)) + asks
    yield "return", by_doors + client(0, known(8, 0, 0), known(9, 1, 9)) + client(1, known(8, 1, 1), known(7, 1, 8)) + asks
    yield "return-again", by_doors + joins + offers + ready + client(2, known(8, 0, 0), known(7, 0, 10)) + asks
    yield "return-another", by_doors + joins + offers + ready + client(2, known(8, 0, 128)) + asks
    # Node 0 is told to have ended, and another process comes under its number; the other one dies for ever.
    back, doors_back = bytes([7]), bytes([10])
    again = bytes([4, 0]) + client(2, known(0, 130))
    has_it = client(1, known(7, 1, 2), known(7, 1, 6), known(7, 1, 3), WAIT)
    yield "back", (back + joins + brings + again + client(2, with_fds(1, 1, 1), known(7, 130, 1), WAIT) + asks + has_it
                   + client(2, known(7, 130, 1), WAIT) + asks + client(2, known(4)) + bytes([4, 3]) + client(2, WAIT))
    yield "back-doors", (doors_back + joins + offers + ready + again
                         + client(2, known(1, 0), known(6), known(7, 130, 1), WAIT) + has_it + asks)
    yield "back-ends", (back + joins + brings + again + client(2, with_fds(1, 1, 1)) + bytes([8]) + asks + again + asks)
    yield "back-all", (back + joins + brings + bytes([4, 0, 4, 1]) + client(2, known(0, 130), with_fds(1, 1, 1))
                       + client(3, known(0, 131), with_fds(1, 1, 1)) + client(2, known(7, 130, 1))
                       + client(3, known(7, 131, 1), WAIT) + asks)
    yield "back-early", back + joins + brings + client(2, known(0, 130)) + asks
    yield "given-up", back + joins + brings + bytes([4, 2]) + client(2, known(0, 130)) + asks + client(1, known(4), WAIT)


def control_node():
    two = bytes([1, 0])
    joined, roster = known(0, 2, 1), known(3, 2, 1)
    lease = known(10, 0, 1)  # renewed, for ten years
    start = joined + WAIT + with_fds(1, 1, 2, 1, 9) + roster + lease
    yield "start", two + start
    yield "alone", bytes([0, 0]) + known(0, 1, 1) + WAIT + known(3, 1, 1) + lease
    yield "replies", two + start + WAIT + known(5, 1, 0) + WAIT + known(5, 2, 0) + WAIT + known(6)
    yield "not-found", two + start + WAIT + known(5, 1, 13) + WAIT + known(5, 2, 13)
    yield "death", two + start + known(4, 1, 3) + known(10, 1, 2) + known(6)
    yield "fenced", two + start + WAIT + known(10, 2, 3) + WAIT
    yield "no-lease", two + joined + WAIT + with_fds(1, 1, 2, 1, 9) + roster + known(10, 1, 1) + WAIT
    yield "ending", two + start + WAIT + known(11) + known(5, 1, 0) + WAIT
    yield "refused", two + known(6, 1)
    yield "start-failed", two + joined + text({"op": "start_failed", "why": "node 1 died"})
    yield "no-segment", two + joined + roster
    yield "damaged-segment", two + joined + with_fds(4, 1, 2, 1, 9) + roster
    yield "two-peers", bytes([2, 0]) + known(0, 3, 1) + WAIT + with_fds(2, 2, 1, 1, 2) + known(3, 3, 1)
    yield "no-such-node", two + joined + with_fds(1, 1, 2, 4, 9)
    yield "other-count", two + known(0, 4, 1)
    yield "unknown", two + start + text({"op": "dance"})
    yield "garbage", two + start + raw(b"\x00" * 8)
    doors = known(0, 2, 3) + WAIT + known(2, 1, 3) + roster + WAIT
    yield "doors", two + doors + known(9, 0, 1) + lease + WAIT + known(6)
    yield "doors-no-go", two + doors + text({"op": "start_failed", "why": "node 1 died"})
    yield "doors-a-segment", two + known(0, 2, 3) + WAIT + with_fds(1, 1, 2, 1, 3) + roster
    yield "short-lease", two + known(0, 2, 5) + WAIT + with_fds(1, 1, 2, 1, 9) + roster + WAIT + lease + known(6)
    back = known(0, 2, 25)  # dead nodes come back, and this is one
    yield "back", two + back + WAIT + with_fds(1, 1, 2, 1, 9) + roster + lease + known(6)
    yield "back-alone", two + back + WAIT + roster + with_fds(1, 1, 13, 1, 9) + lease + known(14, 1, 2) + known(6)
    yield "newcomer", two + start + with_fds(1, 1, 13, 1, 9) + known(10, 1, 2) + WAIT + known(14, 1, 2) + known(6)
    yield "newcomer-without", two + start + known(13, 1, 9) + WAIT
    yield "newcomer-many", two + start + with_fds(1, 1, 13, 1, 9) * 5 + with_fds(1, 1, 13, 4, 9) + WAIT
    yield "far-epoch", two + start + text({"op": "death", "node": 1, "why": "", "epoch": 1 << 40})


def status_client():
    counters = ("hits reads_in_place read_misses write_misses atomic_misses lock_misses lock_waits lock_refusals evictions_clean "
                "evictions_dirty invalidations barriers_issued read_ahead_lines merges checkpoints log_waits messages_sent messages_received "
                "lines_sent bytes_sent wakeups_sent sleeps allocations frees memory_bytes memory_free_bytes "
                "cache_lines cache_lines_used").split()
    listener = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 @atoll-7-%s\n"
    yield "list", bytes([0]) + listener % b"42-00ff" + listener % b"7-aa"
    yield "list-no-pid", bytes([0]) + listener % b"x-00ff" + listener % b"99999999999-aa" + listener % b"42"
    yield "answer", bytes([1]) + known(7, 1, 5) + known(8, 0, 5)
    yield "too-few", bytes([1]) + known(7, 3, 5) + known(8, 0, 5)
    yield "too-many-nodes", bytes([1]) + known(7, 255, 62)
    yield "no-nodes", bytes([1]) + known(7, 0, 5)
    yield "refused", bytes([1]) + known(6, 1)
    yield "mistyped", bytes([1]) + text({"op": "status", "nodes": 0, "program": 1, "pid": "x"})
    yield "node-mistyped", bytes([1]) + known(7, 1, 5) + text({"op": "status_node", "node": {}, "counters": 3})
    node = {"op": "status_node", "node": 0, "pid": 1, "state": "joined", "line": 512,
            "counters": {name: 1 for name in counters}}
    body = frame(node)
    yield "counters", (bytes([1]) + known(7, 1, 5) + raw(body[:200]) + raw(body[200:400]) + raw(body[400:]))


# ---- the rest ----

NAMES = ("MEMORY CACHE LINE CONSISTENCY SPIN_NS YIELD_US READ_AHEAD OUTSTANDING_WRITES MASTER NODE NODES "
         "READ_IN_PLACE WRITE_AT_HOME EVICT_BELOW EVICT_UNTIL TRANSPORT ADDRESS LOG_MODE LOG_DIR LOG_SIZE").split()


def options():
    def lines(**values):
        # The letter's number, by the count of names, is the variable.
        first = next(k for k in range(65, 65 + len(NAMES)) if k % len(NAMES) == 0)
        return b"".join(bytes([first + NAMES.index(name)]) + value.encode() + b"\n" for name, value in values.items())

    yield "plain", lines(MEMORY="4096", CACHE="65536", LINE="512")
    yield "units", lines(MEMORY="256M", CACHE="64KiB", LINE="1k", SPIN_NS="1000B")
    yield "consistency", lines(CONSISTENCY="tso")
    yield "switches", lines(READ_IN_PLACE="off", WRITE_AT_HOME="on")
    yield "no-switch", lines(WRITE_AT_HOME="perhaps")
    yield "log", lines(LOG_MODE="power", LOG_DIR="somewhere", LOG_SIZE="64M")
    yield "too-large", lines(MEMORY="99999999T", YIELD_US="4294967296")
    yield "no-number", lines(MEMORY="lots", READ_AHEAD="-1", OUTSTANDING_WRITES="")
    yield "node", lines(MASTER="atoll-nobody", NODE="1", NODES="2")
    yield "node-out-of-range", lines(MASTER="atoll-nobody", NODE="2", NODES="2")
    yield "no-node", lines(MASTER="atoll-nobody")
    yield "long-name", lines(MASTER="x" * 200, NODE="0", NODES="1")
    for name in ("0", "17", "64KiB", "1G", "18446744073709551615", "16777216T", "3 M", "1MM"):
        yield "size-" + name.replace(" ", "-"), name.encode()


def start():
    def request(**changes):
        body = {"op": "start", "directory": "/", "program": ["sh", "-c", "exit 3"], "environment": {"A": "b"}}
        body.update(changes)
        return json.dumps({key: value for key, value in body.items() if value is not None}).encode()

    yield "hosts", b"hnode1 slots=2\n# none\nuser@10.0.0.9 env FI_PROVIDER=tcp A=\n[fe80::1%eth0]\n"
    yield "hosts-option", b"h-oProxyCommand=x\n"
    yield "hosts-slots", b"ha slots=600\nb slots=600\n"
    yield "hosts-own", b"ha env ATOLL_KEY=0\n"
    yield "hosts-none", b"h# nobody\n"
    yield "request", request()
    yield "request-no-program", request(program=[])
    yield "request-no-directory", request(directory=None)
    yield "request-numbers", request(program=[1], environment={"A": 2})
    yield "request-equals", request(environment={"A=": "b"})
    yield "request-nul", request(program=["a\0b"])
    yield "signal", b'{"op":"signal","signal":15}'


def segment():
    def up(value, unit):
        return -(-value // unit) * unit

    def header(nodes=3, line=512, memory=1 << 20, cache=64 * 512, magic=0x41746f6c6c534731, version=2):
        rings = 4096 if HEADER_BYTES <= 4096 else up(HEADER_BYTES, 4096)
        directory = up(rings + (128 + 1024 * 64) * nodes, 4096)
        lines = up(directory + memory // line * 32, 4096)
        cache_at = up(lines + memory // line * 32, 2 << 20)
        memory_at = up(cache_at + cache, 2 << 20)
        total = up(memory_at + memory, 2 << 20)
        return struct.pack("<QIIIIQQQQQQQQ", magic, version, line, nodes, 1024, total, rings, directory, lines, cache_at,
                           cache, memory_at, memory)

    sealed, own_size, read_only, later = 1, 2, 4, 8

    def file(how, head, after=b"", size=0):
        return bytes([how]) + struct.pack("<Q", size) + head + after

    good = header()
    yield "good", file(sealed | own_size, good)
    yield "large", file(sealed | own_size, header(nodes=1000, memory=64 << 30, cache=1 << 30))
    yield "small-lines", file(sealed | own_size, header(line=64, cache=64 * 64))
    yield "not-sealed", file(own_size, good)
    yield "read-only", file(sealed | own_size | read_only, good)
    yield "too-short", file(sealed, good, size=4096)
    yield "empty", file(sealed, good)
    yield "changed-later", file(sealed | own_size | later, good, header(nodes=60000, memory=1 << 40))
    yield "offsets-later", file(sealed | own_size | later, good, good[:24] + b"\xff" * 56)
    yield "other-magic", file(sealed | own_size, header(magic=0))
    yield "no-lines", file(sealed | own_size, good[:12] + bytes(4) + good[16:])
    yield "no-nodes", file(sealed | own_size, header(nodes=0))


HEADER_BYTES = 640  # of SegmentHeader with its counters: less than a page
# ---- logs and checkpoints (src/log/format.hpp, src/log/checkpoint_format.hpp) ----


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def log_header(blocks, first=1, generation=1, mode=2, block_bytes=512):
    head = struct.pack("<8sIIQQQQQHBB", b"ATOLLLOG", 2, block_bytes, blocks, generation, first, 1, 0, 3, mode, 0)
    return head + struct.pack("<I", crc32c(head))


def truncation(before, generation=1):
    body = struct.pack("<QI", before, 0)
    return body + struct.pack("<I", crc32c(struct.pack("<Q", generation) + body))


def log_block(index, first, records, stamp=None, generation=1):
    stamp = index + 1 if stamp is None else stamp
    head = struct.pack("<8sQQI", b"ATOLLBLK", stamp, first, index)
    block = head + struct.pack("<I", crc32c(struct.pack("<Q", generation) + head)) + bytes(32)
    for sequence, kind, payload in records:
        body = struct.pack("<IBBHIQQQ", len(payload), kind, 0, 3, 1, sequence, address(3, 64 * (sequence % 1000)), 5)
        body += payload + bytes(-len(payload) % 8)
        block += struct.pack("<I", crc32c(struct.pack("<QQ", generation, stamp) + body)) + body
    return block + bytes(512 - len(block))


def checkpoint_header(generation, redo_from=7, memory=65536, line=512, blobs=b""):
    head = struct.pack("<8sIIQQQQIHHI", b"ATOLLCKP", 1, line, generation, redo_from, memory, len(blobs), crc32c(blobs),
                       3, 0, 0)
    return head + struct.pack("<I", crc32c(head))


def blob(name, data):
    return (struct.pack("<IIQ", len(name), 0, len(data)) + name + bytes(-len(name) % 8) + data + bytes(-len(data) % 8))


def log():
    word = bytes(range(8))
    one = [(k, 1, word) for k in (1, 2, 4)]
    two = [(3, 2, word * 8), (5, 10, b"name"), (6, 3, b"")]
    none = truncation(0)
    as_it_is, power, repaired, ahead = bytes([0]), bytes([4]), bytes([6]), bytes([12])
    whole = log_header(2) + none * 2 + log_block(0, 1, one) + log_block(1, 1, two)
    yield "whole", as_it_is + whole
    yield "power", power + whole
    yield "repaired", repaired + whole
    yield "ahead", ahead + whole
    yield "gap", power + log_header(2) + none * 2 + log_block(0, 1, one) + bytes(512)
    yield "truncated", power + log_header(2) + truncation(4) + none + log_block(0, 1, one) + log_block(1, 1, two)
    yield "every-type", as_it_is + log_header(1) + none * 2 + log_block(0, 1, [(k, k, b"") for k in range(1, 12)])
    parts = struct.pack("<QQQ", address(3, 640), 5, 8) + word + struct.pack("<QQQ", address(2, 64), 6, 3) + bytes(8)
    yield "together", as_it_is + log_header(1) + none * 2 + log_block(0, 1, [(1, 12, parts), (2, 12, b""), (3, 12, word)])
    too_long = struct.pack("<QQQ", address(3, 640), 5, (1 << 64) - 1) + word
    yield "together-damaged", as_it_is + log_header(1) + none * 2 + log_block(0, 1, [(1, 12, parts[:-8]), (2, 12, too_long)])
    yield "recycled", as_it_is + log_header(1) + none * 2 + log_block(0, 9, one, 7)
    yield "same-twice", repaired + log_header(2) + none * 2 + log_block(0, 1, one) + log_block(1, 1, one)
    yield "too-many-blocks", as_it_is + log_header(1 << 60) + none * 2 + log_block(0, 1, one)
    yield "tiny-blocks", repaired + log_header(2, block_bytes=8) + none * 2
    yield "highest", repaired + log_header(1, (1 << 64) - 1) + none * 2 + log_block(0, 1, [((1 << 64) - 1, 1, word)])
    yield "empty", as_it_is
    blobs = blob(b"names", b"some names") + blob(b"", b"")
    kept, mended = bytes([1]), bytes([3])
    yield "checkpoint", kept + checkpoint_header(2, blobs=blobs) + checkpoint_header(1) + blobs
    yield "checkpoint-first", kept + bytes(64) + checkpoint_header(1, blobs=blobs) + blobs
    yield "checkpoint-damaged", kept + bytes([7]) * 128
    yield "checkpoint-short", kept + bytes(64) + checkpoint_header(1, blobs=blobs) + blobs[:-8]
    yield "checkpoint-long-name", mended + checkpoint_header(2, blobs=blobs) + bytes(64) + b"\xff" * 4 + blobs
    yield "checkpoint-lines", mended + checkpoint_header(2, line=0) + checkpoint_header(1, line=24) + blobs


# ---- requests of a Redis client ----


def array(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in words)


def resp():
    plain, guarded = bytes([0, 7]), bytes([1, 9])

    def lines(*texts):
        return plain + b"".join(array(*text.split()) for text in texts)

    yield "set-get", lines("SET a 1", "GET a", "SET a 2 EX 10 NX GET", "GETSET a 3", "GETDEL a", "GET a")
    yield "expiry", lines("SET a 1 PX 5", "GET a", "EXPIRE a 10 GT", "PEXPIREAT a 1800000000000", "TTL a", "GETEX a PERSIST",
                          "PERSIST a", "SETEX b 1 x", "PSETEX c 1 y", "PTTL c")
    yield "numbers", lines("INCR n", "INCRBY n 9223372036854775806", "DECR n", "DECRBY n -5", "APPEND n 0", "STRLEN n",
                           "GETRANGE n 0 -1")
    yield "many", lines("MSET a 1 b 2", "MGET a b c", "MSETNX a 1 d 2", "DEL a b a", "EXISTS a b d", "UNLINK d", "TOUCH a")
    yield "all-keys", lines("SET a 1", "SCAN 0 MATCH [a-c]* COUNT 5 TYPE string", "KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHALL ASYNC")
    yield "transaction", lines("WATCH a", "MULTI", "SET a 1", "DBSIZE", "PING", "INCR a", "EXEC", "MULTI", "FOO", "EXEC",
                               "MULTI", "GET a", "DISCARD")
    yield "about-itself", lines("HELLO 3 SETNAME x", "INFO", "COMMAND", "COMMAND DOCS", "COMMAND INFO get", "CONFIG GET *",
                                "CLIENT ID", "CLIENT SETNAME y", "CLIENT GETNAME", "TIME", "TYPE a", "RESET", "QUIT")
    yield "password", guarded + b"GET a\r\nAUTH wrong\r\nHELLO 3 AUTH default secret\r\nGET a\r\n"
    yield "line", plain + b"SET 'a b' \"\\x41\\n\"\r\n\r\nGET 'a b'\n"
    yield "bad-quotes", plain + b"GET 'a\r\n"
    yield "bad-length", plain + b"*2\r\n$3\r\nGET\r\n$-1\r\n"
    yield "huge-length", plain + b"*1\r\n$104857600\r\nx"
    yield "empty", plain + b"*0\r\n*-1\r\nPING\r\n"


TARGETS = [wire_message, protocol, hostile_node, control_frames, handshake, control_master, control_node, status_client, options,
           start, segment, log, resp]


def main():
    check = "--check" in sys.argv[1:]
    folder = pathlib.Path([word for word in sys.argv[1:] if word != "--check"][0])
    written, different = 0, []
    for target in TARGETS:
        (folder / target.__name__).mkdir(parents=True, exist_ok=True)
        for name, data in target():
            path = folder / target.__name__ / ("seed-" + name)
            if check and (not path.exists() or path.read_bytes() != data):
                different.append(str(path))
            if not check:
                path.write_bytes(data)
            written += 1
    for path in different:
        print("differs from what make_corpus.py writes:", path)
    print(f"{written} seeds")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
