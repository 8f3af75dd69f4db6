/* Searches for many sorted keys in sorted times; each continues where the previous one ended. */
#include "columns.h"

/* How many times are compared without a branch, which would be unpredictable, before steps grow. */
#define NEAR 4
/* How many searches run in parallel, and the most times per key for which all are compared. */
#define LANES 4
#define MANY 8
#define LESS(key, age) ((int64_t)((uint64_t)(key) - (uint64_t)(age)))

/* The first place from ``at`` to ``stop`` whose time is later than ``key``. */
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

/* Counts the times not later than each key minus the age; UNEVEN unless counts grow by 1 per key.
 *
 * Keys and times are merged: each step passes a time or places a key, without a branch. If there
 * are many times per key, or one side has reached its end, each key is searched in long steps. */
int ranks(const int64_t *times, int64_t size, const int64_t *keys, int64_t count, int64_t age,
          int64_t *found) {
    int64_t at[LANES], key[LANES], stop[LANES], steps = NEAR, steady = 0;
    for (int l = 0; l < LANES; l++) {
        key[l] = count / LANES * l;
        stop[l] = l + 1 < LANES ? count / LANES * (l + 1) : count;
        at[l] = key[l] < stop[l] ? later(times, 0, size, LESS(keys[key[l]], age)) : size;
    }
    while (steps >= NEAR && size / MANY <= count) {
        steps = size;
        for (int l = 0; l < LANES; l++) {
            int64_t left = stop[l] - key[l], more = size - at[l];
            left = left < more ? left : more;
            steps = left < steps ? left : steps;
        }
        for (int64_t i = 0; i < steps; i++)
            for (int l = 0; l < LANES; l++) {
                int64_t passed = times[at[l]] <= LESS(keys[key[l]], age);
                found[key[l]] = at[l];
                at[l] += passed;
                key[l] += 1 - passed;
            }
    }
    for (int l = 0; l < LANES; l++)
        for (; key[l] < stop[l]; key[l]++)
            found[key[l]] = at[l] = later(times, at[l], size, LESS(keys[key[l]], age));
    while (steady < count && found[steady] == found[0] + steady)
        steady++;
    return steady == count ? 0 : UNEVEN;
}

/* The first row of a segment with a time later than ``asked``, or the end of the segment. */
int first_later(const int64_t *times, int64_t size, const int64_t *bounds, int64_t segments,
                const int64_t *which, const int64_t *asked, int64_t count, int64_t *found) {
    int64_t at = 0, segment = -1, last = 0, stop = 0;
    for (int64_t i = 0; i < count; i++) {
        if (which[i] != segment || asked[i] < last) {
            segment = which[i];
            if (segment < 0 || segment >= segments)
                return REFUSED;
            at = bounds[segment], stop = bounds[segment + 1];
            if (at < 0 || stop > size || at > stop)
                return REFUSED;
        }
        found[i] = at = later(times, at, stop, last = asked[i]);
    }
    return 0;
}
