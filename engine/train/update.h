/* The update: a transaction. It commits parameters, optimizer state and extra writes together, or leaves
 * everything as it was, bit for bit. */
#ifndef NEAP_TRAIN_UPDATE_H
#define NEAP_TRAIN_UPDATE_H

#include "graph/program.h"
#include "train/optimizer.h"

/* A traced loss: what stays the same over all plans of one signature. */
typedef struct neap_update_spec {
  neap_graph *graph;          /* retained; outputs: loss (0-d float), aux...; gradients are appended to it. Its
                                 writes are part of the commit */
  neap_optimizer *optimizer;  /* must outlive the update */
  const int32_t *input_batch; /* as in neap_program_spec */
  int64_t batch, grain;
  double clip_norm;  /* 0: no clipping */
  double clip_value; /* after that, of each element; 0: none */
} neap_update_spec;

typedef struct neap_update neap_update;

/* Differentiates; plans nothing yet. */
neap_status neap__update_create(neap_context *c, const neap_update_spec *spec, neap_update **out, neap_error *err);
void neap__update_destroy(neap_update *u); /* drops an unfinished run */

typedef struct neap_update_memory {
  uint64_t parameters, gradients, optimizer, activations, workspace;
  uint64_t outputs; /* of the loss function's other results, given by the caller at begin */
  uint64_t arena;   /* what reserve takes */
  uint64_t peak;    /* everything of this update together */
} neap_update_memory;

typedef struct neap_update_plan {
  int64_t micro; /* samples a micro-batch; 0: the whole batch */
} neap_update_plan;

typedef struct neap_update_forecast {
  neap_update_memory memory;
  neap_exact exact; /* against the whole batch */
  double seconds;   /* predicted for one update */
  int64_t micro, grain;
} neap_update_forecast;

/* What a plan would need, without taking anything on the device. */
neap_status neap__update_predict(neap_update *u, const neap_update_plan *plan, neap_update_forecast *out,
                                 neap_error *err);
/* Puts a plan in force; NEAP_BUSY during a run. The one before stays when this fails. */
neap_status neap__update_plan(neap_update *u, const neap_update_plan *plan, neap_error *err);
/* Of the plan in force; zeroes before the first. */
void neap__update_forecast(const neap_update *u, neap_update_forecast *out);

/* Takes the training arena, so that a run cannot meet OOM. NEAP_OOM (err->bytes: asked for) changes nothing. */
neap_status neap__update_reserve(neap_update *u, neap_error *err);
/* Begins a transaction. inputs: dense device pointers, held by the caller until commit or drop; aux: device
 * pointers for the aux outputs. Reserves when that was not done. */
neap_status neap__update_begin(neap_update *u, const void *const *inputs, void *const *aux, neap_error *err);
/* Works for about `seconds`; *committed tells whether the update is done. An error (bad data, NaN when
 * checked, device) drops the update: nothing has changed. */
neap_status neap__update_step(neap_update *u, double seconds, bool *committed, neap_error *err);
void neap__update_drop(neap_update *u); /* forgets an unfinished run */
bool neap__update_running(const neap_update *u);
uint64_t neap__update_commits(const neap_update *u);    /* so far */
double neap__update_next_seconds(const neap_update *u); /* predicted for the next slice's smallest piece */
double neap__update_loss(const neap_update *u);         /* of the last commit */
double neap__update_grad_norm(const neap_update *u);    /* before clipping; NaN when it was not asked for */

#endif
