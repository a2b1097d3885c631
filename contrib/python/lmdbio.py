# SPDX-License-Identifier: OLDAP-2.8
"""What only this file knows: lmdbio's batch loader for Python, by ctypes alone: nothing is compiled.

    import lmdbio

    with lmdbio.Loader("train.lmdb", batch=256, seed=1) as loader:
        for epoch in range(90):
            for batch in loader.epoch(epoch):
                for key, value in batch:      # memoryviews of lmdbio's own memory, not copies
                    ...
                arrays = batch.arrays(dtype="uint8")   # numpy arrays over the same bytes

What a batch shows stays valid as long as anything made of it is alive: each view holds its batch,
and a batch goes back to the loader when the last one is gone. Copy what shall stay for long.

The order is a pure function of seed, epoch and policy, the same on all machines and for any number
of ranks: `Loader(..., ranks=size, rank=rank)` under MPI or torchrun. `loader.state()` is 64 bytes
that another loader goes on from, on another number of ranks too.

A job under MPICH: `Loader(..., comm=comm)`, called by all ranks of a communicator together, whose nodes
then keep the records for each other (lmdbio_mpi_loader_open in lmdbio-mpi(3)). `comm` is an mpi4py
communicator, if mpi4py is built for MPICH (Debian's is built for Open MPI), or MPICH's own handle, an
int. MPI must have been started with MPI_THREAD_MULTIPLE, which mpi4py does.

PyTorch: `Records` is an IterableDataset (where torch is there; else a plain iterable). Each worker
of a DataLoader opens its own loader and gets its share of every batch:

    data = lmdbio.Records("train.lmdb", batch=256, decode=decode, seed=1)
    for epoch in range(90):
        data.set_epoch(epoch)
        for sample in torch.utils.data.DataLoader(data, batch_size=64, num_workers=4):
            ...

NVIDIA DALI: a loader's batches are what external_source takes:

    @pipeline_def(batch_size=256, num_threads=4, device_id=0)
    def images(batches):
        jpegs = fn.external_source(source=batches, dtype=types.UINT8, batch=True)
        return fn.decoders.image(jpegs, device="mixed")

    pipe = images((batch.arrays() for batch in loader.epoch(0)))

The library is the one that is loaded already (under lmdbio-run, say), or $LIBLMDBIO, or
liblmdb.so.0 where the system finds it; of a job besides $LIBLMDBIO_MPI or liblmdbio-mpi.so.0.
"""
import ctypes
import os

ORDERS = {"sequential": 0, "shuffle": 1, "block": 2, "opportunistic": 3}
TAILS = {"pad": 0, "drop": 1, "wrap": 2}
STATE = 64
NO_RECORD = 2 ** 64 - 1
NOTFOUND = -30798
NOSUBDIR, NOLOCK = 0x4000, 0x400000
STALLS = 24


class Error(Exception):
	"""A call of lmdbio has failed; .code is LMDB's or errno's."""

	def __init__(self, code, text):
		super().__init__(text)
		self.code = code


class _Value(ctypes.Structure):
	_fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class _Sample(ctypes.Structure):
	_fields_ = [("record", ctypes.c_uint64), ("key", _Value), ("data", _Value),
		("error", ctypes.c_int)]


class _Batch(ctypes.Structure):
	_fields_ = [("epoch", ctypes.c_uint64), ("number", ctypes.c_uint64),
		("count", ctypes.c_size_t), ("samples", ctypes.POINTER(_Sample)),
		("decoded", ctypes.c_void_p)]


