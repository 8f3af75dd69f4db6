/* Single events of a window, one per call: see mta/windows/native.py. */
#include "monoids.h"

static F8 joined(F8 operation, F8 a, F8 b) {
    return operation == 0 ? sum_f8_combine(a, b)
         : operation > 0 ? max_f8_combine(a, b) : min_f8_combine(a, b);
}

/* Adds an event and computes the result after it; 0, without any change, if it cannot. */
int take_event(Lent *l, F8 value, F8 time, F8 *result) {
    if (!(value == value && time < l->bound
          && (l->last <= time || (l->floor <= time && l->last - l->lateness <= time))
          && l->count >= 0 && l->count < l->most && l->most <= MTA_LENT
          && l->at >= 0 && l->at < MTA_LENT && l->entered >= 0 && l->rows >= 0))
        return 0;
    int64_t at = (int64_t)l->at, count = (int64_t)l->count;
    l->values[count] = value;
    l->times[count] = time;
    l->last = time > l->last ? time : l->last;
    l->count++;
    /* Events that are old enough enter the frame; the new event too unless the frame ends early. */
    for (int64_t next; l->entered < l->count - l->rows; l->entered++) {
        if (!(l->times[next = (int64_t)l->entered] <= l->last - l->delay))
            break;
        l->right = joined(l->operation, l->right, l->values[next]);
    }
    if (l->spare-- <= 0)
        at++;
    while (at < MTA_LENT && l->leaving[at] <= l->last - l->age)
        at++;
    const F8 fold = joined(l->operation, l->stack[at], l->right);
    *result = (l->base < 0 ? fold : fold / (l->counts[at] + l->base + l->entered)) + 0.0;
    l->at = at;
    return 1;
}
