/* Keys that are looked for among those of pages: both are in order of their hashes. */
#include <string.h>

#include "columns.h"

/* Where each wanted key is in each run, its runs side by side: (page << 32) + place, or -1.
 * A run has a first page and an end, a page so many keys. UNEVEN where hashes are out of order. */
int meet(const Pages *pages, const Shorts *hashes, const int64_t *counts, const int64_t *runs,
         int64_t run_count, const uint64_t *wanted, int64_t wanted_count, int64_t *slots) {
    for (int64_t i = 0; i < wanted_count * run_count; i++)
        slots[i] = -1;
    for (int64_t run = 0; run < run_count; run++) {
        uint64_t before = 0, hash;
        int64_t key = 0, page = runs[2 * run], stop = runs[2 * run + 1];
        if (page < 0 || stop > pages->count)
            return REFUSED;
        for (; page < stop; page++) {
            const unsigned char *at = pages->views[page].buf;
            if (counts[page] > 0 && (counts[page] > hashes->counts[page]
                                     || counts[page] > INT32_MAX || hashes->widths[page] != 8))
                return REFUSED;
            for (int64_t place = 0; place < counts[page]; place++, before = hash) {
                memcpy(&hash, at + hashes->starts[page] + 8 * place, 8);
                if (hash < before)
                    return UNEVEN;
                while (key < wanted_count && wanted[key] < hash)
                    key++;
                if (key < wanted_count && wanted[key] == hash)
                    slots[key * run_count + run] = (page << 32) + place;
            }
        }
    }
    return 0;
}
