/* Searches in sorted times, of many keys in order: each goes on where the one before it ended. */
#include "columns.h"

/* How many times are counted before steps grow: without a branch, which none could foresee. */
#define NEAR 4
/* So many searches go on side by side, as each must wait for the one before it. */
#define LANES 4

/* The first place from ``at`` on, before ``stop``, whose time is later than ``key``. */
static int64_t far_later(const int64_t *times, int64_t at, int64_t stop, int64_t key) {
    int64_t step = NEAR;
    while (stop - at > step && times[at + step] <= key) {
        at += step + 1;
        step *= 2;
    }
    if (stop - at > step)
        stop = at + step;
    while (at < stop) {
        int64_t half = at + (stop - at) / 2;
        if (times[half] <= key)
            at = half + 1;
        else
            stop = half;
    }
    return at;
}

static inline int64_t later(const int64_t *times, int64_t at, int64_t stop, int64_t key) {
    if (stop - at < NEAR)
        return far_later(times, at, stop, key);
    const int64_t *t = times + at;
    int64_t near = (t[0] <= key) + (t[1] <= key) + (t[2] <= key) + (t[3] <= key);
    return near < NEAR ? at + near : far_later(times, at + NEAR, stop, key);
}

typedef struct {
    int64_t at, last;
} Lane;

static inline int64_t rank(Lane *lane, const int64_t *times, int64_t size, int64_t key) {
    if (key < lane->last)
        lane->at = 0;
    lane->last = key;
    return lane->at = later(times, lane->at, size, key);
}

/* How many times are not later than each key less the age. Returns 1 if they grow by one a key. */
int ranks(const int64_t *times, int64_t size, const int64_t *keys, int64_t count, int64_t age,
          int64_t *found) {
    int64_t part = count / LANES, steady = 1;
    Lane lanes[LANES] = {{0, INT64_MIN}, {0, INT64_MIN}, {0, INT64_MIN}, {0, INT64_MIN}};
    for (int64_t i = 0; i < part; i++)
        for (int l = 0; l < LANES; l++) {
            int64_t at = l * part + i, key = (int64_t)((uint64_t)keys[at] - (uint64_t)age);
            found[at] = rank(&lanes[l], times, size, key);
        }
    for (int64_t at = LANES * part; at < count; at++) {
        int64_t key = (int64_t)((uint64_t)keys[at] - (uint64_t)age);
        found[at] = rank(&lanes[LANES - 1], times, size, key);
    }
    for (int64_t i = 0; i < count; i++)
        steady &= found[i] == found[0] + i;
    return (int)steady;
}

/* The first row of a segment whose time is later than is asked; its end where none is. */
int first_later(const int64_t *times, int64_t size, const int64_t *bounds, int64_t segments,
                const int64_t *which, const int64_t *asked, int64_t count, int64_t *found) {
    int64_t at = 0, segment = -1, last = 0, stop = 0;
    for (int64_t i = 0; i < count; i++) {
        if (which[i] != segment || asked[i] < last) {
            segment = which[i];
            if (segment < 0 || segment >= segments)
                return REFUSED;
            at = bounds[segment];
            stop = bounds[segment + 1];
            if (at < 0 || stop > size || at > stop)
                return REFUSED;
        }
        last = asked[i];
        found[i] = at = later(times, at, stop, last);
    }
    return 0;
}

/* The largest value of each segment up to each row. */
int running_max(const int64_t *values, int64_t size, const int64_t *bounds, int64_t segments,
                int64_t *found) {
    if (bounds[0] != 0 || bounds[segments] != size)
        return REFUSED;
    for (int64_t s = 0; s < segments; s++) {
        int64_t most = INT64_MIN;
        if (bounds[s + 1] < bounds[s] || bounds[s + 1] > size)
            return REFUSED;
        for (int64_t i = bounds[s]; i < bounds[s + 1]; i++)
            found[i] = most = values[i] > most ? values[i] : most;
    }
    return 0;
}
