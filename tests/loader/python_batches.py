# SPDX-License-Identifier: OLDAP-2.8
"""Checks the Python package's loader: records, order, views, states, statistics and errors.

python_batches.py make PATH | check PATH [STAGE-DIRECTORY]
"""
import copy
import gc
import os
import pickle
import re
import sys

import lmdb

RECORDS = 700


def value_of(i):
	return bytes((i * 31 + j) & 255 for j in range(64)) * (1 + i % 90)


def make(path):
	env = lmdb.open(path, map_size=1 << 26)
	with env.begin(write=True) as txn:
		for i in range(RECORDS):
			txn.put(b"%02d/%06d" % (i // 100, i), value_of(i))
	env.close()


def judge(name, good):
	print("ok" if good else "NOT OK", name)
	judge.bad |= not good


judge.bad = False


def right(record, key, value):
	return bytes(key) == b"%02d/%06d" % (record // 100, record) and bytes(value) == value_of(record)


def check(path, stage=None):
	import lmdbio

	loader = lmdbio.Loader(path, 32, seed=3, lock=False, stage_dir=stage, memory=1 << 16)
	judge("loader_has_all_records", loader.records == RECORDS and len(loader) == 22)
	orders = []
	for epoch in range(2):
		seen, good = [], True
		for batch in loader.epoch(epoch):
			good &= batch.epoch == epoch
			for record, (key, value) in zip(batch.records, batch):
				good &= right(record, key, value)
				seen.append(record)
		orders.append(seen)
		judge("epoch_%d_gives_each_record_once" % epoch, good and sorted(seen) == list(range(RECORDS)))
	judge("epochs_differ", orders[0] != orders[1])

	parts = []
	for rank in range(3):
		with lmdbio.Loader(path, 32, seed=3, lock=False, ranks=3, rank=rank) as part:
			parts.append([batch.records for batch in part.epoch(0)])
	joined = [record for batch in zip(*parts) for part in batch for record in part]
	judge("three_ranks_give_the_same_order", joined == orders[0])

	# A view outlives its batch, its epoch and its loader.
	batches = loader.epoch(0)
	kept = next(batches)
	record, view = kept.records[5], kept.value(5)
	del kept
	state = loader.state()
	rest = [r for batch in batches for r in batch.records]
	loader.epoch(9)
	loader.close()
	del loader, batches
	gc.collect()
	judge("view_stays_valid_when_all_else_is_gone", bytes(view) == value_of(record))
	judge("view_is_read_only", view.readonly)

	with lmdbio.Loader(path, 32, seed=3, lock=False) as indexed:
		batch = next(indexed.epoch(0))
		pairs = list(batch)
		judge("indices_go_as_those_of_a_list", len(pairs) == len(batch) == 32 and
			all(batch[i] == pair == (batch.key(i), batch.value(i)) for i, pair in enumerate(pairs)) and
			batch[-1] == pairs[31])
		try:
			batch[32]
			judge("index_past_the_end_is_an_error", False)
		except IndexError:
			judge("index_past_the_end_is_an_error", True)

	# A worker of DataLoader hands a batch out by pickling it.
	with lmdbio.Loader(path, 32, seed=3, lock=False) as pickled:
		batches = [batch for batch in pickled.epoch(0)]
		for how, copied in (("pickled", pickle.loads(pickle.dumps(batches))), ("copied", list(map(copy.copy, batches)))):
			judge("%s_batches_have_the_same_records" % how, all(
				(a.epoch, a.number, a.records, a.errors, list(a)) == (b.epoch, b.number, b.records, b.errors, list(b))
				for a, b in zip(batches, copied)))
	del batches, pickled
	judge("batch_is_independent_of_its_loader", all(
		right(record, *pair) and pair[1].readonly for batch in copied for record, pair in zip(batch.records, batch)))

	with lmdbio.Loader(path, 8, order="sequential", lock=False) as other:
		resumed = [r for batch in other.resume(state) for r in batch.records]
		judge("resume_goes_on_where_it_was", resumed == rest)
		with other.quiet():
			judge("next_epoch_follows", len([1 for batch in other]) == 22)
		quality = other.quality(0, 0, 2)
		judge("quality_is_told", quality["distinct"] == 7 and quality["labels"] > 0.999)
		judge("verdict_is_one_line", re.fullmatch(r"I/O is (not )?your bottleneck: waited [0-9.]+ of [0-9.]+ s \([0-9]+ %\).*", other.verdict()))
		judge("statistics_count_batches", other.stats()["batches"] == 21 + 22)

	try:
		lmdbio.Loader(path + "/nothing", 8)
		judge("missing_data_set_is_an_error", False)
	except lmdbio.Error as error:
		judge("missing_data_set_is_an_error", error.code == 2)

	data = pickle.loads(pickle.dumps(lmdbio.Records(path, 32, seed=3, lock=False,
		decode=lambda_free)))
	judge("records_are_those_of_the_loader", list(data) == orders[0])
	data.set_epoch(1)
	judge("records_follow_set_epoch", list(data) == orders[1])
	child = os.fork()
	if not child:
		data.set_epoch(0)
		os._exit(0 if list(data) == orders[0] else 1)
	judge("forked_worker_opens_its_own", os.waitpid(child, 0)[1] == 0)

	try:
		import numpy
	except ImportError:
		print("-- no numpy here")
	else:
		with lmdbio.Loader(path, 32, lock=False) as loader:
			batch = next(loader.epoch(0))
			arrays = batch.arrays()
			addresses = [a.__array_interface__["data"][0] for a in arrays]
			again = batch.arrays()
			judge("arrays_are_no_copies", addresses == [a.__array_interface__["data"][0] for a in again])
			judge("arrays_have_the_bytes", all(bytes(a) == value_of(r)
				for a, r in zip(arrays, batch.records)))
			judge("arrays_are_numpy", all(isinstance(a, numpy.ndarray) for a in arrays))


def lambda_free(key, value):
	return int(bytes(key[3:])) if bytes(value) == value_of(int(bytes(key[3:]))) else None


if __name__ == "__main__":
	if sys.argv[1] == "make":
		make(sys.argv[2])
	else:
		check(*sys.argv[2:])
		sys.exit(judge.bad)
