/* Columns of rows as the kernels see them: bare pointers whose lengths module.c has checked.
 *
 * Every function of a kind returns 0, or one of the refusals below; then nothing it has written is
 * to be looked at. None of them calls Python, so they run without its lock.
 */
#ifndef MTA_COLUMNS_H
#define MTA_COLUMNS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define MAX_COLUMNS 3
/* The longest range that is put together from pairs, and how many rows are paired at once. */
#define MTA_LONGEST 64
#define MTA_LEVELS 7
#define MTA_PAIRED 512
/* So many results at once that what they are made of stays near the processor. */
#define MTA_SWEPT 128
/* A loop over rows that do not depend on each other, of which newer processors take more at once. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* A step of 0 is that of a column whose only item is that of every row. */
typedef struct { void *at[MAX_COLUMNS]; int64_t count, step[MAX_COLUMNS]; } Columns;

/* Positions: an array, or from a first one on by one. */
typedef struct { const int64_t *each; int64_t first; } Positions;

static inline int64_t position(const Positions *p, int64_t i) {
    return p->each ? p->each[i] : p->first + i;
}

/* So that sums of two do not wrap. */
#define MAX_POSITION (INT64_C(1) << 61)

enum { REFUSED = -1, OVERFLOWN = -2, UNEVEN = -3 };

typedef struct {
    Columns rows;       /* lifted events; row 0 is position 0 */
    Columns stack;      /* suffix folds of the events before the middle, the last one the identity */
    int64_t stack_at;   /* the position of the stack's first entry */
    int64_t middle;     /* where the stack ends and the aggregate on its right begins */
    int64_t first;      /* the position of the first new event */
    Positions fronts;   /* of each result */
    Positions stops;    /* the position after its newest event */
    Columns right;      /* one row: the aggregate from the middle to the first new event */
    int turns;          /* whether rows become the stack where the front reaches the middle: then it
                           has room for all of them, and one more */
    int lowered;        /* whether results are wanted in place of partials */
    double lost;        /* degrees of freedom that a deviation loses */
    Columns out;        /* a row for each result */
} Sweep;

/* What each kind of monoid has: see folds.h. */
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

/* Buffers side by side, such as the pages of runs. */
typedef struct { Py_ssize_t count; Py_buffer *views; } Pages;

/* A column of each, that lies in it in full: whole numbers that are kept short, or other items. */
typedef struct { const int64_t *starts, *counts, *widths, *bases, *units; } Shorts;
/* ranges.c */
typedef struct {
    const Pages *pages;
    Shorts column;
    const int64_t *which, *firsts, *counts; /* of each range its buffer, and its items there */
    int64_t count;
} Ranges;
int64_t total_of(const Ranges *ranges, int numbers);
void gather(const Ranges *ranges, int numbers, unsigned char *into);

/* keys.c: keys by their hashes, and where each one's bytes begin; no bounds where these are all. */
typedef struct { const uint64_t *hashes; const int64_t *bounds; const char *bytes;
                 int64_t size, count; } Wanted;
int match(const Pages *pages, const Shorts *of, const int64_t *runs, int64_t run_count,
         const Wanted *wanted, int64_t *slots);

/* single.c: numbers that mta/windows/native.py loads into one block; all of them are doubles. */
#define MTA_LENT 1024
typedef struct {
    double count, most, at, spare, right, base, last, bound, age, operation, floor, lateness;
    double entered, delay, rows, waiting;
    double values[MTA_LENT], times[MTA_LENT]; /* of events that waited, and of those that came */
    double stack[MTA_LENT + 1], counts[MTA_LENT + 1], leaving[MTA_LENT + 1];
} Lent;
int take_event(Lent *lent, double value, double time, double *result);

#endif
