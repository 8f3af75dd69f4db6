/* The Python interface of the kernels, for mta/kernels/native.py and mta/windows/compiled.py only.
 *
 * Columns are contiguous buffers. Those modules check their types, and this one their lengths.
 * Loops run without the interpreter's lock. If a loop returns REFUSED, a ValueError is raised. */
#include "columns.h"

/* Raise this and the REVISION in native.py with any change of the code. */
#define REVISION 16
#define MAX_HELD 24

/* A call's arguments, and the buffers to release when the call ends. */
typedef struct {
    PyObject *args;
    const Kind *kind;
    Py_buffer views[MAX_HELD];
    int count, status; /* the number of views, and the status of the loop */
    Pages pages;
} Call;

static void release(Call *c) {
    while (c->count)
        PyBuffer_Release(&c->views[--c->count]);
    while (c->pages.count)
        PyBuffer_Release(&c->pages.views[--c->pages.count]);
    PyMem_Free(c->pages.views);
}

static int require(int holds, const char *what) {
    if (!holds)
        PyErr_SetString(PyExc_ValueError, what);
    return holds;
}

/* One column of items of a size; ``rows`` is set to its length. */
static void *column(Call *c, PyObject *given, int size, int writable, int64_t *rows) {
    if (!given || !require(c->count < MAX_HELD, "too many columns"))
        return NULL;
    Py_buffer *view = &c->views[c->count];
    if (PyObject_GetBuffer(given, view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO))
        return NULL;
    c->count++;
    if (view->itemsize != size || view->len % size) {
        PyErr_Format(PyExc_ValueError, "a column of items of %zd bytes in place of %d",
                     view->itemsize, size);
        return NULL;
    }
    *rows = view->len / size;
    return view->buf ? view->buf : (void *)&c->views[0]; /* never read if there are no rows */
}

/* An argument that is a tuple of columns of equal length; with ROWS, some may have one item. */
enum { FULL, WRITTEN, ROWS };
static int columns(Call *c, int at, int count, const int *sizes, int use, Columns *found) {
    PyObject *given = PyTuple_GetItem(c->args, at);
    if (!given || !require(PyTuple_Check(given) && PyTuple_Size(given) == count,
                           "expected a tuple with every column of the kind"))
        return 0;
    int64_t rows[MAX_COLUMNS], even = 1;
    found->count = 0;
    for (int i = 0; i < count; i++) {
        found->at[i] = column(c, PyTuple_GetItem(given, i), sizes[i], use == WRITTEN, &rows[i]);
        if (!found->at[i])
            return 0;
        found->count = rows[i] > found->count ? rows[i] : found->count;
    }
    for (int i = 0; i < count; i++)
        even &= !(found->step[i] = use != ROWS || rows[i] != 1) || rows[i] == found->count;
    return require(even != 0, "expected columns of equal length");
}

/* An argument with the columns of the call's kind. */
static int of_kind(Call *c, int at, int use, Columns *found) {
    return columns(c, at, c->kind->columns, c->kind->sizes, use, found);
}

/* Arguments from ``first`` on that are columns of integers; ``written`` is writable. */
static int numbers(Call *c, int first, int count, int written, int64_t **at, int64_t *rows) {
    for (int i = 0; i < count; i++)
        if (!(at[i] = column(c, PyTuple_GetItem(c->args, first + i), 8, i == written, &rows[i])))
            return 0;
    return 1;
}

/* An argument that is an integer; false otherwise. */
static int whole(const Call *c, int at, int64_t *found) {
    PyObject *given = PyTuple_GetItem(c->args, at);
    *found = given ? PyLong_AsLongLong(given) : 0;
    return !PyErr_Occurred();
}

/* Sets the kind of the call from its number, which is the first argument. */
static int kind_of(Call *c) {
    int64_t number;
    int known = whole(c, 0, &number) && require(number >= 0 && number < KIND_COUNT, "no such kind");
    c->kind = known ? &KINDS[number] : NULL;
    return known;
}

/* An argument with ``count`` positions: an array, or the first of consecutive ones. */
static int positions(Call *c, int at, int64_t count, Positions *found) {
    int64_t rows = count;
    PyObject *given = PyTuple_GetItem(c->args, at);
    found->each = NULL;
    if (given && PyLong_Check(given))
        return whole(c, at, &found->first)
            && require(found->first >= -MAX_POSITION && found->first <= MAX_POSITION,
                       "a position that is out of range");
    found->each = column(c, given, 8, 0, &rows);
    return found->each && require(rows == count, "expected a position for each row");
}

/* Releases the columns; returns True, False after OVERFLOWN or UNEVEN, or an error. */
static PyObject *told(Call *c) {
    release(c);
    require(c->status != REFUSED, "positions out of order or out of range");
    return PyErr_Occurred() ? NULL : PyBool_FromLong(c->status >= 0);
}

