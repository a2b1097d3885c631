# SPDX-License-Identifier: OLDAP-2.8
"""Runs py-lmdb's own test suite, and writes each test's name and result into a file.

usage: pylmdb_suite.py FILE    in py-lmdb's source, with its package in PYTHONPATH

Some of its tests judge a clock and can fail beside busy processes: a test that fails runs up to
twice more. test_preload is left out: it wants 1,000 page faults for a value in the page cache, but the
kernel maps more or fewer pages with each fault. In py-lmdb 2 the test wants one page fault.
"""
import multiprocessing.process
import sys
import unittest

TRIES = 3
LEFT_OUT = "PreloadTest.test_preload"


def join_without_clock(process, timeout=None, join=multiprocessing.process.BaseProcess.join):
    """Waits without a limit: the suite's five seconds may pass while a busy machine starts a child."""
    join(process)


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def outcome(test):
    for _ in range(TRIES):
        result = unittest.TestResult()
        unittest.TestSuite([test]).run(result)
        if result.wasSuccessful():
            return "skipped" if result.skipped else "passed"
        for _, text in result.failures + result.errors:
            print(test.id(), text)
    return "failed"


def main(path):
    """Writes each test's line at once, so that a suite that dies leaves the lines of its finished tests."""
    multiprocessing.process.BaseProcess.join = join_without_clock
    with open(path, "w") as file:
        for test in tests_of(unittest.defaultTestLoader.discover("tests", "*_test.py")):
            word = "left out" if test.id().endswith(LEFT_OUT) else outcome(test)
            print(test.id(), word, file=file, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
