/* What ops along a line, entry after entry, share. */
#ifndef NEAP_OP_SCAN_H
#define NEAP_OP_SCAN_H

#include "op/build.h"

/* v and one more entry along dim, `number`, before its first or after its last. */
neap_id neap__with_entry(neap_graph *g, neap_id v, int32_t dim, double number, bool before);
/* v moved by one entry along dim (not empty): entry i is the one before, or with `back` the one after, and `number`
 * where there is none. */
neap_id neap__shifted(neap_graph *g, neap_id v, int32_t dim, double number, bool back);
/* h_i = a_i h_(i-1) + b_i along dim, or with h_(i+1) when reverse. */
neap_id neap__linear_scan(neap_graph *g, neap_id a, neap_id b, int32_t dim, bool reverse);
/* Shape rule of running sums and products along the dimension of option 0: integers and bool give int64. */
neap_status neap__infer_running(neap_infer *x);
/* Batch rule of ops that work along the dimension of option 0. */
neap_status neap__batch_lines(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out);

#endif
