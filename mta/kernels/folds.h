/* The folds of one kind of monoid, K: this file is included once for each (folds.c).
 *
 * scan      the folds of a first partial and the rows up to each row, from either side
 * join      each row combined with another row, or all with the same row
 * sweep     Two-Stacks: the folds of a sliding window whose fronts and stops never decrease
 * ranges    the folds of short ranges, from blocks of 1, 2, 4, ... rows
 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(name) JOIN(K, name)
#define P OF(P)
#define ROW(rows, i) OF(load)(rows, i, 0)
#define FULL(columns, i) OF(load)(columns, i, 1)

/* Folds ``count`` rows from ``first`` on; the caller has written the result at the starting end. */
static int OF(scan)(const Columns *rows, int64_t first, int64_t count, const Columns *out,
                    int backwards) {
    int64_t step = backwards ? -1 : 1, at = backwards ? count - 1 : 0;
    if (!count)
        return 0;
    OF(run) run;
    OF(begin)(&run, FULL(out, at + backwards), ROW(rows, first + at));
    for (int64_t left = count; left; left--, at += step) {
        OF(step)(&run, ROW(rows, first + at), backwards);
        OF(store)(out, at + !backwards, OF(value)(&run));
    }
    return OF(overflown)(&run) ? OVERFLOWN : 0;
}

static int OF(join)(const Columns *lefts, const Columns *rights, const Columns *out) {
    for (int64_t i = 0; i < out->count; i++)
        OF(store)(out, i, OF(combine)(FULL(lefts, i), ROW(rights, i)));
    return 0;
}

/* Writes ``count`` results: each combines the stack's entry at the front with its right side. */
WIDE static void OF(put)(const Sweep *of, const Columns *rights, int64_t i, int64_t count) {
    const Sweep s = *of; /* a copy, as the compiler cannot know that results do not overwrite it */
    for (int64_t j = 0; s.lowered && j < count; j++) {
        P left = FULL(&s.stack, position(&s.fronts, i + j) - s.stack_at);
        P fold = OF(combine)(left, FULL(rights, j));
        ((OF(result) *)s.out.at[0])[i + j] = OF(lower)(fold, s.lost);
    }
    for (int64_t j = 0; !s.lowered && j < count; j++) {
        P left = FULL(&s.stack, position(&s.fronts, i + j) - s.stack_at);
        OF(store)(&s.out, i + j, OF(combine)(left, FULL(rights, j)));
    }
}

/* For many results together, this computes first the right sides, which depend on each other, and
 * then the results, which do not. */
static int OF(sweep)(Sweep *s) {
    _Alignas(8) char kept[MAX_COLUMNS][8 * MTA_SWEPT];
    const Columns rights = {{kept[0], kept[1], kept[2]}, MTA_SWEPT, {1, 1, 1}}, rows = s->rows;
    const Positions fronts = s->fronts;
    const int64_t *const stops = s->stops.each; /* or NULL: each result has one row more */
    P right = FULL(&s->right, 0);
    int64_t i = 0, at = s->first, to = at, front = s->stack_at, next = front, count;
    while (i < s->out.count) {
        const int64_t highest = s->turns ? s->middle - 1 : s->middle;
        OF(run) run;
        OF(begin)(&run, right, at < rows.count ? ROW(&rows, at) : right);
        do {
            const int64_t most = s->out.count - i < MTA_SWEPT ? s->out.count - i : MTA_SWEPT;
            for (count = 0; count < most; count++, front = next) {
                to = stops ? stops[i + count] : at + 1;
                if ((next = position(&fronts, i + count)) < front || next > highest
                    || (stops && (to < at || to > rows.count)))
                    break;
                if (!stops)
                    OF(step)(&run, ROW(&rows, at++), 0);
                else
                    for (; at < to; at++)
                        OF(step)(&run, ROW(&rows, at), 0);
                OF(store)(&rights, count, OF(value)(&run));
            }
            OF(put)(s, &rights, i, count);
            i += count;
        } while (count == MTA_SWEPT);
        if (OF(overflown)(&run))
            return OVERFLOWN;
        right = OF(value)(&run);
        if (i == s->out.count)
            break;
        if (!s->turns || next < front || next < 0 || to < next || to < at || to > rows.count)
            return REFUSED;
        /* The events so far become the stack: its entries are their folds to the new middle. */
        s->stack_at = front = next, s->middle = at = to;
        OF(store)(&s->stack, to - next, OF(identity)());
        if (OF(scan)(&rows, next, to - next, &s->stack, 1))
            return OVERFLOWN;
        right = OF(identity)();
        OF(store)(&rights, 0, right);
        OF(put)(s, &rights, i++, 1);
    }
    OF(store)(&s->right, 0, right);
    return 0;
}

/* A range consists of blocks of 1, 2, 4, ... rows, one for every set bit of its length. Ranges that
 * are near each other share the folds of the blocks. */
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
            level[0][j] = ROW(rows, low + j);
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

#undef K
