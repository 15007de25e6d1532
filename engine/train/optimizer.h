/* Optimizers over a segment table: parameters, gradients and moments are flat buffers; an update is one
 * fused pass over each run of segments that share their settings. */
#ifndef NEAP_TRAIN_OPTIMIZER_H
#define NEAP_TRAIN_OPTIMIZER_H

#include "graph/context.h"
#include "ir/ir.h"
#include "tensor/tensor.h"

typedef enum neap_optimizer_kind {
  NEAP_SGD = 0,
  NEAP_ADAM,
  NEAP_NADAM,
  NEAP_RADAM,
  NEAP_ADAMAX,
  NEAP_ADADELTA,
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
  double momentum, dampening; /* SGD; momentum of RMSprop, too */
  double beta1, beta2;        /* Adam and its kin, Lion; beta2 is RMSprop's alpha and Adadelta's rho */
  double eps;
  double lr_decay, initial; /* Adagrad; initial: of the sum of squares, when the optimizer is made */
  double momentum_decay;    /* NAdam */
  double product;           /* NAdam's state: of the momenta so far */
  bool nesterov, maximize;
  bool amsgrad, centered; /* Adam; RMSprop */
  bool decoupled;         /* weight decay as AdamW (Loshchilov and Hutter 2019) */
} neap_hyper;

typedef struct neap_segment {
  neap_storage *param; /* retained */
  int64_t count;       /* elements */
  size_t offset;       /* bytes into the flat buffers, NEAP_ALIGN-aligned */
  uint32_t group;
  neap_dtype dtype; /* fp32 or fp64 */
} neap_segment;

static inline size_t neap__segment_bytes(const neap_segment *s) {
  return (size_t)s->count * neap__dtype_size(s->dtype);
}

/* What a kind does with the settings it was made with, and its moments by PyTorch's names. */
typedef struct neap_step {
  const neap_op *op;
  const char *moments[3]; /* NULL ends */
} neap_step;

typedef struct neap_optimizer {
  neap_context *ctx;
  neap_optimizer_kind kind;
  const neap_step *rule;
  uint32_t n_moments; /* 0 to 3 buffers */
  neap_segment *segments;
  uint32_t n_segments;
  neap_hyper *groups;
  uint32_t n_groups;
  uint32_t room, room_groups; /* of the two arrays */
  size_t flat_bytes;          /* of each moment buffer, and of a gradient block */
  neap_storage *moments[3];
  neap_storage *hyper;             /* device-resident settings: NEAP_HYPER a group, then one fp64 for the norm */
  int64_t step;                    /* committed updates */
  struct neap_optimizer_pass *all; /* every segment, for neap__optimizer_apply */
} neap_optimizer;

/* Whether the settings need a moment that the optimizer was made without; its name, or NULL. */
const char *neap__optimizer_lacks(const neap_optimizer *o, const neap_hyper *h);

/* params: dense fp32 or fp64 parameter tensors, each once; group[i] < n_groups. Parameters that live alone move into
 * one flat buffer. Moments begin at zero (Adagrad's: at `initial`) and are reserved here, never later. */
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

/* The factor that brings gradients of this norm to clip_norm at most, as torch.nn.utils.clip_grad_norm_: 0 for an
 * infinite norm, NaN for none. */
double neap__clip_scale(double norm, double clip_norm);

/* For loops of one's own: prepares the pass at the first call, and again when `present` changes. clip_norm and
 * clip_value: 0 for none. *norm: of the gradients before clipping, NaN unless clip_norm is given. */
typedef struct neap_clip {
  double norm, value;
} neap_clip;
neap_status neap__optimizer_apply(neap_optimizer *o, const void *grads, const uint8_t *present, neap_clip clip,
                                  double *norm, neap_error *err);

#endif
