/* The folds of one kind of monoid, K: this file is included once for each (folds.c).
 *
 * scan      the rows folded up to each, from a first partial on, from either side
 * blocks    the same within blocks of rows, each from its own first row on
 * sweep     Two-Stacks: the fold of a sliding window after each of many events
 * ranges    the folds of short ranges, out of blocks of 1, 2, 4, ... rows
 * across    ranges that end in a later block than they begin in
 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(name) JOIN(K, name)
#define P OF(P)

static int OF(scan)(const Columns *rows, const Columns *out, int backwards) {
    int64_t count = rows->count, step = backwards ? -1 : 1, to = backwards ? count : 0;
    if (!count)
        return 0;
    int64_t from = backwards ? count - 1 : 0;
    OF(run) run;
    OF(begin)(&run, OF(load)(out, to), OF(load)(rows, from));
    for (int64_t i = 0; i < count; i++, from += step) {
        OF(step)(&run, OF(load)(rows, from), backwards);
        OF(store)(out, to += step, OF(value)(&run));
    }
    return OF(overflown)(&run) ? OVERFLOWN : 0;
}

static int OF(blocks)(const Columns *rows, const Columns *out, int64_t size, int backwards) {
    for (int64_t start = 0; start < rows->count; start += size) {
        int64_t left = rows->count - start > size ? size : rows->count - start;
        int64_t at = backwards ? start + left - 1 : start, step = backwards ? -1 : 1;
        P fold = OF(load)(rows, at);
        OF(store)(out, at, fold);
        while (--left) {
            P row = OF(load)(rows, at += step);
            fold = backwards ? OF(combine)(row, fold) : OF(combine)(fold, row);
            OF(store)(out, at, fold);
        }
    }
    return 0;
}

/* The events from ``start`` to ``stop`` become the stack: position i has the fold of [i, stop). */
static int OF(turn)(Sweep *s, int64_t start, int64_t stop) {
    OF(run) run;
    OF(store)(&s->room, stop, OF(identity)());
    OF(begin)(&run, OF(identity)(), OF(load)(&s->rows, stop - 1));
    for (int64_t i = stop - 1; i >= start; i--) {
        OF(step)(&run, OF(load)(&s->rows, i), 1);
        OF(store)(&s->room, i, OF(value)(&run));
    }
    s->stack = s->room;
    s->stack_at = 0;
    s->middle = stop;
    return OF(overflown)(&run) ? OVERFLOWN : 0;
}

static inline void OF(put)(const Sweep *s, int64_t i, P p) {
    if (s->lowered)
        ((OF(result) *)s->out.at[0])[i] = OF(lower)(p, s->lost);
    else
        OF(store)(&s->out, i, p);
}

/* Events up to ``stop``, after each of which the front is one further: what is on the right first,
 * where each waits for the one before it, and then all results, where none does. */
static OF(run) OF(steady)(const Sweep *s, OF(run) run, int64_t i, int64_t stop) {
    _Alignas(8) char kept[MAX_COLUMNS][8 * MTA_STEADY];
    const Columns rights = {{kept[0], kept[1], kept[2]}, MTA_STEADY};
    const Columns stack = s->stack, rows = s->rows, out = s->out;
    for (int64_t count; i < stop; i += count) {
        const int64_t at = s->fronts.first + i - s->stack_at;
        count = stop - i < MTA_STEADY ? stop - i : MTA_STEADY;
        for (int64_t j = 0; j < count; j++) {
            OF(step)(&run, OF(load)(&rows, s->first + i + j), 0);
            OF(store)(&rights, j, OF(value)(&run));
        }
        for (int64_t j = 0; s->lowered && j < count; j++) {
            P fold = OF(combine)(OF(load)(&stack, at + j), OF(load)(&rights, j));
            ((OF(result) *)out.at[0])[i + j] = OF(lower)(fold, s->lost);
        }
        for (int64_t j = 0; !s->lowered && j < count; j++)
            OF(store)(&out, i + j, OF(combine)(OF(load)(&stack, at + j), OF(load)(&rights, j)));
    }
    return run;
}

