/* The kernels as Python calls them, from mta/kernels/native.py alone.
 *
 * Columns come as buffers, contiguous ones; their types are checked there, their lengths here.
 * Loops run without the interpreter's lock. Where one is REFUSED, a ValueError is raised. */
#include "columns.h"

/* Grows with any change of these sources, and in native.py with it. */
#define REVISION 4
#define MAX_HELD 24

typedef struct {
    Py_buffer views[MAX_HELD];
    int count;
    Pages pages;
} Held;

static void let_go(Held *held) {
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
    while (held->pages.count)
        PyBuffer_Release(&held->pages.views[--held->pages.count]);
    PyMem_Free(held->pages.views);
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
    if (!given || !PyTuple_Check(given) || PyTuple_Size(given) != count) {
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

static int of_kind(Held *held, const Kind *kind, PyObject *args, int at, int writable,
                   Columns *found) {
    return columns(held, PyTuple_GetItem(args, at), kind->columns, kind->sizes, writable, found);
}

/* The argument at a place as a whole number; false where it is none. */
static int whole(PyObject *args, int at, int64_t *found) {
    PyObject *given = PyTuple_GetItem(args, at);
    *found = given ? PyLong_AsLongLong(given) : 0;
    return !PyErr_Occurred();
}

/* The kind of which the first argument is the number. */
static const Kind *kind_of(PyObject *args) {
    int64_t number;
    return whole(args, 0, &number) && require(number >= 0 && number < KIND_COUNT, "no such kind")
        ? &KINDS[number] : NULL;
}

/* Positions as an array of so many, or as the first of them. */
static int positions(Held *held, PyObject *args, int at, int64_t count, Positions *found) {
    int64_t rows = count;
    PyObject *given = PyTuple_GetItem(args, at);
    found->each = NULL;
    if (given && PyLong_Check(given))
        return whole(args, at, &found->first)
            && require(found->first >= -MAX_POSITION && found->first <= MAX_POSITION,
                       "a position that is out of range");
    found->each = column(held, given, 8, 0, &rows);
    return found->each && require(rows == count, "a position for each row is wanted");
}

/* True, False where a kernel has overflown or goes unevenly, or an error; lets go of columns. */
static PyObject *told(Held *held, int status) {
    let_go(held);
    if (PyErr_Occurred() || !require(status != REFUSED, "positions out of order or out of range"))
        return NULL;
    return PyBool_FromLong(status >= 0);
}

#define WITHOUT_LOCK(call)                                                                       \
    do { Py_BEGIN_ALLOW_THREADS call; Py_END_ALLOW_THREADS } while (0)

/* Folds up to each row: of all from a first partial on, or within blocks if their size is not 0. */
static PyObject *py_scan(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    int64_t size, backwards;
    Held held = {.count = 0};
    Columns rows, out;
    const Kind *kind = kind_of(args);
    if (kind && of_kind(&held, kind, args, 1, 0, &rows) && of_kind(&held, kind, args, 2, 1, &out)
        && whole(args, 3, &size) && whole(args, 4, &backwards)
        && require(size >= 0 && out.count == rows.count + !size,
                   "a row for each, and one more without blocks, is wanted"))
        WITHOUT_LOCK(status = size ? kind->blocks(&rows, &out, size, backwards != 0)
                                   : kind->scan(&rows, &out, backwards != 0));
    return told(&held, status);
}

static PyObject *py_sweep(PyObject *Py_UNUSED(self), PyObject *args) {
    static const int result[] = {8};
    int status = 0;
    int64_t turns;
    Held held = {.count = 0};
    Sweep s = {.turns = 0};
    const Kind *kind = kind_of(args);
    if (kind && of_kind(&held, kind, args, 1, 0, &s.rows)
        && of_kind(&held, kind, args, 2, 0, &s.stack) && whole(args, 3, &s.stack_at)
        && whole(args, 4, &s.middle) && whole(args, 5, &s.first) && whole(args, 9, &turns)
        && of_kind(&held, kind, args, 7, 1, &s.right)
        && ((s.turns = turns != 0) == 0 || of_kind(&held, kind, args, 8, 1, &s.room))
        && ((s.lost = PyFloat_AsDouble(PyTuple_GetItem(args, 10))) != -1 || !PyErr_Occurred())
        && ((s.lowered = s.lost >= 0) == 0
                ? of_kind(&held, kind, args, 11, 1, &s.out)
                : columns(&held, PyTuple_GetItem(args, 11), 1, result, 1, &s.out))
        && positions(&held, args, 6, s.out.count, &s.fronts)
        && require(s.right.count == 1, "the right side is one row")
        && require(s.first >= 0 && s.first <= s.rows.count
                   && s.out.count <= s.rows.count - s.first, "there are fewer rows than results")
        && require(s.stack.count > 0 && s.stack_at <= s.middle
                   && s.stack_at > -MAX_POSITION && s.middle < MAX_POSITION
                   && s.middle - s.stack_at < s.stack.count, "the stack ends before the middle")
        && require(!s.turns || s.room.count > s.rows.count, "there is too little room")) {
        s.count = s.out.count;
        WITHOUT_LOCK(status = kind->sweep(&s));
    }
    return told(&held, status);
}

static PyObject *py_ranges(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    Columns rows, out;
    int64_t *at[2], count[2];
    const Kind *kind = kind_of(args);
    if (kind && of_kind(&held, kind, args, 1, 0, &rows) && of_kind(&held, kind, args, 4, 1, &out)
        && numbers(&held, args, 2, 2, -1, at, count)
        && require(count[0] == out.count && count[1] == out.count,
                   "a start and a length for each range are wanted"))
        WITHOUT_LOCK(status = kind->ranges(&rows, at[0], at[1], &out));
    return told(&held, status);
}

static PyObject *py_across(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    Across a = {.first = 0};
    const Kind *kind = kind_of(args);
    if (kind && of_kind(&held, kind, args, 1, 0, &a.suffixes)
        && (a.counts = column(&held, PyTuple_GetItem(args, 4), 8, 0, &a.pairs)) != NULL
        && (PyTuple_GetItem(args, 3) == Py_None || of_kind(&held, kind, args, 3, 0, &a.between))
        && require(!a.between.at[0] || a.between.count == a.pairs,
                   "a row for each pair of blocks is wanted")
        && of_kind(&held, kind, args, 5, 0, &a.prefixes) && whole(args, 6, &a.first)
        && of_kind(&held, kind, args, 7, 1, &a.out)
        && positions(&held, args, 2, a.out.count, &a.starts)
        && require(a.first >= 0 && a.first <= a.prefixes.count
                   && a.out.count <= a.prefixes.count - a.first, "there are too few prefixes"))
        WITHOUT_LOCK(status = kind->across(&a));
    return told(&held, status);
}

static PyObject *py_ranks(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    int64_t *at[3], n[3], age;
    if (numbers(&held, args, 0, 3, 2, at, n) && whole(args, 3, &age)
        && require(n[1] == n[2], "a rank for each key is wanted"))
        WITHOUT_LOCK(status = ranks(at[0], n[0], at[1], n[1], age, at[2]));
    return told(&held, status);
}

static PyObject *py_first_later(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    int64_t *at[5], n[5];
    if (numbers(&held, args, 0, 5, 4, at, n)
        && require(n[1] > 0 && n[2] == n[3] && n[3] == n[4],
                   "bounds, and a segment, a time and a place for each search, are wanted"))
        WITHOUT_LOCK(status = first_later(at[0], n[0], at[1], n[1] - 1, at[2], at[3], n[4], at[4]));
    return told(&held, status);
}

/* The buffers of a list, which is the first argument; they are let go of with columns. */
static int pages_of(Held *held, PyObject *args) {
    PyObject *given = PyTuple_GetItem(args, 0);
    if (!given || !require(PyList_Check(given), "a list of buffers is wanted"))
        return 0;
    Pages *pages = &held->pages;
    Py_ssize_t size = PyList_Size(given);
    pages->views = PyMem_Calloc((size_t)size + 1, sizeof *pages->views);
    if (!pages->views)
        return PyErr_NoMemory() != NULL;
    for (; pages->count < size; pages->count++) {
        PyObject *page = PyList_GetItem(given, pages->count);
        if (!page || PyObject_GetBuffer(page, &pages->views[pages->count], PyBUF_SIMPLE))
            return 0;
    }
    return 1;
}

/* A column of each page: five rows have its start, its items, the bytes of each, base and unit. */
static int shorts(const Pages *pages, const int64_t *rows, int64_t size, Shorts *found) {
    const int64_t n = pages->count;
    *found = (Shorts){rows, rows + n, rows + 2 * n, rows + 3 * n, rows + 4 * n};
    int holds = size == 5 * n;
    for (int64_t i = 0; holds && i < n; i++) {
        int64_t start = found->starts[i], width = found->widths[i], size = pages->views[i].len;
        holds = start >= 0 && start <= size && found->counts[i] >= 0 && width >= 0
            && (!width || found->counts[i] <= (size - start) / width);
    }
    return require(holds, "a column that its buffer does not hold");
}

/* Ranges of the items of a column as bytes, or of its numbers as the bytes of whole ones. */
static PyObject *py_gathered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *found = NULL;
    Held held = {.count = 0};
    Ranges r = {.pages = &held.pages};
    int64_t *at[4], n[4], total, short_ones;
    if (pages_of(&held, args) && numbers(&held, args, 1, 4, -1, at, n)
        && whole(args, 5, &short_ones) && shorts(&held.pages, at[0], n[0], &r.column)
        && require(n[2] == n[1] && n[3] == n[1], "columns of one length are wanted")) {
        r.which = at[1], r.firsts = at[2], r.counts = at[3], r.count = n[1];
        total = total_of(&r, short_ones != 0);
        if (require(total >= 0, "a range that its column does not hold"))
            found = PyBytes_FromStringAndSize(NULL, short_ones ? 8 * total : total);
        unsigned char *into = found ? (unsigned char *)PyBytes_AsString(found) : NULL;
        if (into)
            WITHOUT_LOCK(gather(&r, short_ones != 0, into));
    }
    let_go(&held);
    return found;
}

static PyObject *py_meet(PyObject *Py_UNUSED(self), PyObject *args) {
    int status = 0;
    Held held = {.count = 0};
    Shorts hashes;
    int64_t *at[5], n[5];
    if (pages_of(&held, args) && numbers(&held, args, 1, 5, 4, at, n)
        && shorts(&held.pages, at[0], n[0], &hashes)
        && require(n[1] == held.pages.count && n[2] < INT32_MAX && n[3] < INT32_MAX
                   && n[4] == n[2] / 2 * n[3], "a place of each key in each run is wanted"))
        WITHOUT_LOCK(status = meet(&held.pages, &hashes, at[1], at[2], n[2] / 2,
                                   (const uint64_t *)at[3], n[3], at[4]));
    return told(&held, status);
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
    METHOD(gathered, "buffers, column, which, firsts, counts, short"),
    METHOD(meet, "buffers, hashes, counts, runs, wanted, slots"),
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
