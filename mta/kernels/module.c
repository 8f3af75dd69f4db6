/* The kernels as Python calls them, from mta/kernels/native.py alone.
 *
 * Columns come as buffers, contiguous ones; their types are checked there, their lengths here.
 * Loops run without the interpreter's lock. Where a refusal is returned, a ValueError is raised;
 * OVERFLOWN is returned as False: numpy's way has the answer.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns.h"

/* Grows with any change of these sources, and in native.py with it. */
#define REVISION 3
#define MAX_HELD 24
/* So that sums of two do not wrap. */
#define MAX_POSITION (INT64_C(1) << 61)

typedef struct {
    Py_buffer views[MAX_HELD];
    int count;
} Held;

static void let_go(Held *held) {
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
}

static int require(int holds, const char *what) {
    if (!holds)
        PyErr_SetString(PyExc_ValueError, what);
    return holds;
}

/* One column of items of a size; its length in rows. */
static void *column(Held *held, PyObject *given, int size, int writable, int64_t *rows) {
    if (!given || !require(held->count < MAX_HELD, "too many columns"))
        return NULL;
    Py_buffer *view = &held->views[held->count];
    if (PyObject_GetBuffer(given, view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO))
        return NULL;
    held->count++;
    if (view->itemsize != size || view->len % size) {
        PyErr_Format(PyExc_ValueError, "a column of items of %zd bytes in place of %d",
                     view->itemsize, size);
        return NULL;
    }
    *rows = view->len / size;
    return view->buf ? view->buf : (void *)&held->views[0]; /* never read where there are no rows */
}

