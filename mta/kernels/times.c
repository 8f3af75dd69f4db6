/* Searches in sorted times, of many keys in order: each goes on where the one before it ended. */
#include "columns.h"

/* How many times are looked at one by one before steps grow. */
#define NEAR 8

/* The first place from ``at`` on, before ``stop``, whose time is later than ``key``. */
static int64_t later(const int64_t *times, int64_t at, int64_t stop, int64_t key) {
    int64_t near = stop - at > NEAR ? at + NEAR : stop, step = NEAR;
    while (at < near && times[at] <= key)
        at++;
    if (at < near || at == stop)
        return at;
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

/* How many times are not later than each key less the age. Returns 1 if they grow by one a key. */
int ranks(const int64_t *times, int64_t size, const int64_t *keys, int64_t count, int64_t age,
          int64_t *found) {
    int64_t at = 0, last = 0, steady = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t key = (int64_t)((uint64_t)keys[i] - (uint64_t)age);
        if (i && key < last)
            at = 0;
        at = later(times, at, size, key);
        found[i] = at;
        steady &= at == found[0] + i;
        last = key;
    }
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
