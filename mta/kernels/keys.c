/* A search for keys in the keys of pages; both are in order of their hashes. */
#include <string.h>

#include "columns.h"

/* Whether a page has a wanted key at a place. ``of``: the columns of hashes, ends and bytes. */
static inline int is_at(const Pages *pages, const Shorts *of, int64_t page, int64_t place,
                        const Wanted *wanted, int64_t key) {
    const char *buffer = pages->views[page].buf;
    const int64_t start = wanted->bounds[key], stop = wanted->bounds[key + 1];
    const int64_t width = of[1].widths[page];
    uint64_t at[2] = {0, 0};
    if (start < 0 || stop < start || stop > wanted->size || width > 8
        || place + 1 >= of[1].counts[page])
        return 0;
    for (int i = 0; i < 2; i++) {
        memcpy(&at[i], buffer + of[1].starts[page] + (place + i) * width, (size_t)width);
        at[i] = (uint64_t)of[1].bases[page] + (uint64_t)of[1].units[page] * at[i];
    }
    const int64_t size = of[2].widths[page] == 1 ? of[2].counts[page] : 0;
    return at[1] <= (uint64_t)size && at[0] <= at[1]
        && at[1] - at[0] == (uint64_t)(stop - start)
        && !memcmp(buffer + of[2].starts[page] + at[0], wanted->bytes + start, at[1] - at[0]);
}

/* Writes the place of each wanted key in each run that has it: (page << 32) + place. A run has a
 * first page and an end. UNEVEN if hashes are out of order, or another key has the same hash. */
int match(const Pages *pages, const Shorts *of, const int64_t *runs, int64_t run_count,
         const Wanted *wanted, int64_t *slots) {
    for (int64_t run = 0; run < run_count && wanted->count; run++) {
        uint64_t before = 0, hash, next = wanted->hashes[0];
        int64_t key = 0, page = runs[2 * run], stop = runs[2 * run + 1];
        for (; page < stop; page++) {
            if (page < 0 || page >= pages->count || of->counts[page] > INT32_MAX
                || (of->counts[page] && of->widths[page] != 8))
                return REFUSED;
            const char *hashes = (char *)pages->views[page].buf + of->starts[page];
            for (int64_t place = 0; place < of->counts[page]; place++, before = hash) {
                memcpy(&hash, hashes + 8 * place, 8);
                if (before <= hash && hash < next) /* most of them */
                    continue;
                while (next < hash && key + 1 < wanted->count)
                    next = wanted->hashes[++key];
                if (hash < before || (hash == next && wanted->bounds
                                      && !is_at(pages, of, page, place, wanted, key)))
                    return UNEVEN;
                if (hash == next)
                    slots[key * run_count + run] = (page << 32) + place;
            }
        }
    }
    return 0;
}
