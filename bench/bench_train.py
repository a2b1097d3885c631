#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Writes a data set whose records have the sizes of a model of MLPerf Storage, divided by a number.

usage: bench_train.py MODEL DIVISOR BYTES DIRECTORY
"""
import os
import random
import sys

import lmdb

# Mean and standard deviation of a record's bytes.
SIZES = {"unet3d": (146600628, 68341808), "resnet50": (114660, 0), "cosmoflow": (2828486, 71311)}


def main():
    model, divisor, size, path = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    mean, deviation = (number / divisor for number in SIZES[model])
    draw, written, record = random.Random(1), 0, 0
    block = os.urandom(1 << 20)
    block *= int((mean + 8 * deviation) / len(block)) + 2
    with lmdb.open(path, map_size=2 * size + (1 << 28), sync=False) as env:
        while written < size:
            with env.begin(write=True) as txn:
                for _ in range(200):
                    length = int(max(mean / 20, min(draw.gauss(mean, deviation), mean + 7 * deviation)))
                    at = record * 4099 % (1 << 20)
                    txn.put(b"%08d" % record, memoryview(block)[at:at + length], append=True)
                    written, record = written + length, record + 1
                    if written >= size:
                        break
        env.sync(True)


if __name__ == "__main__":
    main()