/* The columns of a kind: a tuple of as many as it has, all of one length. */
static int columns(Held *held, PyObject *given, int count, const int *sizes, int writable,
                   Columns *found) {
    if (!PyTuple_Check(given) || PyTuple_Size(given) != count) {
        PyErr_Format(PyExc_ValueError, "a tuple of %d columns is wanted", count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        int64_t rows;
        found->at[i] = column(held, PyTuple_GetItem(given, i), sizes[i], writable, &rows);
        if (!found->at[i]
            || !require(!i || rows == found->count, "columns of one length are wanted"))
            return 0;
        found->count = rows;
    }
    return 1;
}

/* Columns of whole numbers: the arguments from ``first`` on. One may be written to. */
static int numbers(Held *held, PyObject *args, int first, int count, int written, int64_t **at,
                   int64_t *rows) {
    for (int i = 0; i < count; i++)
        if (!(at[i] = column(held, PyTuple_GetItem(args, first + i), 8, i == written, &rows[i])))
            return 0;
    return 1;
}

static int of_kind(Held *held, const Kind *kind, PyObject *given, int writable, Columns *found) {
    return columns(held, given, kind->columns, kind->sizes, writable, found);
}

static const Kind *kind_of(int number) {
    return require(number >= 0 && number < KIND_COUNT, "no such kind") ? &KINDS[number] : NULL;
}

/* Positions as an array of so many, or as the first of them. */
static int positions(Held *held, PyObject *given, int64_t count, Positions *found) {
    if (PyLong_Check(given)) {
        found->each = NULL;
        found->first = PyLong_AsLongLong(given);
        return !PyErr_Occurred()
            && require(found->first >= -MAX_POSITION && found->first <= MAX_POSITION,
                       "a position that is out of range");
    }
    int64_t rows;
    found->each = column(held, given, 8, 0, &rows);
    return found->each && require(rows == count, "a position for each row is wanted");
}

/* What a kernel returned: True, False where it has overflown, or an error. Lets go of columns. */
static PyObject *told(Held *held, int status) {
    let_go(held);
    if (PyErr_Occurred() || !require(status != REFUSED, "positions out of order or out of range"))
        return NULL;
    return PyBool_FromLong(status >= 0);
}

#define WITHOUT_LOCK(call)                                                                       \
    do {                                                                                         \
        Py_BEGIN_ALLOW_THREADS                                                                   \
        status = call;                                                                           \
        Py_END_ALLOW_THREADS                                                                     \
    } while (0)

/* Folds up to each row: of all from a first partial on, or within blocks if their size is not 0. */
static PyObject *py_scan(PyObject *Py_UNUSED(self), PyObject *args) {
    int number, backwards, status = 0;
    long long size;
    PyObject *given, *room;
    Held held = {.count = 0};
    Columns rows, out;
    if (!PyArg_ParseTuple(args, "iOOLp:scan", &number, &given, &room, &size, &backwards))
        return NULL;
    const Kind *kind = kind_of(number);
    if (kind && of_kind(&held, kind, given, 0, &rows) && of_kind(&held, kind, room, 1, &out)
        && require(size >= 0 && out.count == rows.count + !size,
                   "a row for each, and one more without blocks, is wanted"))
        WITHOUT_LOCK(size ? kind->blocks(&rows, &out, size, backwards)
                          : kind->scan(&rows, &out, backwards));
    return told(&held, status);
}

static PyObject *py_sweep(PyObject *Py_UNUSED(self), PyObject *args) {
    int number, status = 0;
    PyObject *rows, *stack, *fronts, *right, *room, *out;
    Held held = {.count = 0};
    Sweep s = {.turns = 0};
    if (!PyArg_ParseTuple(args, "iOOLLLOOOpdO:sweep", &number, &rows, &stack, &s.stack_at,
                          &s.middle, &s.first, &fronts, &right, &room, &s.turns, &s.lost, &out))
        return NULL;
    const Kind *kind = kind_of(number);
    static const int result[] = {8};
    s.lowered = s.lost >= 0;
    if (kind && of_kind(&held, kind, rows, 0, &s.rows) && of_kind(&held, kind, stack, 0, &s.stack)
        && of_kind(&held, kind, right, 1, &s.right)
        && (s.lowered ? columns(&held, out, 1, result, 1, &s.out)
                      : of_kind(&held, kind, out, 1, &s.out))
        && (!s.turns || of_kind(&held, kind, room, 1, &s.room))
        && positions(&held, fronts, s.out.count, &s.fronts)
        && require(s.right.count == 1, "the right side is one row")
        && require(s.first >= 0 && s.first <= s.rows.count
                   && s.out.count <= s.rows.count - s.first, "there are fewer rows than results")
        && require(s.stack.count > 0 && s.stack_at <= s.middle
                   && s.stack_at > -MAX_POSITION && s.middle < MAX_POSITION
                   && s.middle - s.stack_at < s.stack.count, "the stack ends before the middle")
        && require(!s.turns || s.room.count > s.rows.count, "there is too little room")) {
        s.count = s.out.count;
        WITHOUT_LOCK(kind->sweep(&s));
    }
    return told(&held, status);
}

static PyObject *py_ranges(PyObject *Py_UNUSED(self), PyObject *args) {
    int number, status = 0;
    PyObject *given, *starts, *lengths, *room;
    Held held = {.count = 0};
    Columns rows, out;
    int64_t *at[2], count[2];
    if (!PyArg_ParseTuple(args, "iOOOO:ranges", &number, &given, &starts, &lengths, &room))
        return NULL;
    const Kind *kind = kind_of(number);
    if (kind && of_kind(&held, kind, given, 0, &rows) && of_kind(&held, kind, room, 1, &out)
        && numbers(&held, args, 2, 2, -1, at, count)
        && require(count[0] == out.count && count[1] == out.count,
                   "a start and a length for each range are wanted"))
        WITHOUT_LOCK(kind->ranges(&rows, at[0], at[1], &out));
    return told(&held, status);
}

static PyObject *py_across(PyObject *Py_UNUSED(self), PyObject *args) {
    int number, status = 0;
    long long first;
    PyObject *suffixes, *starts, *between, *sizes, *prefixes, *out;
    Held held = {.count = 0};
    Across a = {.first = 0};
    if (!PyArg_ParseTuple(args, "iOOOOOLO:across", &number, &suffixes, &starts, &between, &sizes,
                          &prefixes, &first, &out))
        return NULL;
    const Kind *kind = kind_of(number);
    if (kind && of_kind(&held, kind, suffixes, 0, &a.suffixes)
        && of_kind(&held, kind, prefixes, 0, &a.prefixes)
        && of_kind(&held, kind, out, 1, &a.out)
        && positions(&held, starts, a.out.count, &a.starts)
        && (a.counts = column(&held, sizes, 8, 0, &a.pairs)) != NULL
        && (between == Py_None || (of_kind(&held, kind, between, 0, &a.between)
                                   && require(a.between.count == a.pairs,
                                              "a row for each pair of blocks is wanted")))
        && require(first >= 0 && first <= a.prefixes.count
                   && a.out.count <= a.prefixes.count - first, "there are too few prefixes")) {
        a.first = first;
        WITHOUT_LOCK(kind->across(&a));
    }
    return told(&held, status);
}

static PyObject *py_ranks(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    int64_t *at[3], rows[3];
    if (numbers(&held, args, 0, 3, 2, at, rows)
        && require(rows[1] == rows[2], "a rank for each key is wanted")) {
        long long age = PyLong_AsLongLong(PyTuple_GetItem(args, 3));
        if (!PyErr_Occurred())
            WITHOUT_LOCK(ranks(at[0], rows[0], at[1], rows[1], age, at[2]));
    }
    let_go(&held);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(status);
}

static PyObject *py_first_later(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    int64_t *at[5], rows[5];
    if (numbers(&held, args, 0, 5, 4, at, rows)
        && require(rows[1] > 0 && rows[2] == rows[3] && rows[3] == rows[4],
                   "bounds, and a segment, a time and a place for each search, are wanted"))
        WITHOUT_LOCK(first_later(at[0], rows[0], at[1], rows[1] - 1, at[2], at[3], rows[4], at[4]));
    return told(&held, status);
}

static PyObject *py_running_max(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    int64_t *at[3], rows[3];
    if (numbers(&held, args, 0, 3, 2, at, rows)
        && require(rows[1] > 0 && rows[0] == rows[2], "bounds and a row each are wanted"))
        WITHOUT_LOCK(running_max(at[0], rows[0], at[1], rows[1] - 1, at[2]));
    return told(&held, status);
}

/* Ranges of many buffers: how many there are, their first bytes, and the sizes of their items. */
typedef struct {
    int64_t count;
    const int64_t *lengths, *widths;
    const unsigned char **where;
} Ranges;

/* Finds the ranges, each of which its buffer must hold; the sum of their lengths, or -1. Widths of
 * items are 1 where none are given. */
static int64_t ranges_of(PyObject *buffers, Py_buffer *views, Py_ssize_t *viewed,
                         const int64_t *which, const int64_t *starts, Ranges *ranges) {
    Py_ssize_t size = PyList_Size(buffers);
    for (; *viewed < size; ++*viewed)
        if (PyObject_GetBuffer(PyList_GetItem(buffers, *viewed), &views[*viewed], PyBUF_SIMPLE))
            return -1;
    int64_t total = 0;
    for (int64_t i = 0; i < ranges->count; i++) {
        int64_t width = ranges->widths ? ranges->widths[i] : 1, length = ranges->lengths[i];
        if (which[i] < 0 || which[i] >= size || length < 0 || starts[i] < 0
            || (width != 0 && width != 1 && width != 2 && width != 4 && width != 8)
            || starts[i] > views[which[i]].len
            || (width && length > (views[which[i]].len - starts[i]) / width)
            || length > MAX_POSITION - total) {
            PyErr_SetString(PyExc_ValueError, "a range that its buffer does not hold");
            return -1;
        }
        ranges->where[i] = (const unsigned char *)views[which[i]].buf + starts[i];
        total += length;
    }
    return total;
}

/* Ranges of bytes as bytes, or with widths, bases and units as numbers into an array. */
static PyObject *py_gathered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *buffers = PyTuple_GetItem(args, 0), *found = NULL;
    PyObject *room = PyTuple_Size(args) > 7 ? PyTuple_GetItem(args, 7) : NULL;
    Held held = {.count = 0};
    int64_t *at[6] = {NULL}, rows[6], places = 0, *offsets = NULL;
    if (!buffers || !require(PyList_Check(buffers), "a list of buffers is wanted"))
        return NULL;
    int wanted = room ? 6 : 3, alike = numbers(&held, args, 1, wanted, -1, at, rows);
    for (int i = 1; alike && i < wanted; i++)
        alike = require(rows[i] == rows[0], "columns of one length are wanted");
    if (alike && (!room || (offsets = column(&held, room, 8, 1, &places)) != NULL)) {
        Py_ssize_t size = PyList_Size(buffers), viewed = 0;
        Py_buffer *views = PyMem_Calloc((size_t)size + 1, sizeof *views);
        Ranges ranges = {rows[0], at[2], at[3],
                         PyMem_Calloc((size_t)rows[0] + 1, sizeof *ranges.where)};
        if (!views || !ranges.where)
            PyErr_NoMemory();
        else {
            int64_t total = ranges_of(buffers, views, &viewed, at[0], at[1], &ranges);
            if (total >= 0 && !room) {
                found = PyBytes_FromStringAndSize(NULL, total);
                if (found) {
                    unsigned char *into = (unsigned char *)PyBytes_AsString(found);
                    Py_BEGIN_ALLOW_THREADS
                    bytes_of(ranges.where, at[2], rows[0], into);
                    Py_END_ALLOW_THREADS
                }
            } else if (total >= 0 && require(total == places, "room for each number is wanted")) {
                Py_BEGIN_ALLOW_THREADS
                numbers_of(ranges.where, at[2], at[3], at[4], at[5], rows[0], offsets);
                Py_END_ALLOW_THREADS
                found = Py_NewRef(room);
            }
        }
        while (viewed)
            PyBuffer_Release(&views[--viewed]);
        PyMem_Free(views);
        PyMem_Free((void *)ranges.where);
    }
    let_go(&held);
    return found;
}

