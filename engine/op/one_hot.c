#include "op/index.h"

static neap_status infer(neap_infer *x) {
  char text[96];
  neap_status s = neap__need_index(x, 0);
  if (s != NEAP_OK) return s;
  x->out[0] = x->in[0];
  neap_shape *shape = &x->out[0].shape;
  if (shape->ndim == NEAP_MAX_DIMS)
    return neap__fail(x->err, NEAP_SHAPE, "shape %s leaves no room for the classes",
                      neap__shape_text(&x->in[0].shape, text, sizeof text));
  shape->dim[shape->ndim++] = x->opt[0].v.i;
  return NEAP_OK;
}

static const char *const samples[] = {"i64[4]:below=5; num_classes=5", "i64[2,3]:below=4; num_classes=6",
                                      "i64[]:below=3; num_classes=3", "i64[0]; num_classes=2", NULL};

const neap_op neap__op_one_hot = {
    .name = "one_hot",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .nondiff = true,
    .precision = NEAP_PREC_FOLLOW,
    .opts = {{.name = "num_classes",
              .type = NEAP_OPT_INT,
              .required = true,
              .min = 1,
              .max = 1e15,
              .doc = "Number of classes; every class is less."}},
    .infer = infer,
    .batch = neap__batch_same,
    .samples = samples,
    .doc = "A new last dimension of `num_classes` entries, 1 at the 0-based class and 0 elsewhere.",
    .example = "print(neap.one_hot(neap.tensor({2, 0}, {dtype = \"int64\"}), 3))  --> tensor int64 [2, 3] {{0, 0, 1}, "
               "{1, 0, 0}}",
    .topic = NEAP_TOPIC_INDEX,
    .args = "class [...] int64 -> [..., num_classes] int64",
};
