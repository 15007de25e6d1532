/* Optimizers over a segment table: parameters, gradients and moments are flat buffers; an update is one
 * fused pass over each run of segments that share their settings. */
#ifndef NEAP_TRAIN_OPTIMIZER_H
#define NEAP_TRAIN_OPTIMIZER_H

#include "graph/context.h"
#include "tensor/tensor.h"

typedef enum neap_optimizer_kind {
  NEAP_SGD = 0,
  NEAP_ADAM,
  NEAP_RMSPROP,
  NEAP_ADAGRAD,
  NEAP_LION,
  NEAP_OPTIMIZER_KINDS
} neap_optimizer_kind;

/* "sgd", "adam", ... */
const char *neap__optimizer_name(neap_optimizer_kind kind);

/* Settings of one group; may change between updates. */
typedef struct neap_hyper {
  double lr, weight_decay;
  double momentum;          /* SGD, RMSprop */
  double beta1, beta2, eps; /* Adam, Lion (no eps); RMSprop and Adagrad (eps) */
  double alpha;             /* RMSprop */
  double lr_decay;          /* Adagrad */
  bool nesterov, maximize;
  bool decoupled; /* weight decay as AdamW (Loshchilov and Hutter 2019) */
} neap_hyper;

typedef struct neap_segment {
  neap_storage *param; /* retained */
  int64_t count;       /* elements */
  size_t offset;       /* bytes into the flat buffers, NEAP_ALIGN-aligned */
  uint32_t group;
} neap_segment;

typedef struct neap_optimizer {
  neap_context *ctx;
  neap_optimizer_kind kind;
  uint32_t n_moments; /* 0 to 2 buffers */
  neap_segment *segments;
  uint32_t n_segments;
  neap_hyper *groups;
  uint32_t n_groups;
  uint32_t room, room_groups; /* of the two arrays */
  size_t flat_bytes;          /* of each moment buffer, and of a gradient block */
  neap_storage *moments[2];
  neap_storage *hyper;             /* device-resident settings: fp64[16] a group, then one fp64 for the norm */
  int64_t step;                    /* committed updates */
  struct neap_optimizer_pass *all; /* every segment, for neap__optimizer_apply */
} neap_optimizer;

/* params: dense fp32 parameter tensors, each once; group[i] < n_groups. Parameters that live alone move into
 * one flat buffer. Moments begin at zero and are reserved here, never later. */
neap_status neap__optimizer_create(neap_context *c, neap_optimizer_kind kind, const neap_tensor *params,
                                   const uint32_t *group, uint32_t n, const neap_hyper *groups, uint32_t n_groups,
                                   neap_optimizer **out, neap_error *err);
void neap__optimizer_destroy(neap_optimizer *o);
int64_t neap__optimizer_find(const neap_optimizer *o, const neap_storage *s); /* segment, or -1 */

/* The launches of one update over the segments whose byte in `present` is not 0 (NULL: all), prepared so that
 * running them takes no memory and cannot be refused. */
typedef struct neap_optimizer_pass neap_optimizer_pass;
neap_status neap__optimizer_pass_create(neap_optimizer *o, const uint8_t *present, neap_optimizer_pass **out,
                                        neap_error *err);
void neap__optimizer_pass_destroy(neap_optimizer_pass *p);
/* Predicted for norm and step together, on the engine's threads. */
double neap__optimizer_pass_seconds(const neap_optimizer_pass *p);
/* grads: the gradient block, segments at their offsets. Euclidean norm of all of it. */
neap_status neap__optimizer_pass_norm(neap_optimizer_pass *p, const void *grads, double *out, neap_error *err);
/* One update in place; gradients are multiplied by scale first, and then each is held within +-limit (0: none is).
 * Counts the step. */
neap_status neap__optimizer_pass_apply(neap_optimizer_pass *p, const void *grads, double scale, double limit,
                                       neap_error *err);

/* For loops of one's own: prepares the pass at the first call, and again when `present` changes. */
neap_status neap__optimizer_apply(neap_optimizer *o, const void *grads, const uint8_t *present, double scale,
                                  neap_error *err);

#endif