/* The fold after each event is that of the stack's entry at the front and the run on its right. */
static int OF(sweep)(Sweep *s) {
    P right = OF(load)(&s->right, 0);
    int64_t i = 0, front = s->stack_at;
    while (i < s->out.count) {
        OF(run) run;
        const int64_t highest = s->turns ? s->middle - 1 : s->middle;
        const Columns stack = s->stack, rows = s->rows;
        OF(begin)(&run, right, OF(load)(&rows, s->first + i));
        int64_t from = s->fronts.first + i, to = highest + 1 - s->fronts.first;
        if (!s->fronts.each && from >= front && from <= highest) {
            to = to < s->out.count ? to : s->out.count;
            run = OF(steady)(s, run, i, to);
            i = to;
        }
        for (; i < s->out.count; i++) {
            int64_t next = position(&s->fronts, i);
            if (next < front)
                return REFUSED;
            front = next;
            if (front > highest)
                break;
            OF(step)(&run, OF(load)(&rows, s->first + i), 0);
            OF(put)(s, i, OF(combine)(OF(load)(&stack, front - s->stack_at), OF(value)(&run)));
        }
        if (OF(overflown)(&run))
            return OVERFLOWN;
        right = OF(value)(&run);
        if (i == s->out.count)
            break;
        int64_t last = s->first + i;
        if (!s->turns || front > last || front < 0)
            return REFUSED;
        if (OF(turn)(s, front, last + 1))
            return OVERFLOWN;
        right = OF(identity)();
        OF(put)(s, i, OF(combine)(OF(load)(&s->room, front), right));
        i++;
    }
    OF(store)(&s->right, 0, right);
    return 0;
}

/* A range is put together from blocks of 1, 2, 4, ... rows, one for every bit of its length. As
 * many ranges as lie near each other share the folds of the blocks. */
static int OF(ranges)(const Columns *rows, const int64_t *starts, const int64_t *lengths,
                      const Columns *out) {
    static const int64_t room = MTA_PAIRED + MTA_LONGEST;
    P level[MTA_LEVELS][MTA_PAIRED + MTA_LONGEST];
    for (int64_t i = 0; i < out->count;) {
        int64_t low = starts[i], high = low, longest = 1, stop = i;
        while (stop < out->count) {
            int64_t start = starts[stop], length = lengths[stop];
            if (start < 0 || length < 1 || length > MTA_LONGEST || start > rows->count - length)
                return REFUSED;
            if (stop > i && (start < low || start > high || start + length > low + room))
                break;
            high = start + length > high ? start + length : high;
            longest = length > longest ? length : longest;
            stop++;
        }
        int64_t count = high - low;
        for (int64_t j = 0; j < count; j++)
            level[0][j] = OF(load)(rows, low + j);
        for (int64_t bit = 1, size = 1; 2 * size <= longest; bit++, size *= 2) {
            count -= size;
            for (int64_t j = 0; j < count; j++)
                level[bit][j] = OF(combine)(level[bit - 1][j], level[bit - 1][j + size]);
        }
        for (; i < stop; i++) {
            int64_t at = starts[i] - low, left = lengths[i], bit = 0;
            while (!(left & 1))
                left >>= 1, bit++;
            P fold = level[bit][at];
            at += (int64_t)1 << bit;
            for (left >>= 1, bit++; left; left >>= 1, bit++)
                if (left & 1) {
                    fold = OF(combine)(fold, level[bit][at]);
                    at += (int64_t)1 << bit;
                }
            OF(store)(out, i, fold);
        }
    }
    return 0;
}

/* A suffix, what lies between for all ranges of one pair of blocks, and a prefix. */
static int OF(across)(const Across *a) {
    int64_t i = 0;
    for (int64_t pair = 0; pair < a->pairs; pair++) {
        if (a->counts[pair] < 0 || a->counts[pair] > a->out.count - i)
            return REFUSED;
        int64_t stop = i + a->counts[pair];
        P middle = a->between.at[0] ? OF(load)(&a->between, pair) : OF(identity)();
        for (; i < stop; i++) {
            int64_t start = position(&a->starts, i);
            if (start < 0 || start >= a->suffixes.count)
                return REFUSED;
            P fold = OF(load)(&a->suffixes, start);
            if (a->between.at[0])
                fold = OF(combine)(fold, middle);
            OF(store)(&a->out, i, OF(combine)(fold, OF(load)(&a->prefixes, a->first + i)));
        }
    }
    return i == a->out.count ? 0 : REFUSED;
}

#undef K
