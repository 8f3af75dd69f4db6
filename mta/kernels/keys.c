/* Keys that are looked for among those of pages: both are in order of their hashes. */
#include <string.h>

#include "columns.h"

/* Whether a page has a wanted key at a place. Of a page's columns there are hashes, ends, bytes. */
static int is_at(const Pages *pages, const Shorts *of, int64_t page, int64_t place,
                 const Wanted *wanted, int64_t key) {
    static const int64_t both = 2;
    const int64_t start = wanted->bounds[key], stop = wanted->bounds[key + 1];
    const Ranges ends = {pages, of[1], &page, &place, &both, 1};
    int64_t at[2];
    if (start < 0 || stop < start || stop > wanted->size || total_of(&ends, 1) != both)
        return 0;
    gather(&ends, 1, (unsigned char *)at);
    return at[0] >= 0 && at[1] >= at[0] && at[1] <= of[2].counts[page]
        && at[1] - at[0] == stop - start
        && !memcmp((const char *)pages->views[page].buf + of[2].starts[page] + at[0],
                   wanted->bytes + start, (size_t)(stop - start));
}

/* Where each wanted key is in each run, runs side by side: (page << 32) + place, or -1. A run has a
 * first page and an end. UNEVEN where hashes are out of order, or another key has a wanted one's. */
int meet(const Pages *pages, const Shorts *of, const int64_t *runs, int64_t run_count,
         const Wanted *wanted, int64_t *slots) {
    for (int64_t i = 0; i < wanted->count * run_count; i++)
        slots[i] = -1;
    for (int64_t run = 0; run < run_count; run++) {
        uint64_t before = 0, hash;
        int64_t key = 0, page = runs[2 * run], stop = runs[2 * run + 1];
        if (page < 0 || stop > pages->count)
            return REFUSED;
        for (; page < stop; page++) {
            const unsigned char *at = pages->views[page].buf;
            if (of->counts[page] > INT32_MAX || (of->counts[page] && of->widths[page] != 8))
                return REFUSED;
            for (int64_t place = 0; place < of->counts[page]; place++, before = hash) {
                memcpy(&hash, at + of->starts[page] + 8 * place, 8);
                if (hash < before)
                    return UNEVEN;
                while (key < wanted->count && wanted->hashes[key] < hash)
                    key++;
                if (key == wanted->count || wanted->hashes[key] != hash)
                    continue;
                if (wanted->bounds && !is_at(pages, of, page, place, wanted, key))
                    return UNEVEN;
                slots[key * run_count + run] = (page << 32) + place;
            }
        }
    }
    return 0;
}
