/* The folds of all kinds of monoids: folds.h is included once per kind. */
#include "monoids.h"

#define K sum_f8
#include "folds.h"
#define K max_f8
#include "folds.h"
#define K min_f8
#include "folds.h"
#define K sum_i8
#include "folds.h"
#define K max_i8
#include "folds.h"
#define K min_i8
#include "folds.h"
#define K mean
#include "folds.h"
#define K moments
#include "folds.h"
#define K arg_max
#include "folds.h"
#define K arg_min
#include "folds.h"
#define K first
#include "folds.h"
#define K last
#include "folds.h"

#define KIND(K, count, ...)                                                                      \
    { #K, count, {__VA_ARGS__}, K##_scan, K##_join, K##_sweep, K##_ranges }

const Kind KINDS[] = {
    KIND(sum_f8, 1, 8), KIND(max_f8, 1, 8), KIND(min_f8, 1, 8),
    KIND(sum_i8, 1, 8), KIND(max_i8, 1, 8), KIND(min_i8, 1, 8),
    KIND(mean, 2, 8, 8), KIND(moments, 3, 8, 8, 8),
    KIND(arg_max, 3, 8, 8, 1), KIND(arg_min, 3, 8, 8, 1),
    KIND(first, 2, 8, 1), KIND(last, 2, 8, 1),
};
const int KIND_COUNT = sizeof KINDS / sizeof KINDS[0];