#define WITHOUT_LOCK(call)                                                                       \
    do { Py_BEGIN_ALLOW_THREADS call; Py_END_ALLOW_THREADS } while (0)

/* Folds of a first partial and the rows up to each row. */
static PyObject *py_scan(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t backwards;
    Call c = {.args = args};
    Columns rows, out;
    if (kind_of(&c) && of_kind(&c, 1, ROWS, &rows) && of_kind(&c, 2, WRITTEN, &out)
        && whole(&c, 3, &backwards)
        && require(out.count == rows.count + 1, "expected one more row than given"))
        WITHOUT_LOCK(c.status = c.kind->scan(&rows, 0, rows.count, &out, backwards != 0));
    return told(&c);
}

static PyObject *py_join(PyObject *Py_UNUSED(self), PyObject *args) {
    Call c = {.args = args};
    Columns lefts, rights, out;
    if (kind_of(&c) && of_kind(&c, 1, FULL, &lefts) && of_kind(&c, 2, ROWS, &rights)
        && of_kind(&c, 3, WRITTEN, &out)
        && require(lefts.count == out.count && (rights.count == out.count || rights.count == 1),
                   "expected two rows for each"))
        WITHOUT_LOCK(c.status = c.kind->join(&lefts, &rights, &out));
    return told(&c);
}

static PyObject *py_sweep(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t turns, *places, two;
    Call c = {.args = args};
    Sweep s = {.turns = 0};
    if (kind_of(&c) && of_kind(&c, 1, ROWS, &s.rows) && whole(&c, 8, &turns)
        && of_kind(&c, 2, (s.turns = turns != 0) ? WRITTEN : FULL, &s.stack)
        && numbers(&c, 3, 1, 0, &places, &two) && require(two == 2, "expected two places")
        && whole(&c, 4, &s.first) && of_kind(&c, 7, WRITTEN, &s.right)
        && ((s.lost = PyFloat_AsDouble(PyTuple_GetItem(args, 9))) != -1 || !PyErr_Occurred())
        && ((s.lowered = s.lost >= 0) == 0 ? of_kind(&c, 10, WRITTEN, &s.out)
                                           : columns(&c, 10, 1, KINDS->sizes, WRITTEN, &s.out))
        && positions(&c, 5, s.out.count, &s.fronts) && positions(&c, 6, s.out.count, &s.stops)
        && require(s.right.count == 1, "the right side is one row")
        && require(s.first >= 0 && s.first <= s.rows.count
                   && (s.stops.each || (s.stops.first == s.first + 1
                                        && s.out.count <= s.rows.count - s.first)),
                   "there are fewer rows than results")
        && require(s.stack.count > 0 && (s.stack_at = places[0]) <= (s.middle = places[1])
                   && s.stack_at > -MAX_POSITION && s.middle < MAX_POSITION
                   && s.middle - s.stack_at < s.stack.count, "the stack ends before the middle")
        && require(!s.turns || s.stack.count > s.rows.count, "there is too little room")) {
        WITHOUT_LOCK(c.status = c.kind->sweep(&s));
        places[0] = s.stack_at, places[1] = s.middle;
    }
    return told(&c);
}

static PyObject *py_ranges(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t *at[2], count[2];
    Call c = {.args = args};
    Columns rows, out;
    if (kind_of(&c) && of_kind(&c, 1, ROWS, &rows) && of_kind(&c, 4, WRITTEN, &out)
        && numbers(&c, 2, 2, -1, at, count)
        && require(count[0] == out.count && count[1] == out.count,
                   "expected a start and a length for each range"))
        WITHOUT_LOCK(c.status = c.kind->ranges(&rows, at[0], at[1], &out));
    return told(&c);
}

static PyObject *py_ranks(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t *at[3], n[3], age;
    Call c = {.args = args};
    if (numbers(&c, 0, 3, 2, at, n) && whole(&c, 3, &age)
        && require(n[1] == n[2], "expected a rank for each key"))
        WITHOUT_LOCK(c.status = ranks(at[0], n[0], at[1], n[1], age, at[2]));
    return told(&c);
}

static PyObject *py_first_later(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t *a[5], n[5];
    Call c = {.args = args};
    if (numbers(&c, 0, 5, 4, a, n)
        && require(n[1] > 0 && n[2] == n[3] && n[3] == n[4],
                   "expected bounds, and a segment, a time and a place for each search"))
        WITHOUT_LOCK(c.status = first_later(a[0], n[0], a[1], n[1] - 1, a[2], a[3], n[4], a[4]));
    return told(&c);
}

