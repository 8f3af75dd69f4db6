/* Searches in sorted times, of many keys in order: each goes on where the one before it ended. */
#include "columns.h"

/* How many times are counted before steps grow: without a branch, which none could foresee. */
#define NEAR 4
/* So many searches go on side by side; so many times a key are too many to look at each. */
#define LANES 4
#define MANY 8
#define LESS(key, age) ((int64_t)((uint64_t)(key) - (uint64_t)(age)))

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

/* How many times are not later than each key less the age. UNEVEN unless they grow by one a key.
 *
 * Keys and times are merged: a step passes a time or places a key, and which of both it is takes no
 * branch. Where times are many, or one side has come to its end, each key goes on in long steps. */
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

/* The first row of a segment whose time is later than is asked; its end where none is. */
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
