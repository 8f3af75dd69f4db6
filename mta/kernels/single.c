/* Suffix folds with a running prefix, for single events of a window: see mta/windows/compiled.py.
 *
 *     [ s0 s1 s2 ... | v v v n ]     s: the folds of the older events from each on; v: newer values
 *          at          right          result = combine(s[at], right)
 *
 * When all events of the folds have left, the newer values but the newest become the folds. */
#include "monoids.h"
#include <string.h>
#include <structmember.h>

static F8 joined(const Stack *s, F8 a, F8 b) {
    return s->operation == 0 ? sum_f8_combine(a, b)
         : s->operation > 0 ? max_f8_combine(a, b) : min_f8_combine(a, b);
}

/* The time of the event that leaves next. */
static F8 leaving(const Stack *s) {
    const int64_t next = s->turned + s->at - s->size;
    return s->at < s->size ? s->leaving[s->at] : s->turns && next < s->count ? s->times[next] : INFINITY;
}

/* Makes folds of the remaining values except the newest, which becomes the right side. */
static void turn(Stack *s) {
    const int64_t newest = s->count - 1, next = s->turned + s->at - s->size;
    const int64_t first = next < newest ? next : newest, size = newest - first;
    for (int64_t i = size - 1; i >= 0; i--) {
        const F8 value = s->values[first + i];
        s->stack[i] = i < size - 1 ? joined(s, value, s->stack[i + 1]) : value;
    }
    memcpy(s->leaving, s->times + first, (size_t)size * sizeof(F8));
    s->right = s->values[newest];
    s->at = 0, s->size = size, s->turned = newest, s->newer = 1;
}

/* Whether an event can be added. */
static int accepts(const Stack *s, F8 value, F8 time) {
    return value == value && time < s->bound && s->values
        && (s->last <= time || (s->floor <= time && s->last - s->lateness <= time))
        && s->count < s->most && s->most <= MTA_SINGLE && s->rows >= 0;
}

/* Adds an event, and returns the result after it. */
static F8 take_event(Stack *s, F8 value, F8 time) {
    s->values[s->count] = value;
    s->times[s->count++] = time;
    s->last = time > s->last ? time : s->last;
    /* Events that are old enough enter the frame; the new event too unless the frame ends early. */
    for (; s->entered < s->count - s->rows; s->entered++, s->newer++, s->length++) {
        if (!(s->times[s->entered] <= s->last - s->delay))
            break;
        s->right = joined(s, s->right, s->values[s->entered]);
    }
    const int64_t before = s->at;
    if (!s->by_count)
        while (leaving(s) <= s->last - s->age)
            s->at++;
    else if (s->spare > 0)
        s->spare--;
    else
        s->at++;
    s->left += s->at - before, s->length -= s->at - before;
    if (s->at > s->size && s->turns)
        turn(s);
    const F8 fold = s->at < s->size ? joined(s, s->stack[s->at], s->right) : s->right;
    return (s->is_mean ? fold / (F8)s->length : fold) + 0.0;
}

/* --- the Python type --- */

PyObject *stack_type;

static PyObject *stack_event(Stack *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyFloat_Check(args[0]) || !PyFloat_Check(args[1]))
        return Py_NewRef(Py_None);
    const F8 value = PyFloat_AsDouble(args[0]), time = PyFloat_AsDouble(args[1]);
    return accepts(self, value, time) ? PyFloat_FromDouble(take_event(self, value, time))
                                      : Py_NewRef(Py_None);
}

/* A stack of a tuple, and its value of a row: a double, or a tuple with the stack's column. */
static Stack *of_row(PyObject *stacks, Py_ssize_t at, PyObject *row, F8 *value) {
    Stack *found = (Stack *)PyTuple_GetItem(stacks, at);
    if (!PyObject_TypeCheck((PyObject *)found, (PyTypeObject *)stack_type))
        return NULL;
    if (PyTuple_Check(row))
        row = found->place >= 0 && found->place < PyTuple_Size(row)
            ? PyTuple_GetItem(row, (Py_ssize_t)found->place) : Py_None;
    *value = PyFloat_Check(row) ? PyFloat_AsDouble(row) : NAN;
    return found;
}

