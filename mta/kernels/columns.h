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

#define MAX_COLUMNS 3
/* The longest range that is put together from pairs, and how many rows are paired at once. */
#define MTA_LONGEST 64
#define MTA_LEVELS 7
#define MTA_PAIRED 512
/* So many results of steady fronts at once, that what they are made of stays near the processor. */
#define MTA_STEADY 128

typedef struct {
    void *at[MAX_COLUMNS];
    int64_t count;
} Columns;

/* Positions: an array, or from a first one on by one. */
typedef struct {
    const int64_t *each;
    int64_t first;
} Positions;

static inline int64_t position(const Positions *p, int64_t i) {
    return p->each ? p->each[i] : p->first + i;
}

enum { REFUSED = -1, OVERFLOWN = -2 };

typedef struct {
    Columns rows;       /* lifted events; row 0 is position 0 */
    Columns stack;      /* suffix folds of the events before the middle, the last one the identity */
    long long stack_at; /* the position of the stack's first entry */
    long long middle;   /* where the stack ends and the aggregate on its right begins */
    long long first;    /* the position of the first new event */
    int64_t count;      /* how many new events there are */
    Positions fronts;   /* after each of them */
    Columns right;      /* one row: the aggregate from the middle to the first new event */
    Columns room;       /* for the stacks to come: an entry a position, and one more */
    int turns;          /* whether rows become the stack where the front reaches the middle */
    int lowered;        /* whether results are wanted in place of partials */
    double lost;        /* degrees of freedom that a deviation loses */
    Columns out;
} Sweep;

typedef struct {
    Columns suffixes, prefixes, between, out;
    Positions starts;
    const int64_t *counts;
    int64_t pairs, first;
} Across;

/* What each kind of monoid has: see folds.h. */
typedef struct {
    const char *name;
    int columns;
    int sizes[MAX_COLUMNS];
    int (*scan)(const Columns *rows, const Columns *out, int backwards);
    int (*blocks)(const Columns *rows, const Columns *out, int64_t size, int backwards);
    int (*sweep)(Sweep *);
    int (*ranges)(const Columns *rows, const int64_t *starts, const int64_t *lengths,
                  const Columns *out);
    int (*across)(const Across *);
} Kind;

extern const Kind KINDS[];
extern const int KIND_COUNT;

/* times.c */
int ranks(const int64_t *times, int64_t size, const int64_t *keys, int64_t count, int64_t age,
          int64_t *found);
int first_later(const int64_t *times, int64_t size, const int64_t *bounds, int64_t segments,
                const int64_t *which, const int64_t *asked, int64_t count, int64_t *found);
int running_max(const int64_t *values, int64_t size, const int64_t *bounds, int64_t segments,
                int64_t *found);

/* ranges.c: where[i] is the first byte of range i, which its buffer holds in full. */
void bytes_of(const unsigned char *const *where, const int64_t *lengths, int64_t count,
              unsigned char *found);
void numbers_of(const unsigned char *const *where, const int64_t *counts, const int64_t *widths,
                const int64_t *bases, const int64_t *units, int64_t count, int64_t *found);

#endif
