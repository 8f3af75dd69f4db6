/* The monoids of mta/monoids/basic.py whose partials are one or a few numbers.
 *
 * A kind K defines its partial (K_P), load and store for row i of its columns (which are ``full``,
 * or have steps), identity, combine and lower. It also defines a *run*: the state of a fold that
 * takes in events one by one, from the left or, backwards, from the right. For most kinds this is a
 * partial. All operations have the same order as in numpy, and none are fused, so results are
 * bit-identical.
 */
#ifndef MTA_MONOIDS_H
#define MTA_MONOIDS_H

#include "columns.h"

typedef double F8;
typedef int64_t I8;
#define AT(type, column) (((type *)c->at[column])[i])
#define OF_ROW(type, column) (((const type *)c->at[column])[full ? i : i * c->step[column]])

/* --- a single column --- */
#define ONE_COLUMN(K, T, IDENTITY, COMBINE, LOWER)                                               \
    typedef T K##_P;                                                                             \
    typedef T K##_result;                                                                        \
    static inline T K##_load(const Columns *c, int64_t i, int full) { return OF_ROW(T, 0); }    \
    static inline void K##_store(const Columns *c, int64_t i, T p) { AT(T, 0) = p; }            \
    static inline T K##_identity(void) { return IDENTITY; }                                      \
    static inline T K##_combine(T a, T b) { return COMBINE; }                                    \
    static inline T K##_lower(T p, double lost) { (void)lost; return LOWER; }                    \
    PLAIN_RUN(K)

#define PLAIN_RUN(K)                                                                             \
    typedef K##_P K##_run;                                                                       \
    static inline void K##_begin(K##_run *run, K##_P first, K##_P next) {                        \
        (void)next;                                                                              \
        *run = first;                                                                            \
    }                                                                                            \
    static inline void K##_step(K##_run *run, K##_P row, int backwards) {                        \
        *run = backwards ? K##_combine(row, *run) : K##_combine(*run, row);                      \
    }                                                                                            \
    static inline K##_P K##_value(const K##_run *run) { return *run; }                           \
    static inline int K##_overflown(const K##_run *run) { (void)run; return 0; }

/* p + 0.0 turns -0.0 into 0.0; NaN is both the maximum and the minimum; integers overflow. */
ONE_COLUMN(sum_f8, F8, 0.0, a + b, p + 0.0)
ONE_COLUMN(max_f8, F8, -INFINITY, (a >= b) | (a != a) ? a : b, p + 0.0)
ONE_COLUMN(min_f8, F8, INFINITY, (a <= b) | (a != a) ? a : b, p + 0.0)
ONE_COLUMN(sum_i8, I8, 0, (I8)((uint64_t)a + (uint64_t)b), p)
ONE_COLUMN(max_i8, I8, INT64_MIN, a >= b ? a : b, p)
ONE_COLUMN(min_i8, I8, INT64_MAX, a <= b ? a : b, p)

/* --- the mean: (sum, count) --- */
typedef struct { F8 sum, count; } mean_P;
typedef F8 mean_result;
static inline mean_P mean_load(const Columns *c, int64_t i, int full) {
    return (mean_P){OF_ROW(F8, 0), OF_ROW(F8, 1)};
}
static inline void mean_store(const Columns *c, int64_t i, mean_P p) {
    AT(F8, 0) = p.sum, AT(F8, 1) = p.count;
}
static inline mean_P mean_identity(void) { return (mean_P){0.0, 0.0}; }
static inline mean_P mean_combine(mean_P a, mean_P b) {
    return (mean_P){a.sum + b.sum, a.count + b.count};
}
static inline F8 mean_lower(mean_P p, double lost) { (void)lost; return p.sum / p.count + 0.0; }
PLAIN_RUN(mean)

/* --- deviations: (n, mean, M2) --- */
typedef struct { F8 n, mean, m2; } moments_P;
typedef F8 moments_result;
static inline moments_P moments_load(const Columns *c, int64_t i, int full) {
    return (moments_P){OF_ROW(F8, 0), OF_ROW(F8, 1), OF_ROW(F8, 2)};
}
static inline void moments_store(const Columns *c, int64_t i, moments_P p) {
    AT(F8, 0) = p.n, AT(F8, 1) = p.mean, AT(F8, 2) = p.m2;
}
static inline moments_P moments_identity(void) { return (moments_P){0.0, 0.0, 0.0}; }

/* numpy's maximum with a number: NaN stays NaN. */
static inline F8 at_least(F8 value, F8 least) { return value <= least ? least : value; }

