# SPDX-License-Identifier: OLDAP-2.8
"""Readers of a data set while another user plants memory that looks like theirs.

	stores_hostile.py WHOSE SERVER READER DIRECTORY TOP...	(as root)

The script copies a reader's shared memory and falsifies each value. WHOSE: `other`, another user owns the copies and
other files of the same name, has passed them to a process of this user, and holds all names that lead to the true
memory, so that readers look at the descriptors of all processes; `own`, this user owns a copy, which shows that readers
would use the copies. SERVER: the server in place of the node's: none, silent or liar. TOP: a command that looks at the
counters of all processes. Prints a line "MIB MESSAGES CHANGED STATUS" (MiB of the true shared memory; messages that
readers sent to the other user's server; copies that differ from the planted ones; TOP's status), and the output of
each of four readers.
"""
import array
import fcntl
import hashlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys

SLOTS, NOBODY, READERS, LARGE = 64, 65534, 4, 1 << 20
PAGE, HEADER, OVERFLOW = 4096, 16, 0x04
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
NAME, STATS = "lmdbio", "lmdbio-stats"


def memory_of(pid, name):
    """Returns a path to each of a process's memory files of that name."""
    folder = f"/proc/{pid}/fd"
    paths = {}
    for number in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{number}") == f"/memfd:{name} (deleted)":
                paths[os.stat(f"{folder}/{number}").st_ino] = f"{folder}/{number}"
        except FileNotFoundError:
            pass
    return list(paths.values())


def falsify(data):
    """Changes the first byte of each value in overflow pages."""
    at = 2 * PAGE
    while at + PAGE <= len(data):
        pages = 1
        if struct.unpack_from("=H", data, at + 10)[0] == OVERFLOW:
            pages = max(1, struct.unpack_from("=I", data, at + 12)[0])
            data[at + HEADER] ^= 0xff
        at += pages * PAGE


def planted(name, data, seals=SEALS):
    file = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.ftruncate(file, len(data))
    for at in range(0, len(data), LARGE):
        if any(data[at:at + LARGE]):
            os.pwrite(file, data[at:at + LARGE], at)
    if seals:
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    os.fchmod(file, 0o600 if name == STATS else 0o666)
    return file


def digest(file):
    return hashlib.sha256(os.pread(file, os.fstat(file).st_size, 0)).digest()


def serve(name, how):
    """Returns a socket with the name of the node's server; None for "none"."""
    if how == "none":
        return None
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind("\0" + name)
    server.listen(0 if how == "silent" else 128)
    if how == "silent":  # the queue of connections is full from the beginning
        for _ in range(2):
            filler = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            filler.connect_ex("\0" + name)
            serve.fillers.append(filler)
    return server


serve.fillers = []


