/* Entries around a value. */
#include "op/build.h"

/* Amounts come in pairs, the last dimension's first; dimension d's pair: */
static int64_t amount(const neap_opt *o, int32_t ndim, int32_t d, int side) {
  int32_t at = 2 * (ndim - 1 - d) + side;
  return at < o->n ? o->v.list[at] : 0;
}

static neap_status infer(neap_infer *x) {
  const neap_opt *o = &x->opt[0];
  x->out[0] = x->in[0];
  neap_shape *shape = &x->out[0].shape;
  if (o->n % 2 || o->n > 2 * shape->ndim)
    return neap__fail(x->err, NEAP_INVALID, "`pad` has %d amounts, expected a pair for each of up to %d dimensions",
                      (int)o->n, (int)shape->ndim);
  for (int32_t d = 0; d < shape->ndim; d++)
    for (int side = 0; side < 2; side++) {
      int64_t a = amount(o, shape->ndim, d, side);
      if (a < 0)
        return neap__fail(x->err, NEAP_RANGE, "`pad` has the amount %lld, expected 0 or more (narrow cuts)",
                          (long long)a);
      if (__builtin_add_overflow(shape->dim[d], a, &shape->dim[d]))
        return neap__fail(x->err, NEAP_RANGE, "padding by %lld is too large", (long long)a);
    }
  return NEAP_OK;
}

static void grad(neap_graph *g, const neap_node *n, const neap_id *gout, neap_id *gin, uint32_t need) {
  neap_shape shape = neap__desc_at(g, n->in[0]).shape;
  neap_id v = gout[0];
  if (!(need & 1)) return;
  for (int32_t d = 0; d < shape.ndim; d++) {
    int64_t before = amount(&n->opt[0], shape.ndim, d, 0), after = amount(&n->opt[0], shape.ndim, d, 1);
    if (before || after) v = neap__narrow_to(g, v, d, before, shape.dim[d]);
  }
  gin[0] = v;
}

static neap_status batch(const neap_graph *g, const neap_node *n, const neap_batch *in, neap_batch *out) {
  neap_status s;
  if (neap__batch_settled(n, in, out, &s)) return s;
  int32_t ndim = g->values[n->in[0]].desc.shape.ndim;
  out[0] = in[0];
  bool grows = amount(&n->opt[0], ndim, in[0].dim, 0) || amount(&n->opt[0], ndim, in[0].dim, 1);
  return grows ? NEAP_UNSUPPORTED : NEAP_OK;
}

static const char *const samples[] = {"f32[2,3]; pad=1,2",         "f32[2,3]; pad=1,0,0,2",
                                      "f32[1,2,3,4]; pad=1,1,2,2", "f32[2,0]; pad=1,1; value=3",
                                      "i64[3]; pad=0,2; value=7",  NULL};

const neap_op neap__op_pad_value = {
    .name = "pad_value",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .internal = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "pad", .type = NEAP_OPT_INTS, .required = true},
             {.name = "value", .type = NEAP_OPT_FLOAT, .def = 0, .has_default = true}},
    .infer = infer,
    .grad = grad,
    .batch = batch,
    .samples = samples,
    .doc = "Adds `value` around the input: amounts before and after, the last dimension's pair first.",
};

/* --- what scripts use -------------------------------------------------------------------------------------------- */

enum { PAD, MODE, VALUE };
enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR };

/* Negative amounts cut. */
static neap_id constant(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *opt) {
  const neap_shape shape = neap__desc_at(g, x).shape;
  neap_opt o[NEAP_MAX_OPTS] = {opt[PAD], NEAP_FLOAT(opt[VALUE].set ? opt[VALUE].v.f : 0)};
  for (int32_t d = 0; d < shape.ndim && x != NEAP_NONE; d++) {
    int64_t cut[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
      const int32_t at = 2 * (shape.ndim - 1 - d) + side;
      if (amount(&o[0], shape.ndim, d, side) >= 0) continue;
      if (o[0].v.list[at] < -shape.dim[d])
        return neap__graph_fail(g, op, NEAP_RANGE, "`pad` cuts %lld off dimension %d of %lld entries",
                                (long long)-(o[0].v.list[at] + 1) + 1, d + 1, (long long)shape.dim[d]);
      cut[side] = -o[0].v.list[at];
      o[0].v.list[at] = 0;
    }
    if (cut[0] + cut[1] > shape.dim[d])
      return neap__graph_fail(g, op, NEAP_RANGE, "`pad` cuts %lld off dimension %d of %lld entries",
                              (long long)cut[0] + cut[1], d + 1, (long long)shape.dim[d]);
    if (cut[0] || cut[1]) x = neap__narrow_to(g, x, d, cut[0], shape.dim[d] - cut[0] - cut[1]);
  }
  return x == NEAP_NONE ? x : neap__build(g, &neap__op_pad_value, &x, 1, o);
}