#define METHOD(name, wanted) {#name, py_##name, METH_VARARGS, #name "(" wanted ")"}

static PyMethodDef METHODS[] = {
    METHOD(scan, "kind, rows, out, size, backwards"),
    METHOD(sweep,
           "kind, rows, stack, stack_at, middle, first, fronts, right, room, turns, lost, out"),
    METHOD(ranges, "kind, rows, starts, lengths, out"),
    METHOD(across, "kind, suffixes, starts, between, counts, prefixes, first, out"),
    METHOD(ranks, "times, keys, out, age"),
    METHOD(first_later, "times, bounds, segments, asked, out"),
    METHOD(running_max, "values, bounds, out"),
    METHOD(gathered, "buffers, which, starts, lengths[, widths, bases, units, out]"),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "compiled", "Loops over columns of numbers; see mta.kernels.native.", 0,
    METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_compiled(void) {
    PyObject *module = PyModule_Create(&MODULE), *names = PyTuple_New(KIND_COUNT);
    if (!module || !names)
        return NULL;
    for (int i = 0; i < KIND_COUNT; i++)
        PyTuple_SetItem(names, i, PyUnicode_FromString(KINDS[i].name));
    if (PyModule_AddObjectRef(module, "KINDS", names) ||
        PyModule_AddIntConstant(module, "REVISION", REVISION))
        return NULL;
    Py_DECREF(names);
    return module;
}