/* events(stacks, row, time, names): the results of all stacks by their names; None, with nothing
 * changed, if any stack refuses. */
PyObject *add_events(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    F8 value = 0;
    const int fit = count == 4 && PyTuple_Check(args[0]) && PyFloat_Check(args[2])
        && PyTuple_Check(args[3]) && PyTuple_Size(args[3]) == PyTuple_Size(args[0]);
    const Py_ssize_t size = fit ? PyTuple_Size(args[0]) : 0;
    const F8 time = fit ? PyFloat_AsDouble(args[2]) : 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        const Stack *stack = of_row(args[0], i, args[1], &value);
        if (!stack || !accepts(stack, value, time))
            return Py_NewRef(Py_None);
    }
    PyObject *found = size ? PyDict_New() : Py_NewRef(Py_None);
    for (Py_ssize_t i = 0; found && i < size; i++) {
        Stack *stack = of_row(args[0], i, args[1], &value);
        PyObject *result = PyFloat_FromDouble(take_event(stack, value, time));
        if (!result || PyDict_SetItem(found, PyTuple_GetItem(args[3], i), result))
            Py_CLEAR(found);
        Py_XDECREF(result);
    }
    return found;
}

/* Evicts the oldest event; only if another fold follows its own. */
static PyObject *stack_evict(Stack *self, PyObject *Py_UNUSED(none)) {
    if (self->at + 1 >= self->size)
        return Py_NewRef(Py_False);
    self->at++, self->left++, self->length--;
    self->spare += self->by_count != 0;
    return Py_NewRef(Py_True);
}

/* Copies a column of doubles into memory of this object, which has room for one more than MOST. */
static int64_t copied(PyObject *given, F8 *into) {
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_CONTIG_RO))
        return -1;
    int64_t count = view.len / (Py_ssize_t)sizeof(F8);
    if (view.itemsize != sizeof(F8) || count > MTA_SINGLE + 1) {
        PyErr_SetString(PyExc_ValueError, "expected a column of doubles of the right length");
        count = -1;
    } else if (count)
        memcpy(into, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return count;
}

static int fits(int64_t number) { return number >= 0 && number < MAX_POSITION; }

/* load(folds, leaving, values, times): sets the columns, of which the last two are waiting events.
 * The caller sets the members before; an invalid stack takes no event. */
static PyObject *stack_load(Stack *self, PyObject *args) {
    if (!self->values) { /* on first use, because few of many windows have single events */
        F8 *memory = PyMem_Calloc(2 * MTA_SINGLE + 2 * (MTA_SINGLE + 1) + 2, sizeof(F8));
        if (!memory)
            return PyErr_NoMemory();
        self->values = memory, self->times = memory + MTA_SINGLE + 1;
        self->stack = self->times + MTA_SINGLE + 1, self->leaving = self->stack + MTA_SINGLE + 1;
    }
    int64_t room = self->most, found[4];
    F8 *into[] = {self->stack, self->leaving, self->values, self->times};
    self->most = 0;
    for (int i = 0; i < 4; i++)
        if ((found[i] = copied(PyTuple_GetItem(args, i), into[i])) < 0)
            return NULL;
    if (found[0] < 1 || found[2] != found[3] || (!self->by_count && found[1] != found[0])
        || !fits(self->rows) || !fits(self->spare) || !fits(self->length) || !fits(self->newer)
        || room > MTA_SINGLE - found[2]
        || (self->turns && (found[2] || self->rows || self->delay != 0 || self->lateness != 0))) {
        PyErr_SetString(PyExc_ValueError, "the columns of a stack do not fit together");
        return NULL;
    }
    self->size = found[0], self->count = self->waiting = found[2], self->most = room + found[2];
    self->at = self->left = self->entered = self->turned = 0;
    return Py_NewRef(Py_None);
}