class _Options(ctypes.Structure):
	_fields_ = [("size", ctypes.c_uint64), ("seed", ctypes.c_uint64), ("batch", ctypes.c_uint32),
		("ranks", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("order", ctypes.c_int),
		("tail", ctypes.c_int), ("skip_errors", ctypes.c_uint32), ("shares", ctypes.c_uint32),
		("block", ctypes.c_uint32), ("buffer", ctypes.c_uint32), ("resident", ctypes.c_uint64),
		("memory", ctypes.c_uint64), ("ahead", ctypes.c_uint32), ("threads", ctypes.c_uint32),
		("bandwidth", ctypes.c_uint64), ("stage_dir", ctypes.c_char_p),
		("stage_size", ctypes.c_uint64), ("decode", ctypes.c_void_p),
		("decode_context", ctypes.c_void_p), ("decode_size", ctypes.c_size_t),
		("decode_threads", ctypes.c_uint32)]


class _Stats(ctypes.Structure):
	_fields_ = [("size", ctypes.c_uint64), ("batches", ctypes.c_uint64), ("samples", ctypes.c_uint64),
		("errors", ctypes.c_uint64), ("stalls", ctypes.c_uint64 * STALLS)] + [
		(name, ctypes.c_uint64) for name in ("stall_ns", "epoch_ns", "memory_bytes",
			"stage_bytes", "peer_bytes", "file_bytes", "storage_bytes", "staged_bytes",
			"stage_state", "held_bytes", "reads_at_once", "peer_state", "peer_records")]


class _Quality(ctypes.Structure):
	_fields_ = [("size", ctypes.c_uint64), ("positions", ctypes.c_double),
		("labels", ctypes.c_double), ("worst", ctypes.c_double), ("distinct", ctypes.c_uint64)]


_library = None


def library():
	"""The C library, its functions declared."""
	global _library
	if _library is not None:
		return _library
	wanted = os.environ.get("LIBLMDBIO")
	lib = ctypes.CDLL(wanted) if wanted else ctypes.CDLL(None)
	if not wanted and not hasattr(lib, "lmdbio_loader_open"):
		lib = ctypes.CDLL("liblmdb.so.0")
	if not hasattr(lib, "lmdbio_loader_open"):
		raise ImportError("the liblmdb.so.0 that is found is not lmdbio's: run this under "
			"lmdbio-run, or set LIBLMDBIO")
	handle, number = ctypes.c_void_p, ctypes.c_uint64
	for name, result, arguments in (
			("open", ctypes.c_int, [ctypes.POINTER(handle), ctypes.c_char_p, ctypes.c_uint,
				ctypes.c_char_p, ctypes.POINTER(_Options)]),
			("epoch", ctypes.c_int, [handle, number]),
			("batches", number, [handle]),
			("records", number, [handle]),
			("next", ctypes.c_int, [handle, ctypes.POINTER(ctypes.POINTER(_Batch))]),
			("save", ctypes.c_int, [handle, ctypes.c_char_p]),
			("restore", ctypes.c_int, [handle, ctypes.c_char_p]),
			("quiet", None, [handle, ctypes.c_int]),
			("stats", ctypes.c_int, [handle, ctypes.POINTER(_Stats)]),
			("verdict", ctypes.c_size_t, [handle, ctypes.c_char_p, ctypes.c_size_t]),
			("quality", ctypes.c_int, [handle, number, ctypes.c_size_t, ctypes.c_size_t,
				ctypes.POINTER(_Quality)]),
			("close", None, [handle])):
		function = getattr(lib, "lmdbio_loader_" + name)
		function.restype, function.argtypes = result, arguments
	lib.lmdbio_batch_done.restype = None
	lib.lmdbio_batch_done.argtypes = [ctypes.POINTER(_Batch)]
	lib.mdb_strerror.restype, lib.mdb_strerror.argtypes = ctypes.c_char_p, [ctypes.c_int]
	_library = lib
	return lib


def _check(code, what):
	if code:
		raise Error(code, "%s: %s" % (what, library().mdb_strerror(code).decode()))


def _mpi_library():
	"""liblmdbio-mpi, which takes loaders from the library above."""
	library()
	lib = ctypes.CDLL(os.environ.get("LIBLMDBIO_MPI") or "liblmdbio-mpi.so.0")
	handle = ctypes.c_void_p
	lib.lmdbio_mpi_loader_open.restype = ctypes.c_int
	lib.lmdbio_mpi_loader_open.argtypes = [ctypes.c_int, ctypes.POINTER(handle), ctypes.c_char_p,
		ctypes.c_uint, ctypes.c_char_p, ctypes.POINTER(_Options)]
	return lib


def _handle_of(comm):
	"""A communicator as MPICH knows it, an int."""
	if isinstance(comm, int):
		return comm
	from mpi4py import MPI
	if MPI._sizeof(MPI.Comm) != ctypes.sizeof(ctypes.c_int):
		raise TypeError("this mpi4py is built for another MPI than MPICH")
	return ctypes.c_int.from_address(MPI._addressof(comm)).value


class Batch:
	"""One batch: a sequence of (key, value) memoryviews. `records` are the records' numbers."""

	def __init__(self, pointer):
		self._pointer, self._process = pointer, os.getpid()
		shown = pointer.contents
		self.epoch, self.number = shown.epoch, shown.number
		samples = [shown.samples[i] for i in range(shown.count)]
		self._samples = [sample for sample in samples if sample.record != NO_RECORD]
		self.records = [sample.record for sample in self._samples]
		self.errors = [sample.error for sample in self._samples]

	def __del__(self):
		if self._pointer is not None and self._process == os.getpid():
			library().lmdbio_batch_done(self._pointer)
		self._pointer = None

	def __len__(self):
		return len(self._samples)

	def _view(self, value):
		array = (ctypes.c_ubyte * value.size).from_address(value.data or 0) if value.size else \
			(ctypes.c_ubyte * 0)()
		array._batch = self  # the view holds the array, and the array its batch
		return memoryview(array).cast("B").toreadonly()

	def key(self, i):
		return self._view(self._samples[i].key)

	def value(self, i):
		return self._view(self._samples[i].data)

	def __getitem__(self, i):
		if not -len(self) <= i < len(self):
			raise IndexError(i)
		return self.key(i), self.value(i)

	def __iter__(self):
		return (self[i] for i in range(len(self)))

	def arrays(self, dtype="uint8"):
		"""The values as numpy arrays over lmdbio's memory, read-only."""
		import numpy
		return [numpy.frombuffer(self.value(i), dtype=dtype) for i in range(len(self))]


class _Quiet:
	def __init__(self, loader):
		self._loader = loader

	def __enter__(self):
		library().lmdbio_loader_quiet(self._loader._handle, 1)

	def __exit__(self, *what):
		library().lmdbio_loader_quiet(self._loader._handle, 0)


class Loader:
	"""Batches of an LMDB data set or a container. The words are those of struct
	lmdbio_loader_options in lmdbio.h; order and tail are strings. With `comm` all its ranks open one
	together; rank and ranks are then the communicator's."""

	def __init__(self, path, batch, name=None, order="shuffle", tail="pad", lock=True, comm=None,
			**options):
		self._handle = None
		fields = _Options(size=ctypes.sizeof(_Options), batch=batch, order=ORDERS[order],
			tail=TAILS[tail])
		known = {field for field, _ in _Options._fields_} - {"size", "decode", "decode_context",
			"decode_size", "decode_threads"}
		for word, value in options.items():
			if word not in known:
				raise TypeError("lmdbio.Loader has no option '%s'" % word)
			if value is not None:
				setattr(fields, word, os.fsencode(value) if word == "stage_dir" else value)
		flags = (0 if os.path.isdir(path) else NOSUBDIR) | (0 if lock else NOLOCK)
		handle = ctypes.c_void_p()
		arguments = (ctypes.byref(handle), os.fsencode(path), flags,
			name.encode() if name is not None else None, ctypes.byref(fields))
		_check(library().lmdbio_loader_open(*arguments) if comm is None else
			_mpi_library().lmdbio_mpi_loader_open(_handle_of(comm), *arguments), path)
		self._handle, self._process = handle, os.getpid()
		self._next = 0

	def __enter__(self):
		return self

	def __exit__(self, *what):
		self.close()

	def __del__(self):
		self.close()

	def close(self):
		"""At any time. Batches that are in use stay valid."""
		handle, self._handle = self._handle, None
		if handle is not None and self._process == os.getpid():
			library().lmdbio_loader_close(handle)

	@property
	def records(self):
		return library().lmdbio_loader_records(self._handle)

	def __len__(self):
		return library().lmdbio_loader_batches(self._handle)

	def _batches(self):
		pointer = ctypes.POINTER(_Batch)()
		while True:
			code = library().lmdbio_loader_next(self._handle, ctypes.byref(pointer))
			if code == NOTFOUND:
				return
			_check(code, "the next batch")
			batch, pointer = Batch(pointer), ctypes.POINTER(_Batch)()
			yield batch
			del batch

	def epoch(self, epoch):
		"""Begins an epoch; an iterator over its batches."""
		_check(library().lmdbio_loader_epoch(self._handle, epoch), "epoch %d" % epoch)
		self._next = epoch + 1
		return self._batches()

	def __iter__(self):
		"""The next epoch, from 0 on."""
		return self.epoch(self._next)

	def state(self):
		"""64 bytes: the batch that would come next."""
		state = ctypes.create_string_buffer(STATE)
		_check(library().lmdbio_loader_save(self._handle, state), "saving the place")
		return state.raw

	def resume(self, state):
		"""Goes on where a state was saved; an iterator over the rest of that epoch."""
		if len(state) != STATE:
			raise ValueError("a state has %d bytes" % STATE)
		_check(library().lmdbio_loader_restore(self._handle, bytes(state)), "resuming")
		self._next = int.from_bytes(state[6:12], "little") + 1
		return self._batches()

	def quiet(self):
		"""with loader.quiet(): no read is begun, but for who waits. Around an allreduce."""
		return _Quiet(self)

	def stats(self):
		stats = _Stats(size=ctypes.sizeof(_Stats))
		_check(library().lmdbio_loader_stats(self._handle, ctypes.byref(stats)), "statistics")
		found = {name: getattr(stats, name) for name, _ in _Stats._fields_ if name != "size"}
		found["stalls"] = list(found["stalls"])
		return found

	def verdict(self):
		"""Is I/O my bottleneck? In one line."""
		line = ctypes.create_string_buffer(1024)
		library().lmdbio_loader_verdict(self._handle, line, len(line))
		return line.value.decode()

	def quality(self, epoch, start, length):
		"""How random the order of an epoch is; labels are `length` bytes of the keys."""
		quality = _Quality(size=ctypes.sizeof(_Quality))
		_check(library().lmdbio_loader_quality(self._handle, epoch, start, length,
			ctypes.byref(quality)), "the quality of the order")
		return {name: getattr(quality, name) for name, _ in _Quality._fields_ if name != "size"}


try:
	from torch.utils.data import IterableDataset as _Base, get_worker_info as _worker
except ImportError:
	class _Base:
		pass

	def _worker():
		return None


class Records(_Base):
	"""An iterable of decoded samples, or of whole batches, that a PyTorch DataLoader's workers
	share: pickled and forked as it is, each opens its own loader where it is used.

	decode(key, value) makes a sample of two memoryviews (bytes of both if it is None); with
	batches=True, decode(batch) makes something of each whole Batch."""

	def __init__(self, path, batch, decode=None, batches=False, ranks=1, rank=0, **options):
		super().__init__()
		self.path, self.batch, self.decode, self.batches = path, batch, decode, batches
		self.ranks, self.rank, self.options = ranks, rank, options
		self.epoch, self._loader, self._of = 0, None, None

	def __getstate__(self):
		return {**self.__dict__, "_loader": None, "_of": None}

	def set_epoch(self, epoch):
		self.epoch = epoch

	def _open(self):
		worker = _worker()
		workers, number = (worker.num_workers, worker.id) if worker else (1, 0)
		of = (os.getpid(), workers, number)
		if self._of != of:
			self._loader = Loader(self.path, self.batch, ranks=self.ranks * workers,
				rank=self.rank * workers + number, **self.options)
			self._of = of
		return self._loader

	def __iter__(self):
		for batch in self._open().epoch(self.epoch):
			if self.batches:
				yield self.decode(batch) if self.decode else batch
			else:
				for key, value in batch:
					yield self.decode(key, value) if self.decode else \
						(bytes(key), bytes(value))
