/* One step of an optimizer over a flat segment, in place: output i is written over the input it replaces. */
#include "op/build.h"
#include "op/hyper.h"

static neap_status check(neap_infer *x) {
  uint32_t last = x->n_in - 1;
  const neap_desc *first = &x->in[0];
  char text[96];
  for (uint32_t i = 0; i < last; i++) {
    const neap_desc *d = &x->in[i];
    if (d->dtype != first->dtype || d->shape.ndim != 1 || d->shape.dim[0] != first->shape.dim[0])
      return neap__fail(x->err, NEAP_SHAPE, "input %u is %s %s, expected %s and one dimension like the first", i + 1,
                        neap__dtype_name(d->dtype), neap__shape_text(&d->shape, text, sizeof text),
                        neap__dtype_name(first->dtype));
  }
  if (x->in[last].dtype != NEAP_F64 || x->in[last].shape.ndim != 1 || x->in[last].shape.dim[0] != NEAP_HYPER)
    return neap__fail(x->err, NEAP_SHAPE, "the hyperparameters are %s %s, expected fp64 [%d]",
                      neap__dtype_name(x->in[last].dtype), neap__shape_text(&x->in[last].shape, text, sizeof text),
                      NEAP_HYPER);
  return neap__need_float(x, 0);
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
  *flops = n * (s->n_out >= 3 ? 14 : s->n_out == 2 ? 6 : 3);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc) * (s->n_in - 1.0 + s->n_out);
}

static void cost_sumsq(const neap_sig *s, double *flops, double *bytes) {
  *flops = 2.0 * (double)neap__shape_count(&s->in[0].desc.shape);
  *bytes = (double)neap__desc_bytes(&s->in[0].desc);
}

static const char *const sumsq_samples[] = {"f32[37]", "f32[2,3]", "f32[0]", NULL};

/* p, g, moments and settings: in both dtypes, and of no elements. Those of which roots are taken are positive. */
#define CASES(name, f32_moments, f64_moments, no_moments)                               \
  static const char *const name[] = {"f32[37] f32[37]" f32_moments " f64[16]:positive", \
                                     "f64[37] f64[37]" f64_moments " f64[16]:positive", \
                                     "f32[0] f32[0]" no_moments " f64[16]:positive", NULL}
CASES(plain_cases, "", "", "");
CASES(first_cases, " f32[37]", " f64[37]", " f32[0]");
CASES(square_cases, " f32[37]:positive", " f64[37]:positive", " f32[0]");
CASES(square_first_cases, " f32[37]:positive f32[37]", " f64[37]:positive f64[37]", " f32[0] f32[0]");
CASES(square_first_mean_cases, " f32[37]:positive f32[37] f32[37]", " f64[37]:positive f64[37] f64[37]",
      " f32[0] f32[0] f32[0]");
CASES(first_square_cases, " f32[37] f32[37]:positive", " f64[37] f64[37]:positive", " f32[0] f32[0]");
CASES(first_square_most_cases, " f32[37] f32[37]:positive f32[37]:positive",
      " f64[37] f64[37]:positive f64[37]:positive", " f32[0] f32[0] f32[0]");
CASES(squares_cases, " f32[37]:positive f32[37]:positive", " f64[37]:positive f64[37]:positive", " f32[0] f32[0]");

#define STEP(op_name, moments, cases, text)                                                                      \
  {                                                                                                              \
    .name = op_name, .min_in = 3 + (moments), .max_in = 3 + (moments), .n_out = 1 + (moments), .internal = true, \
    .nondiff = true, .inplace = 1, .precision = NEAP_PREC_KEEP, .infer = infer_step, .batch = batch,             \
    .cost = cost_step, .samples = cases, .doc = text                                                             \
  }

const neap_op neap__op_sgd_plain_step =
    STEP("sgd_plain_step", 0, plain_cases, "One step as torch.optim.SGD without momentum: p, g, hyper.");
const neap_op neap__op_sgd_step =
    STEP("sgd_step", 1, first_cases, "One step as torch.optim.SGD: p, g, momentum, hyper.");
const neap_op neap__op_adam_step =
    STEP("adam_step", 2, first_square_cases, "One step as torch.optim.Adam and AdamW: p, g, mean, squares, hyper.");
const neap_op neap__op_adam_most_step =
    STEP("adam_most_step", 3, first_square_most_cases,
         "One step as torch.optim.Adam and AdamW with amsgrad: p, g, mean, squares, the greatest of them, hyper.");
const neap_op neap__op_nadam_step =
    STEP("nadam_step", 2, first_square_cases, "One step as torch.optim.NAdam: p, g, mean, squares, hyper.");
const neap_op neap__op_radam_step =
    STEP("radam_step", 2, first_square_cases, "One step as torch.optim.RAdam: p, g, mean, squares, hyper.");
const neap_op neap__op_adamax_step =
    STEP("adamax_step", 2, first_square_cases, "One step as torch.optim.Adamax: p, g, mean, greatest, hyper.");
const neap_op neap__op_adadelta_step =
    STEP("adadelta_step", 2, squares_cases, "One step as torch.optim.Adadelta: p, g, squares, squared steps, hyper.");
const neap_op neap__op_rmsprop_plain_step =
    STEP("rmsprop_plain_step", 1, square_cases, "One step as torch.optim.RMSprop: p, g, squares, hyper.");
const neap_op neap__op_rmsprop_step =
    STEP("rmsprop_step", 2, square_first_cases,
         "One step as torch.optim.RMSprop with momentum: p, g, squares, momentum, hyper.");
const neap_op neap__op_rmsprop_centered_plain_step =
    STEP("rmsprop_centered_plain_step", 2, square_first_cases,
         "One step as torch.optim.RMSprop, centered: p, g, squares, mean, hyper.");
const neap_op neap__op_rmsprop_centered_step =
    STEP("rmsprop_centered_step", 3, square_first_mean_cases,
         "One step as torch.optim.RMSprop, centered and with momentum: p, g, squares, momentum, mean, hyper.");
const neap_op neap__op_adagrad_step =
    STEP("adagrad_step", 1, square_cases, "One step as torch.optim.Adagrad: p, g, sum of squares, hyper.");
const neap_op neap__op_lion_step =
    STEP("lion_step", 1, first_cases, "One step of Lion (Chen et al. 2023): p, g, mean, hyper.");

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
