# SPDX-License-Identifier: OLDAP-2.8
"""Writes statistics as lmdbio does, of a job that did not run, into a directory.

usage: report_inputs.py DIRECTORY

The job has two hosts with two ranks each: rank 3 waits an eighth of its time, the other ranks wait little. odd.json
has names that look like HTML, and old.json comes from a release with fewer fields.
"""
import json
import os
import sys

directory = sys.argv[1]


def write(name, entry):
    with open(os.path.join(directory, name), "w", encoding="ascii") as file:
        json.dump(entry, file)
        file.write("\n")


def rank(number, waited_ns, began):
    """Returns the statistics of a process that ran for 40 s and read 2 GiB, of which it used half."""
    sizes = [0] * 21
    sizes[12] = 100
    sizes[20] = 2000
    waits = [0] * 40
    waits[0] = waited_ns // 2
    waits[20 + number] = waited_ns - waits[0]
    return {
        "schema": "lmdbio-stats/1", "program": "train.py", "host": f"node{number // 2}",
        "pid": 1000 + number, "rank": number, "began": began, "processes": 3,
        "elapsed_ns": 120 * 10**9, "wait_of_ns": 40 * 10**9,
        "storage_requests": 2100, "storage_bytes": 2 << 30, "served_bytes": 1 << 30,
        "waits": 50, "wait_ns": waited_ns, "hits_cache": 0, "hits_arena_own": 1500,
        "hits_arena_peer": 500, "at_rest": 48, "prefetch_requests": 1900,
        "prefetch_bytes": 1900 << 20, "prefetch_used": 1800 << 20,
        "loader_memory_bytes": 600 << 20, "loader_stage_bytes": 0,
        "loader_peer_bytes": 300 << 20, "loader_file_bytes": 124 << 20,
        "request_sizes": sizes,
        "wait_span_s": 1, "wait_spans_ns": waits,
    }


for i in range(4):
    write(f"rank{i}.json", rank(i, 5 * 10**9 if i == 3 else (i + 1) * 10**8, 1700000000 + i))
busy = rank(0, 30 * 10**9, 1700000000)
busy["pid"] = 77
write("busy.json", busy)
odd = rank(2, 10**6, 1700000000)
odd.update(program="</title><script>alert(1)</script>&amp;", host="<img src=x onerror=alert(2)>\u00e4\u202e")
del odd["rank"]
write("odd.json", odd)
write("old.json", {"schema": "lmdbio-stats/1", "program": "old", "host": "h", "pid": 5,
                   "storage_requests": 9, "storage_bytes": 9 << 20, "served_bytes": 12 << 20,
                   "waits": 3, "wait_ns": 123456789})