/* The buffers in the first argument, a list; they are released with the columns. */
static int pages_of(Call *c) {
    PyObject *given = PyTuple_GetItem(c->args, 0);
    if (!given || !require(PyList_Check(given), "expected a list of buffers"))
        return 0;
    Py_ssize_t size = PyList_Size(given);
    c->pages.views = PyMem_Calloc((size_t)size + 1, sizeof *c->pages.views);
    if (!c->pages.views)
        return PyErr_NoMemory() != NULL;
    for (; c->pages.count < size; c->pages.count++) {
        PyObject *page = PyList_GetItem(given, c->pages.count);
        if (!page || PyObject_GetBuffer(page, &c->pages.views[c->pages.count], PyBUF_SIMPLE))
            return 0;
    }
    return 1;
}

/* Columns of pages: starts, numbers of items, bytes per item, bases and units of each page. */
static int shorts(const Pages *pages, const int64_t *rows, int64_t size, int count, Shorts *found) {
    int64_t n = pages->count, holds = size == 5 * n * count;
    for (int each = 0; holds && each < count; each++, found++, rows += 5 * n) {
        *found = (Shorts){rows, rows + n, rows + 2 * n, rows + 3 * n, rows + 4 * n};
        for (int64_t i = 0; holds && i < n; i++) {
            int64_t start = found->starts[i], width = found->widths[i], end = pages->views[i].len;
            holds = start >= 0 && start <= end && found->counts[i] >= 0 && width >= 0
                && (!width || found->counts[i] <= (end - start) / width);
        }
    }
    return require(holds != 0, "a column extends beyond its buffer");
}

/* Ranges of a column: the bytes of its items, or its integers in 8 bytes each. */
static PyObject *py_gathered(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *found = NULL;
    int64_t *at[5], n[5], total, short_ones;
    Call c = {.args = args};
    Ranges r = {.pages = &c.pages};
    if (pages_of(&c) && numbers(&c, 1, 4, -1, at, n) && shorts(&c.pages, at[0], n[0], 1, &r.column)
        && whole(&c, 5, &short_ones)
        && require(n[2] == n[1] && n[3] == n[1], "expected columns of equal length")) {
        r.which = at[1], r.firsts = at[2], r.counts = at[3], r.count = n[1];
        total = total_of(&r, short_ones != 0) * (short_ones ? 8 : 1);
        if (require(total >= 0, "a range extends beyond its column")
            && (found = PyObject_CallFunction(PyTuple_GetItem(args, 6), "L", (long long)total))
            && (at[4] = column(&c, found, 1, 1, &n[4])) && require(n[4] == total, "too little room"))
            WITHOUT_LOCK(gather(&r, short_ones != 0, (unsigned char *)at[4]));
    }
    release(&c);
    if (PyErr_Occurred())
        Py_CLEAR(found);
    return found;
}

static PyObject *py_match(PyObject *Py_UNUSED(self), PyObject *args) {
    int64_t *at[5], n[5];
    Call c = {.args = args};
    Wanted wanted = {.count = 0};
    Shorts of[3];
    if (pages_of(&c) && numbers(&c, 1, 5, 4, at, n) && shorts(&c.pages, at[0], n[0], 3, of)
        && (wanted.bytes = column(&c, PyTuple_GetItem(args, 6), 1, 0, &wanted.size)) != NULL
        && require(n[1] < INT32_MAX && n[2] < INT32_MAX && n[4] == n[1] / 2 * n[2]
                   && (!n[3] || n[3] > n[2]), "expected a place for each key in each run")) {
        wanted.hashes = (const uint64_t *)at[2], wanted.count = n[2];
        wanted.bounds = n[3] ? at[3] : NULL;
        WITHOUT_LOCK(c.status = match(&c.pages, of, at[1], n[1] / 2, &wanted, at[4]));
    }
    return told(&c);
}

#define METHOD(name, wanted) {#name, py_##name, METH_VARARGS, #name "(" wanted ")"}

static PyMethodDef METHODS[] = {
    METHOD(scan, "kind, rows, out, backwards"),
    METHOD(join, "kind, lefts, rights, out"),
    METHOD(sweep, "kind, rows, stack, places, first, fronts, stops, right, turns, lost, out"),
    METHOD(ranges, "kind, rows, starts, lengths, out"),
    METHOD(ranks, "times, keys, out, age"),
    METHOD(first_later, "times, bounds, segments, asked, out"),
    METHOD(gathered, "buffers, column, which, firsts, counts, short, allocate"),
    METHOD(match, "buffers, columns, runs, hashes, bounds, slots, keys"),
    {"events", (PyCFunction)(void (*)(void))add_events, METH_FASTCALL, "events(stacks, row, time, names)"},
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
    stack_type = PyType_FromSpec(&STACK);
    if (!stack_type || PyModule_AddObjectRef(module, "Stack", stack_type) ||
        PyModule_AddObjectRef(module, "KINDS", names) ||
        PyModule_AddIntConstant(module, "REVISION", REVISION))
        return NULL;
    Py_DECREF(names);
    return module;
}