/* The entries beside x at one side of dimension d. */
static neap_id border(neap_graph *g, neap_id x, int32_t d, int64_t n, int64_t mode, bool after) {
  neap_shape s = neap__desc_at(g, x).shape;
  const int64_t size = s.dim[d];
  if (mode == CIRCULAR) return neap__narrow_to(g, x, d, after ? 0 : size - n, n);
  if (mode == REFLECT) {
    const neap_id v = neap__narrow_to(g, x, d, after ? size - 1 - n : 1, n);
    return neap__build(g, &neap__op_reverse, &v, 1, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(d)});
  }
  const neap_id edge = neap__narrow_to(g, x, d, after ? size - 1 : 0, 1);
  s.dim[d] = n;
  return neap__build(g, &neap__op_expand, &edge, 1, (neap_opt[NEAP_MAX_OPTS]){neap__opt_list(s.dim, s.ndim)});
}

static neap_id surround(neap_graph *g, neap_id x, int32_t d, const int64_t *n, int64_t mode) {
  neap_id parts[3];
  uint32_t count = 0;
  if (n[0]) parts[count++] = border(g, x, d, n[0], mode, false);
  parts[count++] = x;
  if (n[1]) parts[count++] = border(g, x, d, n[1], mode, true);
  return count == 1 ? x : neap__build(g, &neap__op_cat, parts, count, (neap_opt[NEAP_MAX_OPTS]){NEAP_INT(d)});
}

static neap_id mirrored(neap_graph *g, const neap_op *op, neap_id x, const neap_opt *opt) {
  static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
  const neap_shape shape = neap__desc_at(g, x).shape;
  const int64_t mode = opt[MODE].v.i;
  if (opt[VALUE].set)
    return neap__graph_fail(g, op, NEAP_INVALID, "`value` is for `mode` constant, not %s", names[mode]);
  for (int32_t d = shape.ndim - 1; d >= 0 && x != NEAP_NONE; d--) {
    const int64_t size = shape.dim[d], most = mode == REFLECT    ? size - 1
                                              : mode == CIRCULAR ? size
                                              : size             ? INT32_MAX
                                                                 : 0;
    const int64_t n[2] = {amount(&opt[PAD], shape.ndim, d, 0), amount(&opt[PAD], shape.ndim, d, 1)};
    for (int side = 0; side < 2; side++)
      if (n[side] < 0 || (n[side] > 0 && n[side] > most))
        return neap__graph_fail(g, op, NEAP_RANGE,
                                "`pad` has the amount %lld, but `mode` %s takes 0 to %lld along %lld entries",
                                (long long)n[side], names[mode], (long long)(most > 0 ? most : 0), (long long)size);
    x = surround(g, x, d, n, mode);
  }
  return x;
}

static neap_id pad(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int32_t ndim = neap__desc_at(g, in[0]).shape.ndim;
  (void)n_in;
  if (opt[PAD].n % 2 || opt[PAD].n > 2 * ndim)
    return neap__graph_fail(g, op, NEAP_INVALID,
                            "`pad` has %d amounts, expected a pair for each of up to %d dimensions", (int)opt[PAD].n,
                            (int)ndim);
  return opt[MODE].v.i == CONSTANT ? constant(g, op, in[0], opt) : mirrored(g, op, in[0], opt);
}

static const char *const pad_samples[] = {"f32[2,3]; pad=1,2",
                                          "f32[1,2,3,4]; pad=1,-1,2,2; value=3",
                                          "f32[2,3]; pad=-1,-2",
                                          "f32[2,5]; pad=2,1; mode=reflect",
                                          "f32[1,2,3,4]; pad=1,2,2,1; mode=reflect",
                                          "f32[2,3]; pad=2,5; mode=replicate",
                                          "f32[2,3]; pad=3,1,0,1; mode=circular",
                                          "i64[3]; pad=0,2; value=7",
                                          "f32[0,3]; pad=1,1; mode=reflect",
                                          "f64[2,3]; pad=1,1,1,1; mode=circular",
                                          NULL};

const neap_op neap__op_pad = {
    .name = "pad",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .opts = {{.name = "pad",
              .type = NEAP_OPT_INTS,
              .required = true,
              .doc = "A pair for each of the last dimensions, the last one's first."},
             {.name = "mode",
              .type = NEAP_OPT_CHOICE,
              .def = CONSTANT,
              .has_default = true,
              .choices = "constant|reflect|replicate|circular",
              .doc = "What the new entries are."},
             {.name = "value", .type = NEAP_OPT_FLOAT, .doc = "What is added by `mode` constant; 0 when left out."}},
    .expand = pad,
    .topic = NEAP_TOPIC_JOIN,
    .args = "input [...] -> [...]",
    .samples = pad_samples,
    .doc =
        "More entries around the input: amounts before and after, the last dimension's pair first. They are `value` (0 "
        "when left out; negative amounts cut), or by `mode` those beside the edge mirrored, the edge repeated, or "
        "those from the other end.",
    .example = "local x = neap.tensor {{1, 2, 3}}\n"
               "print(x:pad({1, 2}, {value = 9}))  --> tensor fp32 [1, 6] {{9, 1, 2, 3, 9, 9}}\n"
               "print(x:pad({1, 1}, \"reflect\"))  --> tensor fp32 [1, 5] {{2, 1, 2, 3, 2}}",
};
