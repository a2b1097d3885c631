# SPDX-License-Identifier: OLDAP-2.8
"""Changes the first byte of each value in overflow pages, which makes another data set with the same keys,
sizes and meta pages. Pages are 4,096 bytes, as LMDB makes them on this machine.

usage: other_values.py DATA-FILE [MASK [MOST]]	(the bits to change, default: 255; in so many values, default: all)
"""

import struct
import sys

MASK = int(sys.argv[2]) if len(sys.argv) > 2 else 0xff
most = int(sys.argv[3]) if len(sys.argv) > 3 else -1
PAGE, HEADER, OVERFLOW = 4096, 16, 0x04

with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    at = 2 * PAGE
    while at < len(data):
        pages = 1
        if struct.unpack_from("=H", data, at + 10)[0] & OVERFLOW:
            pages = struct.unpack_from("=I", data, at + 12)[0]
            if most:
                data[at + HEADER] ^= MASK
                most -= 1
        at += pages * PAGE
    file.seek(0)
    file.write(data)
