/* The steps back through a recurrent layer, one by one, built of ops that have gradients. */
#ifndef NEAP_OP_RECURRENT_H
#define NEAP_OP_RECURRENT_H

#include "op/build.h"

/* What a layer kept and gradients, for the shapes see recurrent.c. NEAP_NONE: zero; of `first` too. */
typedef struct neap_scan {
  neap_id kept;           /* gates' values */
  neap_id w;              /* of the states */
  neap_id states;         /* an LSTM's cells, else y */
  neap_id first;          /* the state before */
  neap_id dy, dlast;      /* of y, and of an LSTM's last cell */
  neap_id dkept, dstates; /* of what was kept, where a gradient is differentiated; dstates: of an LSTM's cells */
} neap_scan;

/* The state that each step began with: (N, T, H). */
neap_id neap__states_before(neap_graph *g, neap_id states, neap_id first);
/* out: gradients of the gates, of the first state and of the first cell. */
void neap__lstm_back(neap_graph *g, const neap_scan *s, neap_id *out);
/* out: gradients of the gates, of w h + b, of the first state. */
void neap__gru_back(neap_graph *g, const neap_scan *s, neap_id *out);
/* relu: of step, else tanh. out: gradients of the gates and of the first state. */
void neap__rnn_back(neap_graph *g, const neap_scan *s, bool relu, neap_id *out);

#endif
