#include "op/build.h"

enum { SUM, MEAN, MAX };

/* index: (N, L), table: (R, W)[, weights: (N, L)] -> (N, W) */
static neap_id expand(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_desc index = neap__desc_at(g, in[0]), table = neap__desc_at(g, in[1]);
  const int64_t along = 1;
  char it[96], wt[96];
  if (index.shape.ndim != 2)
    return neap__graph_fail(g, op, NEAP_SHAPE, "indices of shape %s, expected [bags, entries of a bag]",
                            neap__shape_text(&index.shape, it, sizeof it));
  if (!neap__dtype_is_float(table.dtype))
    return neap__graph_fail(g, op, NEAP_DTYPE, "the table is %s, expected a floating-point dtype",
                            neap__dtype_name(table.dtype));
  neap_id rows = neap__build2(g, &neap__op_embedding, in[0], in[1]);
  if (rows == NEAP_NONE) return rows;
  if (n_in > 2) {
    const neap_desc w = neap__desc_at(g, in[2]);
    if (opt[0].v.i != SUM) return neap__graph_fail(g, op, NEAP_INVALID, "weights (input 3) are for `mode` sum");
    if (!neap__shape_equal(&w.shape, &index.shape) || w.dtype != table.dtype)
      return neap__graph_fail(g, op, w.dtype == table.dtype ? NEAP_SHAPE : NEAP_DTYPE,
                              "weights are %s %s, expected %s %s like the indices", neap__dtype_name(w.dtype),
                              neap__shape_text(&w.shape, wt, sizeof wt), neap__dtype_name(table.dtype),
                              neap__shape_text(&index.shape, it, sizeof it));
    rows = neap__build2(g, &neap__op_mul, rows, neap__insert_dim(g, in[2], 2));
  }
  const int64_t entries = index.shape.dim[1];
  if (entries > 0 && opt[0].v.i == MAX) return neap__reduce(g, &neap__op_max, rows, &along, 1, false);
  const neap_id sum = neap__reduce(g, &neap__op_sum, rows, &along, 1, false);
  return entries > 0 && opt[0].v.i == MEAN ? neap__scale(g, sum, 1.0 / (double)entries) : sum;
}

static const char *const samples[] = {"i64[2,3]:below=5 f32[5,4]",
                                      "i64[2,3]:below=5 f32[5,4]; mode=sum",
                                      "i64[2,3]:below=5 f32[5,4] f32[2,3]; mode=sum",
                                      "i64[2,3]:below=5 f32[5,4]:distinct; mode=max",
                                      "i64[2,0] f32[5,4]",
                                      "i64[2,3]:below=5 f64[5,2]",
                                      NULL};

const neap_op neap__op_embedding_bag = {
    .name = "embedding_bag",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .opts = {{.name = "mode",
              .type = NEAP_OPT_CHOICE,
              .def = MEAN,
              .has_default = true,
              .choices = "sum|mean|max",
              .doc = "What a bag gives."}},
    .expand = expand,
    .topic = NEAP_TOPIC_INDEX,
    .args = "index [N, L] int64, weight [R, W], per_sample_weights? [N, L] -> [N, W]",
    .samples = samples,
    .doc = "Sums, means or largest values of the table's rows at the (0-based) indices [bags, entries]; an empty bag "
           "gives 0, "
           "and a third input weighs the entries of a sum.",
    .example =
        "local words, table_of = neap.tensor({{0, 2}}, {dtype = \"int64\"}), neap.tensor {{1, 2}, {3, 4}, {5, 6}}\n"
        "print(neap.embedding_bag(words, table_of))  --> tensor fp32 [1, 2] {{3, 4}}",
};
