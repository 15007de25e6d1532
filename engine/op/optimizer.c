/* One step of an optimizer over a flat segment, in place: output i is written over the input it replaces.
 * `hyper` is fp64[16] in device memory, so that a replayed program sees new values; its last entry holds each element
 * of the scaled gradient within plus or minus itself, unless it is 0. */
#include "op/build.h"

enum { HYPER = 16 };

static neap_status check(neap_infer *x) {
  uint32_t last = x->n_in - 1;
  char text[96];
  for (uint32_t i = 0; i < last; i++) {
    const neap_desc *d = &x->in[i];
    if (d->dtype != NEAP_F32 || d->shape.ndim != 1 || d->shape.dim[0] != x->in[0].shape.dim[0])
      return neap__fail(x->err, NEAP_SHAPE, "input %u is %s %s, expected fp32 and one dimension like the first", i + 1,
                        neap__dtype_name(d->dtype), neap__shape_text(&d->shape, text, sizeof text));
  }
  if (x->in[last].dtype != NEAP_F64 || x->in[last].shape.ndim != 1 || x->in[last].shape.dim[0] != HYPER)
    return neap__fail(x->err, NEAP_SHAPE, "the hyperparameters are %s %s, expected fp64 [%d]",
                      neap__dtype_name(x->in[last].dtype), neap__shape_text(&x->in[last].shape, text, sizeof text),
                      HYPER);
  return NEAP_OK;
}

/* Inputs p, g, moments..., hyper; outputs p, moments... */
static neap_status infer_step(neap_infer *x) {
  neap_status s = check(x);
  for (uint32_t o = 0; o < x->n_out; o++) x->out[o] = x->in[0];
  return s;
}

static neap_status infer_sumsq(neap_infer *x) {
  neap_status s = neap__need_float(x, 0);
  x->out[0] = (neap_desc){.dtype = NEAP_F64};
  return s;
}

/* A step sees finished gradients only; each of these is whole before it runs. */
static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  return neap__batch_none(g, n, in, out);
}

static void cost_step(const neap_sig *s, double *flops, double *bytes) {
  double n = (double)neap__shape_count(&s->in[0].desc.shape);
  *flops = n * (s->n_out == 3 ? 14 : s->n_out == 2 ? 6 : 3);
  *bytes = 4 * n * (s->n_in - 1.0 + s->n_out);
}

static void cost_sumsq(const neap_sig *s, double *flops, double *bytes) {
  *flops = 2.0 * (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc);
}

static const char *const plain_samples[] = {"f32[37] f32[37] f64[16]:positive", "f32[0] f32[0] f64[16]:positive", NULL};
static const char *const sgd_samples[] = {"f32[37] f32[37] f32[37] f64[16]:positive",
                                          "f32[0] f32[0] f32[0] f64[16]:positive", NULL};
static const char *const rmsprop_samples[] = {"f32[37] f32[37] f32[37]:positive f32[37] f64[16]:positive",
                                              "f32[0] f32[0] f32[0] f32[0] f64[16]:positive", NULL};
static const char *const square_samples[] = {"f32[37] f32[37] f32[37]:positive f64[16]:positive",
                                             "f32[0] f32[0] f32[0] f64[16]:positive", NULL};
static const char *const adam_samples[] = {"f32[37] f32[37] f32[37] f32[37]:positive f64[16]:positive",
                                           "f32[0] f32[0] f32[0] f32[0] f64[16]:positive", NULL};
static const char *const sumsq_samples[] = {"f32[37]", "f32[2,3]", "f32[0]", NULL};

#define STEP(op_name, inputs, outputs, cases, text)                                                           \
  {                                                                                                           \
    .name = op_name, .min_in = inputs, .max_in = inputs, .n_out = outputs, .internal = true, .nondiff = true, \
    .inplace = 1, .precision = NEAP_PREC_KEEP, .infer = infer_step, .batch = batch, .cost = cost_step,        \
    .samples = cases, .doc = text                                                                             \
  }

const neap_op neap__op_sgd_plain_step =
    STEP("sgd_plain_step", 3, 1, plain_samples,
         "One step as torch.optim.SGD without momentum: p, g, hyper {lr, -, weight_decay, -, grad_scale, maximize}.");
const neap_op neap__op_sgd_step =
    STEP("sgd_step", 4, 2, sgd_samples,
         "One step as torch.optim.SGD: p, g, m, hyper {lr, momentum, weight_decay, nesterov, grad_scale, maximize}.");
const neap_op neap__op_adam_step =
    STEP("adam_step", 5, 3, adam_samples,
         "One step as torch.optim.Adam, AdamW when decoupled: p, g, m, v, hyper {lr, beta1, beta2, eps, weight_decay, "
         "decoupled, 1 - beta1^t, 1 - beta2^t, grad_scale}.");

const neap_op neap__op_rmsprop_plain_step =
    STEP("rmsprop_plain_step", 4, 2, square_samples,
         "One step as torch.optim.RMSprop without momentum: p, g, squares, hyper {lr, -, weight_decay, alpha, "
         "grad_scale, maximize, eps}.");
const neap_op neap__op_rmsprop_step =
    STEP("rmsprop_step", 5, 3, rmsprop_samples,
         "One step as torch.optim.RMSprop: p, g, squares, m, hyper {lr, momentum, weight_decay, alpha, grad_scale, "
         "maximize, eps}.");
const neap_op neap__op_adagrad_step = STEP(
    "adagrad_step", 4, 2, square_samples,
    "One step as torch.optim.Adagrad: p, g, sum, hyper {lr decayed, -, weight_decay, -, grad_scale, maximize, eps}.");
const neap_op neap__op_lion_step =
    STEP("lion_step", 4, 2, sgd_samples,
         "One step of Lion (Chen et al. 2023): p, g, m, hyper {lr, beta1, weight_decay, beta2, grad_scale, maximize}.");

const neap_op neap__op_sumsq = {
    .name = "sumsq",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .nondiff = true,
    .precision = NEAP_PREC_KEEP,
    .infer = infer_sumsq,
    .batch = batch,
    .cost = cost_sumsq,
    .samples = sumsq_samples,
    .doc = "Sum of squares as fp64; infinities and NaN carry through.",
};
