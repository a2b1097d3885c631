# SPDX-License-Identifier: OLDAP-2.8
"""Makes data sets with a record that cannot be read."""
import os

import lmdb


def make(path, records, damaged):
    """Writes records of 20,000 bytes; the page number of one value is far behind the file's end."""
    with lmdb.open(path, map_size=1 << 24) as env, env.begin(write=True) as txn:
        for i in range(records):
            txn.put(b"%04d" % i, b"%04d" % i * 5000)
    key = b"%04d" % damaged
    with open(os.path.join(path, "data.mdb"), "r+b") as data:
        held = data.read()
        page = held.index(key * 5000) // 4096
        data.seek(held.index(key + page.to_bytes(8, "little")) + len(key))
        data.write((1 << 30).to_bytes(8, "little"))
