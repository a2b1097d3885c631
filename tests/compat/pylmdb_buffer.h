/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives py-lmdb 1.4 a function of Python's that Python 3.13 has no longer, as it was until 3.12. */
#ifndef LMDBIO_TESTS_PYLMDB_BUFFER_H
#define LMDBIO_TESTS_PYLMDB_BUFFER_H

static int PyObject_AsReadBuffer(PyObject *object, const void **buffer, Py_ssize_t *length)
{
	Py_buffer view;

	if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
		return -1;
	*buffer = view.buf;
	*length = view.len;
	PyBuffer_Release(&view);
	return 0;
}

#endif