def other_user():
    """The other user's process: plants copies, passes them on, acts as a server, and prints its counts."""
    names, images, address, how = json.loads(sys.stdin.buffer.readline())
    door = socket.socket(fileno=int(sys.argv[2]))
    held, files = [], []
    for name in names:
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind("\0" + name)
        held[-1].listen(0)
    for name, size in images:
        image = sys.stdin.buffer.read(size)
        kept = planted(name, image)
        loose = planted(name, image, 0)  # truncated and grown again all the time
        files += [(kept, digest(kept)), (loose, None), (planted(name, image[:size // 2]), None),
                  (planted(name, image + bytes(PAGE)), None), (planted(name, b""), None),
                  (planted(name, bytes(size)), None)]
    pipe = os.pipe()
    files += [(pipe[0], None), (os.open("/", os.O_RDONLY), None), (os.open("/dev/zero", os.O_RDWR), None)]
    for file, _ in files:
        door.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    door.send(b"e")
    door.recv(1)  # waits until the daemon has them all
    server, messages, ends = serve(address, how), 0, []
    print("planted", flush=True)
    lost = [(file, os.fstat(file).st_size) for (file, was) in files
            if was is None and os.fstat(file).st_size > LARGE and not fcntl.fcntl(file, fcntl.F_GET_SEALS)]
    while True:
        for file, size in lost:
            os.ftruncate(file, 0)
            os.ftruncate(file, size)
        watched = [sys.stdin] + ends + ([server] if how == "liar" else [])
        for ready in select.select(watched, [], [], 0.001)[0]:
            if ready is sys.stdin:
                changed = sum(was is not None and digest(file) != was for file, was in files)
                print(messages, changed, flush=True)
                return
            if ready is server:
                ends.append(server.accept()[0])
                ends[-1].setblocking(False)
                continue
            try:
                got = ready.recv(4096)
            except OSError:
                got = b""
            if not got:
                ends.remove(ready)
                continue
            messages += 1
            ready.sendmsg([struct.pack("=Ii", 2, 0)],
                          [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [files[0][0]]))])


def daemon():
    """A process of this user that takes all descriptors that it is passed."""
    door, held = socket.socket(fileno=int(sys.argv[2])), []
    while True:
        got, parts, _, _ = door.recvmsg(1, 1024)
        if not got:
            return
        held += [bytes(part[2]) for part in parts]
        if not parts:
            door.send(b"x")


def start(reader, path):
    return subprocess.Popen([reader, "--hold", "scan", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def end(reader):
    reader.stdin.close()
    if reader.wait():
        sys.exit(f"a reader ends with {reader.returncode}")


def copies_of(reader, path):
    """Returns images of a reader's memory, with falsified values, and the names that lead to this memory."""
    images = []
    first = start(reader, path)
    first.stdout.readline()
    size = os.stat(f"{path}/data.mdb").st_size
    for name in (NAME, STATS):
        for file in memory_of(first.pid, name):
            with open(file, "rb") as memory:
                image = bytearray(memory.read())
            data = bytearray(image[:size])
            if name == NAME and len(image) >= size:
                falsify(data)
                image[:size] = data
            images.append((name, bytes(image)))
    with open("/proc/net/unix", encoding="latin-1") as sockets:
        keys = set(re.findall(r"@(lmdbio\.0\.[0-9a-f]{32})\.\w+$", sockets.read(), re.MULTILINE))
    end(first)
    return images, [f"{key}.{slot}" for key in keys for slot in range(SLOTS)]


def server_name():
    hash_ = 0xcbf29ce484222325
    for byte in os.environ["LMDBIO_NODE"].encode():
        hash_ = (hash_ ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return f"lmdbio-server.0.{hash_:016x}"


def role(name, user, end_of_pair):
    command = [sys.executable, __file__, name, str(end_of_pair.fileno())]
    if user:
        command = ["setpriv", f"--reuid={user}", "--clear-groups", *command]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[end_of_pair.fileno()])
    end_of_pair.close()
    return started


def plant(images, names, how, user):
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeps = role("daemon", None, ours)
    planter = role("other_user", user, theirs)
    told = (names, [(name, len(image)) for name, image in images], server_name(), how)
    planter.stdin.write(json.dumps(told).encode() + b"\n" + b"".join(image for _, image in images))
    planter.stdin.flush()
    if planter.stdout.readline() != b"planted\n":
        sys.exit("nothing was planted")
    return keeps, planter


def main():
    whose, how, reader, path, *top = sys.argv[1:]
    images, names = copies_of(reader, path)
    keeps, planter = plant(images, names, how, NOBODY if whose == "other" else None)
    readers = [start(reader, path) for _ in range(READERS)]
    lines = [each.stdout.readline().decode() for each in readers]
    files = {}
    for each in readers:
        for file in memory_of(each.pid, NAME) + memory_of(each.pid, NAME + "-private"):
            state = os.stat(file)
            files[state.st_ino] = state.st_blocks * 512
    status = subprocess.run(top, stdout=subprocess.DEVNULL, check=False).returncode if top else 0
    planter.stdin.write(b"end\n")
    planter.stdin.flush()
    messages, changed = planter.stdout.readline().split()
    print(sum(files.values()) >> 20, int(messages), int(changed), status)
    print("".join(lines), end="")
    for each in readers:
        end(each)
    planter.wait()
    keeps.wait()


signal.alarm(300)  # ends a hang
if len(sys.argv) == 3:
    {"other_user": other_user, "daemon": daemon}[sys.argv[1]]()
else:
    main()
