/* Concatenates ranges of many buffers: bytes, or shortened integers. */
#include <string.h>

#include "columns.h"

/* The total number of integers or bytes; REFUSED if a range is outside its column. */
int64_t total_of(const Ranges *r, int numbers) {
    int64_t total = 0;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t page = r->which[i], first = r->firsts[i], count = r->counts[i];
        if (page < 0 || page >= r->pages->count || first < 0 || count < 0)
            return REFUSED;
        const int64_t most = r->column.counts[page], width = r->column.widths[page];
        if (first > most || count > most - first || (numbers && (width > 8 || width & (width - 1)))
            || count > INT64_MAX / 16 - total)
            return REFUSED;
        total += numbers ? count : count * width;
    }
    return total;
}

static inline const unsigned char *first_of(const Ranges *r, int64_t i) {
    const int64_t page = r->which[i];
    const unsigned char *at = r->pages->views[page].buf;
    return at + r->column.starts[page] + r->firsts[i] * r->column.widths[page];
}

static inline void each(const unsigned char *where, int64_t count, int width, uint64_t base,
                        uint64_t unit, unsigned char *into) {
    for (int64_t k = 0; k < count; k++) {
        uint64_t number = 0;
        memcpy(&number, where + k * width, (size_t)width);
        number = base + unit * number;
        memcpy(into + 8 * k, &number, 8);
    }
}

/* Writes integers in 8 bytes each, or the unchanged bytes of items. */
void gather(const Ranges *r, int numbers, unsigned char *into) {
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t page = r->which[i], count = r->counts[i], width = r->column.widths[page];
        const uint64_t base = (uint64_t)r->column.bases[page];
        const uint64_t unit = (uint64_t)r->column.units[page];
        const unsigned char *where = first_of(r, i);
#if defined(__GNUC__) /* load a later range into the cache, up to eight lines */
        const int64_t next = i + 16 < r->count ? i + 16 : i;
        const int64_t size = r->counts[next] * r->column.widths[r->which[next]];
        for (int64_t at = 0; at < 512 && at < size; at += 64)
            __builtin_prefetch(first_of(r, next) + at);
#endif
        switch (numbers ? width : -1) {
        case 0: each(where, count, 0, base, unit, into); break;
        case 1: each(where, count, 1, base, unit, into); break;
        case 2: each(where, count, 2, base, unit, into); break;
        case 4: each(where, count, 4, base, unit, into); break;
        case 8: each(where, count, 8, base, unit, into); break;
        default: memcpy(into, where, (size_t)(count * width));
        }
        into += count * (numbers ? 8 : width);
    }
}