/* The values, or the times, of the events that came, as bytes of doubles. */
static PyObject *stack_column(Stack *self, PyObject *which) {
    const F8 *column = PyObject_IsTrue(which) ? self->times : self->values;
    const int64_t count = self->count - self->waiting;
    return PyBytes_FromStringAndSize(column ? (const char *)(column + self->waiting) : NULL,
                                     count * (Py_ssize_t)sizeof(F8));
}

static PyObject *stack_fold(Stack *self, PyObject *Py_UNUSED(none)) {
    if (!self->values || self->at >= self->size)
        return Py_NewRef(Py_None);
    return PyFloat_FromDouble(self->stack[self->at]);
}

static void stack_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(((Stack *)self)->values);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define MEMBER(name, type, flags, doc) {#name, type, offsetof(Stack, name), flags, doc}
static PyMemberDef MEMBERS[] = {
    MEMBER(operation, T_LONGLONG, 0, "0 for a sum or a mean, above for a maximum, below for a minimum"),
    MEMBER(is_mean, T_LONGLONG, 0, "whether a result is divided by the number of events"),
    MEMBER(by_count, T_LONGLONG, 0, "whether events leave by count, not by time"),
    MEMBER(turns, T_LONGLONG, 0, "whether new events may become the folds"),
    MEMBER(place, T_LONGLONG, 0, "the column of a row"),
    MEMBER(most, T_LONGLONG, 0, "how many events can come"),
    MEMBER(spare, T_LONGLONG, 0, "how many events can come before each evicts one"),
    MEMBER(length, T_LONGLONG, 0, "the number of events in the window"),
    MEMBER(newer, T_LONGLONG, 0, "the number of events in the right side"),
    MEMBER(rows, T_LONGLONG, 0, "how many later events must have come when one enters"),
    MEMBER(right, T_DOUBLE, 0, "the aggregate of the newer events"),
    MEMBER(last, T_DOUBLE, 0, "the newest time"),
    MEMBER(bound, T_DOUBLE, 0, "events must be before this time"),
    MEMBER(age, T_DOUBLE, 0, "how much older than the newest event an event is when it leaves"),
    MEMBER(floor, T_DOUBLE, 0, "from this time on, events can be older than the newest event"),
    MEMBER(lateness, T_DOUBLE, 0, "the largest difference by which they can be older"),
    MEMBER(delay, T_DOUBLE, 0, "how much older than the newest event an event is when it enters"),
    MEMBER(count, T_LONGLONG, READONLY, "the values that came, after those that were waiting"),
    MEMBER(waiting, T_LONGLONG, READONLY, "the stored events that enter first"),
    MEMBER(entered, T_LONGLONG, READONLY, "how many events have entered the window"),
    MEMBER(left, T_LONGLONG, READONLY, "how many events have left the window"),
    MEMBER(turned, T_LONGLONG, READONLY, "how many of the values are in the folds, or have left"),
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef METHODS[] = {
    {"event", (PyCFunction)(void (*)(void))stack_event, METH_FASTCALL,
     "Add a value at a time; return the result, or None, with nothing changed."},
    {"evict", (PyCFunction)stack_evict, METH_NOARGS, "Evict the oldest event if another fold follows."},
    {"load", (PyCFunction)stack_load, METH_VARARGS, "load(folds, leaving, values, times)"},
    {"column", (PyCFunction)stack_column, METH_O, "The values or the times that came, as bytes."},
    {"fold", (PyCFunction)stack_fold, METH_NOARGS, "The aggregate of the older events, or None."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_dealloc, stack_dealloc}, {Py_tp_members, MEMBERS}, {Py_tp_methods, METHODS},
    {Py_tp_doc, "The folds of a window's older events, and the aggregate of its newer ones."},
    {0, NULL},
};

PyType_Spec STACK = {"mta.kernels.compiled.Stack", sizeof(Stack), 0, Py_TPFLAGS_DEFAULT, SLOTS};
