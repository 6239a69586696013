// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The C part of the demo's workload (demo.py), an extension of Python by the stable interface, so
 * that one build serves every version from 3.9 on.
 */
#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <time.h>

static volatile uint64_t sink;

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Uses so many seconds of CPU time; inlined, so that it is its caller's own. */
static inline __attribute__((always_inline)) void work(double seconds)
{
	const double end = cpu_seconds() + seconds;
	uint64_t x = sink | 1;

	while (cpu_seconds() < end) {
		for (unsigned int i = 0; i < 100000; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
	}
	sink = x;
}

/* smooth(seconds) */
static PyObject *smooth(PyObject *module, PyObject *seconds)
{
	const double whole = PyFloat_AsDouble(seconds);

	if (PyErr_Occurred())
		return NULL;
	work(whole);
	Py_RETURN_NONE;
}

/* sort_rows(seconds, compare, times): calls compare() so many times, and works in between. */
static PyObject *sort_rows(PyObject *module, PyObject *arguments)
{
	PyObject *compare, *result;
	double seconds;
	int times;

	if (!PyArg_ParseTuple(arguments, "dOi", &seconds, &compare, &times))
		return NULL;
	for (int i = 0; i < times; i++) {
		work(seconds / times);
		result = PyObject_CallFunctionObjArgs(compare, NULL);
		if (!result)
			return NULL;
		Py_DECREF(result);
	}
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "smooth", smooth, METH_O, NULL },
	{ "sort_rows", sort_rows, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "rprofdemo",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit_rprofdemo(void)
{
	return PyModule_Create(&definition);
}
