/* Columns of rows in the kernels: pointers whose lengths module.c has checked.
 *
 * Every function of a kind returns 0 or one of the refusals below. After a refusal, its output is
 * undefined. The functions do not call Python, so they run without its lock.
 */
#ifndef MTA_COLUMNS_H
#define MTA_COLUMNS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define MAX_COLUMNS 3
/* The longest range for ``ranges``, and how many rows it combines in pairs together. */
#define MTA_LONGEST 64
#define MTA_LEVELS 7
#define MTA_PAIRED 512
/* How many results are computed together, so that their inputs stay in the cache. */
#define MTA_SWEPT 128
/* For loops over independent rows: newer processors compute more rows per instruction. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* A column with a step of 0 has a single item, which is the item of every row. */
typedef struct { void *at[MAX_COLUMNS]; int64_t count, step[MAX_COLUMNS]; } Columns;

/* Positions: an array, or consecutive numbers from a first one. */
typedef struct { const int64_t *each; int64_t first; } Positions;

static inline int64_t position(const Positions *p, int64_t i) {
    return p->each ? p->each[i] : p->first + i;
}

/* Sums of two positions must not overflow. */
#define MAX_POSITION (INT64_C(1) << 61)

enum { REFUSED = -1, OVERFLOWN = -2, UNEVEN = -3 };

typedef struct {
    Columns rows;       /* lifted events; row 0 is position 0 */
    Columns stack;      /* suffix folds of the events before the middle, the last one the identity */
    int64_t stack_at;   /* the position of the stack's first entry */
    int64_t middle;     /* where the stack ends and its right side begins */
    int64_t first;      /* the position of the first new event */
    Positions fronts;   /* of each result */
    Positions stops;    /* the position after its newest event */
    Columns right;      /* one row: the aggregate from the middle to the first new event */
    int turns;          /* whether rows become the stack when the front reaches the middle; then the
                           stack has room for all rows and one more */
    int lowered;        /* whether the output has results instead of partials */
    double lost;        /* degrees of freedom that a deviation loses */
    Columns out;        /* a row for each result */
} Sweep;

/* The functions of a kind of monoid: see folds.h. */
typedef struct {
    const char *name;
    int columns;
    int sizes[MAX_COLUMNS];
    int (*scan)(const Columns *rows, int64_t first, int64_t count, const Columns *out, int back);
    int (*join)(const Columns *lefts, const Columns *rights, const Columns *out);
    int (*sweep)(Sweep *);
    int (*ranges)(const Columns *rows, const int64_t *starts, const int64_t *lengths,
                  const Columns *out);
} Kind;

extern const Kind KINDS[];
extern const int KIND_COUNT;

/* times.c */
int ranks(const int64_t *times, int64_t size, const int64_t *keys, int64_t count, int64_t age,
          int64_t *found);
int first_later(const int64_t *times, int64_t size, const int64_t *bounds, int64_t segments,
                const int64_t *which, const int64_t *asked, int64_t count, int64_t *found);

/* Several buffers, such as the pages of runs. */
typedef struct { Py_ssize_t count; Py_buffer *views; } Pages;

/* A column within each buffer, of shortened integers or of other items. */
typedef struct { const int64_t *starts, *counts, *widths, *bases, *units; } Shorts;
/* ranges.c */
typedef struct {
    const Pages *pages;
    Shorts column;
    const int64_t *which, *firsts, *counts; /* the buffer of each range, and its items in it */
    int64_t count;
} Ranges;
int64_t total_of(const Ranges *ranges, int numbers);
void gather(const Ranges *ranges, int numbers, unsigned char *into);

/* keys.c: keys by hash, and the bounds of their bytes; no bounds if the hashes are the keys. */
typedef struct { const uint64_t *hashes; const int64_t *bounds; const char *bytes;
                 int64_t size, count; } Wanted;
int match(const Pages *pages, const Shorts *of, const int64_t *runs, int64_t run_count,
         const Wanted *wanted, int64_t *slots);

/* single.c: the events of a window that its log has not received. */
#define MTA_SINGLE 1024
typedef struct {
    PyObject_HEAD
    long long operation, is_mean, by_count, turns, place;
    long long most, spare, length, newer, rows;
    long long count, waiting, entered, left, turned; /* see the members in single.c */
    long long at, size;                              /* the fold in use, and the number of folds */
    double right, last, bound, age, floor, lateness, delay;
    double *values, *times;   /* of the waiting events, then of the new ones */
    double *stack, *leaving;  /* the folds, and the time of the oldest event of each */
} Stack;
extern PyType_Spec STACK;
extern PyObject *stack_type;
PyObject *add_events(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