/* Chan's merge; a weight of exactly 0 or 1 does not change the other side. */
static inline moments_P moments_combine(moments_P a, moments_P b) {
    F8 n = a.n + b.n, weight = b.n / at_least(n, 1.0), delta = b.mean - a.mean;
    F8 between = delta * (a.n * weight) * delta;
    between = between >= 0.0 ? between : 0.0; /* NaN if an event is infinite: then M2 is known */
    return (moments_P){n, a.mean + delta * weight, a.m2 + b.m2 + between};
}
static inline F8 moments_lower(moments_P p, double lost) {
    return sqrt(at_least(p.m2, 0.0) / (p.n - lost));
}

/* Welford's update as three running sums, with means as distances from the first mean. If M2 is
 * not finite at the end, numpy computes the result again. */
typedef struct { F8 n, origin, distances, after, shown, m2; } moments_run;
static inline void moments_begin(moments_run *run, moments_P first, moments_P next) {
    F8 origin = first.n == 0.0 ? next.mean : first.mean, distances = (origin - origin) * first.n;
    *run = (moments_run){first.n, origin, distances, distances / at_least(first.n, 1.0) + origin,
                         first.mean, first.m2};
}
static inline void moments_step(moments_run *run, moments_P row, int backwards) {
    (void)backwards;
    F8 before = run->after;
    run->n = run->n + row.n;
    run->distances = run->distances + (row.mean - run->origin) * row.n;
    run->after = run->shown = run->distances / at_least(run->n, 1.0) + run->origin;
    run->m2 = run->m2 + (row.m2 + (row.mean - before) * row.n * (row.mean - run->after));
}
static inline moments_P moments_value(const moments_run *run) {
    return (moments_P){run->n, run->shown, run->m2};
}
static inline int moments_overflown(const moments_run *run) { return !isfinite(run->m2); }
/* --- monoids that choose an event: (its key, its value, whether there is any event) --- */
typedef struct { F8 key; uint64_t chosen; uint8_t any; } arg_P;
#define ARG_EXTREME(K, WORST, BETTER)                                                            \
    typedef arg_P K##_P;                                                                         \
    typedef uint64_t K##_result;                                                                 \
    static inline arg_P K##_load(const Columns *c, int64_t i, int full) {                        \
        return (arg_P){OF_ROW(F8, 0), OF_ROW(uint64_t, 1), OF_ROW(uint8_t, 2)};                  \
    }                                                                                            \
    static inline void K##_store(const Columns *c, int64_t i, arg_P p) {                         \
        AT(F8, 0) = p.key, AT(uint64_t, 1) = p.chosen, AT(uint8_t, 2) = p.any;                   \
    }                                                                                            \
    static inline arg_P K##_identity(void) { return (arg_P){WORST, 0, 0}; }                      \
    static inline arg_P K##_combine(arg_P a, arg_P b) {                                          \
        int wins = b.any & ((b.key BETTER a.key) | ((b.key != b.key) & (a.key == a.key)) | !a.any); \
        arg_P p = wins ? b : a;                                                                  \
        p.any = a.any | b.any;                                                                   \
        return p;                                                                                \
    }                                                                                            \
    static inline uint64_t K##_lower(arg_P p, double lost) { (void)lost; return p.chosen; }      \
    PLAIN_RUN(K)

ARG_EXTREME(arg_max, -INFINITY, >)
ARG_EXTREME(arg_min, INFINITY, <)

typedef struct { uint64_t chosen; uint8_t any; } end_P;
#define END(K, FIRST, SECOND)                                                                    \
    typedef end_P K##_P;                                                                         \
    typedef uint64_t K##_result;                                                                 \
    static inline end_P K##_load(const Columns *c, int64_t i, int full) {                        \
        return (end_P){OF_ROW(uint64_t, 0), OF_ROW(uint8_t, 1)};                                 \
    }                                                                                            \
    static inline void K##_store(const Columns *c, int64_t i, end_P p) {                         \
        AT(uint64_t, 0) = p.chosen, AT(uint8_t, 1) = p.any;                                      \
    }                                                                                            \
    static inline end_P K##_identity(void) { return (end_P){0, 0}; }                             \
    static inline end_P K##_combine(end_P a, end_P b) {                                          \
        return (end_P){FIRST.any ? FIRST.chosen : SECOND.chosen, a.any | b.any};                 \
    }                                                                                            \
    static inline uint64_t K##_lower(end_P p, double lost) { (void)lost; return p.chosen; }      \
    PLAIN_RUN(K)

END(first, a, b)
END(last, b, a)

#endif
