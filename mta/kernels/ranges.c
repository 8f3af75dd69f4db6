/* Ranges out of many buffers, one after the other: bytes, and whole numbers that are kept short. */
#include <string.h>

#include "columns.h"

/* How many numbers, or bytes, they are; REFUSED where a range is not in its column. */
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

#define EACH(type)                                                                               \
    for (int64_t k = 0; k < count; k++, into += 8) {                                             \
        type offset;                                                                             \
        memcpy(&offset, where + k * (int64_t)sizeof offset, sizeof offset);                      \
        *(uint64_t *)(void *)into = base + unit * (uint64_t)offset;                              \
    }                                                                                            \
    break

/* Numbers as what they are, in 8 bytes each, or the bytes of items as they come. */
void gather(const Ranges *r, int numbers, unsigned char *into) {
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t page = r->which[i], count = r->counts[i], width = r->column.widths[page];
        const uint64_t base = (uint64_t)r->column.bases[page];
        const uint64_t unit = (uint64_t)r->column.units[page];
        const unsigned char *where = first_of(r, i);
#if defined(__GNUC__) /* what is far off is on its way before it is needed, up to eight lines */
        const int64_t next = i + 16 < r->count ? i + 16 : i;
        const int64_t size = r->counts[next] * r->column.widths[r->which[next]];
        for (int64_t at = 0; at < 512 && at < size; at += 64)
            __builtin_prefetch(first_of(r, next) + at);
#endif
        switch (numbers ? width : -1) {
        case 0:
            for (int64_t k = 0; k < count; k++, into += 8)
                *(uint64_t *)(void *)into = base;
            break;
        case 1: EACH(uint8_t);
        case 2: EACH(uint16_t);
        case 4: EACH(uint32_t);
        case 8: EACH(uint64_t);
        default:
            memcpy(into, where, (size_t)(count * width));
            into += count * width;
        }
    }
}
