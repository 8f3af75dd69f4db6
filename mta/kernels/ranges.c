/* Ranges out of many buffers, one after the other: bytes, and whole numbers that are kept short. */
#include <string.h>

#include "columns.h"

/* What is far off in memory is on its way before it is needed, up to eight lines of a range. */
static inline void ahead(const unsigned char *const *where, const int64_t *counts, int64_t width,
                         int64_t i, int64_t count) {
#if defined(__GNUC__)
    for (int64_t at = 0; i + 16 < count && at < 512 && at < counts[i + 16] * width; at += 64)
        __builtin_prefetch(where[i + 16] + at);
#endif
}

void bytes_of(const unsigned char *const *where, const int64_t *lengths, int64_t count,
              unsigned char *found) {
    for (int64_t i = 0; i < count; i++) {
        ahead(where, lengths, 1, i, count);
        memcpy(found, where[i], (size_t)lengths[i]);
        found += lengths[i];
    }
}

#define EACH(type)                                                                               \
    for (int64_t k = 0; k < counts[i]; k++) {                                                    \
        type offset;                                                                             \
        memcpy(&offset, where[i] + k * (int64_t)sizeof offset, sizeof offset);                   \
        *found++ = (int64_t)(base + unit * (uint64_t)offset);                                    \
    }                                                                                            \
    break

void numbers_of(const unsigned char *const *where, const int64_t *counts, const int64_t *widths,
                const int64_t *bases, const int64_t *units, int64_t count, int64_t *found) {
    for (int64_t i = 0; i < count; i++) {
        ahead(where, counts, widths[i], i, count);
        const uint64_t base = (uint64_t)bases[i], unit = (uint64_t)units[i];
        switch (widths[i]) {
        case 1: EACH(uint8_t);
        case 2: EACH(uint16_t);
        case 4: EACH(uint32_t);
        case 8: EACH(uint64_t);
        default:
            for (int64_t k = 0; k < counts[i]; k++)
                *found++ = (int64_t)base;
        }
    }
}
