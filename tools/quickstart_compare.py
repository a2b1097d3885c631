# SPDX-License-Identifier: OLDAP-2.8
"""Compares the runs of two readers on the original with their runs on lmdbio.

usage: quickstart_compare.py DIRECTORY LMDBIO-RUN C-READER PYTHON-READER

Exits with 0 if both libraries read the same bytes in every run, otherwise with 1.
"""
import os
import statistics
import sys
import time

ROUNDS = 3
SECONDS = 75  # no further round begins after these


def drop_caches():
	"""Empties the page cache. Returns False if this user may not: only root may."""
	os.sync()
	try:
		with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
			file.write("1\n")
		return True
	except OSError:
		return False


def read_once(path):
	"""Reads the file, untimed, so that every run finds memory that has just been in use. A virtual machine's
	host may take back memory that has long been free; the first run after that would pay for its return."""
	with open(path, "rb", buffering=0) as file:
		while file.read(1 << 20):
			pass


def run(command, environment):
	"""Runs the program. Returns its output and the kernel's counts."""
	out, into = os.pipe()
	begin = time.monotonic()
	child = os.posix_spawn(command[0], command, environment,
		file_actions=[(os.POSIX_SPAWN_DUP2, into, 1), (os.POSIX_SPAWN_CLOSE, out)])
	os.close(into)
	with os.fdopen(out) as pipe:
		printed = pipe.read()
	_, status, usage = os.wait4(child, 0)
	seconds = time.monotonic() - begin
	if status:
		sys.exit("%s: exit status %d" % (" ".join(command), os.waitstatus_to_exitcode(status)))
	return printed, {"seconds": seconds, "major faults": usage.ru_majflt, "minor faults": usage.ru_minflt,
		"context switches": usage.ru_nvcsw + usage.ru_nivcsw}


def environment_on(lmdbio_run, on):
	environment = {name: value for name, value in os.environ.items()
		if not name.startswith("LMDBIO_") and name != "LD_PRELOAD"}
	if on:
		with os.popen("'%s' --print-env" % lmdbio_run) as words:
			environment.update(word.split("=", 1) for word in words.read().split())
	return environment


def banner_seen(command, environment):
	"""Returns whether lmdbio says that it reads this program's file."""
	out, into = os.pipe()
	child = os.posix_spawn(command[0], command, dict(environment, LMDBIO_VERBOSE="1"),
		file_actions=[(os.POSIX_SPAWN_DUP2, into, 2), (os.POSIX_SPAWN_CLOSE, out),
			(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
	os.close(into)
	with os.fdopen(out) as pipe:
		said = pipe.read()
	os.waitpid(child, 0)
	return "read by lmdbio" in said


def measure(commands, environments):
	"""Runs each command on each library. Returns runs, sums, whether all runs were cold, and the rounds.

	runs[what][library] is a list of counts, sums[what] the set of outputs: a single one if all runs agree.
	"""
	runs, sums, cold = {}, {}, True
	begin = time.monotonic()
	for turn in range(ROUNDS):
		for what, command in commands.items():
			# The libraries take turns in going first: the disk's own cache may help the second run.
			for library in sorted(environments, reverse=bool(turn % 2)):
				read_once(command[-1])
				cold = drop_caches() and cold
				printed, counts = run(command, environments[library])
				runs.setdefault(what, {}).setdefault(library, []).append(counts)
				sums.setdefault(what, set()).add(printed)
		if time.monotonic() - begin > SECONDS:
			break
	return runs, sums, cold, turn + 1


def number(value):
	return "%.2f" % value if isinstance(value, float) and value < 100 else "%d" % round(value)


def table(runs, sums):
	heads = ("data set, reader", "library", "seconds", "MB/s", "records/s", "major faults", "minor faults",
		"context switches")
	rows = [heads]
	for what, libraries in runs.items():
		records, size, _ = min(sums[what]).split()
		for library in ("original", "lmdbio"):
			middle = {name: statistics.median(counts[name] for counts in libraries[library])
				for name in libraries[library][0]}
			rows.append((what if library == "original" else "", library, number(middle["seconds"]),
				number(int(size) / 1e6 / middle["seconds"]), number(int(records) / middle["seconds"]))
				+ tuple(number(middle[name]) for name in heads[5:]))
	widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
	for row in rows:
		print("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
			for i, (cell, width) in enumerate(zip(row, widths))))


def main():
	directory, lmdbio_run, c_reader, python_reader = sys.argv[1:]
	commands = {}
	for title, name in (("files", "files.mdb"), ("lines", "lines.mdb")):
		path = os.path.join(directory, name)
		commands[title + ", C program"] = [c_reader, path]
		commands[title + ", Python script"] = ["/usr/bin/python3", python_reader, path]
	environments = {"original": environment_on(lmdbio_run, False), "lmdbio": environment_on(lmdbio_run, True)}
	runs, sums, cold, rounds = measure(commands, environments)
	same = True
	for what, command in commands.items():
		if len(sums[what]) != 1:
			print("%s: NOT the same bytes: %s" % (what, " | ".join(s.strip() for s in sums[what])))
			same = False
		if not banner_seen(command, environments["lmdbio"]) or banner_seen(command, environments["original"]):
			print("%s: lmdbio was not where it should be" % what)
			same = False
	print("%s, medians of %d round%s" % ("Cold page cache" if cold else
		"WARM page cache (only root can drop it)", rounds, "s" if rounds > 1 else ""))
	table(runs, sums)
	if not same:
		sys.exit(1)
	print("Major faults of lmdbio are mostly those of its own threads, each of which reads a MiB or two.")
	print("Both libraries saw the same bytes in every run:")
	for what in commands:
		records, size, checksum = min(sums[what]).split()
		print("  %-22s %9s records %12s bytes, hash %s" % (what, records, size, checksum))


main()
