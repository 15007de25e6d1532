/* Channels and pixels rearranged. */
#include "op/build.h"

static bool need_images(neap_graph *g, const neap_op *op, neap_id x, neap_shape *s) {
  char text[96];
  *s = neap__desc_at(g, x).shape;
  if (s->ndim == 4) return true;
  neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected 4 dimensions (samples, channels, height, width)",
                   neap__shape_text(s, text, sizeof text));
  return false;
}

/* (N, C r r, H, W) -> (N, C, H r, W r) */
static neap_id shuffle(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int64_t r = opt[0].v.i;
  neap_shape s;
  (void)n_in;
  if (!need_images(g, op, in[0], &s)) return NEAP_NONE;
  if (s.dim[1] % (r * r) != 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "%lld channels are no multiple of `upscale_factor` %lld squared",
                            (long long)s.dim[1], (long long)r);
  const int64_t c = s.dim[1] / (r * r);
  neap_id x = neap__reshape_to(g, in[0], &(neap_shape){6, {s.dim[0], c, r, r, s.dim[2], s.dim[3]}});
  x = neap__permute_by(g, x, (const int64_t[]){0, 1, 4, 2, 5, 3}, 6);
  return neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], c, s.dim[2] * r, s.dim[3] * r}});
}

static neap_id unshuffle(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const int64_t r = opt[0].v.i;
  neap_shape s;
  (void)n_in;
  if (!need_images(g, op, in[0], &s)) return NEAP_NONE;
  if (s.dim[2] % r != 0 || s.dim[3] % r != 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "images of %lld x %lld are no multiple of `downscale_factor` %lld",
                            (long long)s.dim[2], (long long)s.dim[3], (long long)r);
  neap_id x = neap__reshape_to(g, in[0], &(neap_shape){6, {s.dim[0], s.dim[1], s.dim[2] / r, r, s.dim[3] / r, r}});
  x = neap__permute_by(g, x, (const int64_t[]){0, 1, 3, 5, 2, 4}, 6);
  return neap__reshape_to(g, x, &(neap_shape){4, {s.dim[0], s.dim[1] * r * r, s.dim[2] / r, s.dim[3] / r}});
}

/* (N, groups, C / groups, ...) with the two exchanged */
static neap_id channels(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  const neap_shape s = neap__desc_at(g, in[0]).shape;
  const int64_t groups = opt[0].v.i;
  neap_shape split = {4, {1, groups, 1, 1}};
  char text[96];
  (void)n_in;
  if (s.ndim < 2 || s.dim[1] % groups != 0)
    return neap__graph_fail(g, op, NEAP_SHAPE, "input %s, expected channels in dimension 2 that `groups` %lld divides",
                            neap__shape_text(&s, text, sizeof text), (long long)groups);
  split.dim[0] = s.dim[0];
  split.dim[2] = s.dim[1] / groups;
  for (int32_t d = 2; d < s.ndim; d++) split.dim[3] *= s.dim[d];
  const neap_id x = neap__permute_by(g, neap__reshape_to(g, in[0], &split), (const int64_t[]){0, 2, 1, 3}, 4);
  return neap__reshape_to(g, x, &s);
}

static const char *const up_samples[] = {"f32[2,8,2,3]; upscale_factor=2", "f32[1,9,1,2]; upscale_factor=3",
                                         "f32[0,4,2,2]; upscale_factor=2", "i64[1,4,2,2]; upscale_factor=2", NULL};
static const char *const down_samples[] = {"f32[2,2,4,6]; downscale_factor=2", "f32[1,1,3,6]; downscale_factor=3",
                                           "f32[0,1,2,2]; downscale_factor=2", "i64[1,1,2,2]; downscale_factor=1",
                                           NULL};
static const char *const channel_samples[] = {"f32[2,6,2,3]; groups=3", "f32[2,4]; groups=2", "f32[1,4,3]; groups=4",
                                              "f32[0,2,1]; groups=2", NULL};

#define SHUFFLE(op_name, fn, option, what, cases, shapes, shown, text)                                         \
  {                                                                                                            \
    .name = op_name, .min_in = 1, .max_in = 1, .n_out = 1,                                                     \
    .opts = {{.name = option, .type = NEAP_OPT_INT, .required = true, .min = 1, .max = 1 << 15, .doc = what}}, \
    .expand = fn, .topic = NEAP_TOPIC_SHAPE, .args = shapes, .example = shown, .samples = cases, .doc = text   \
  }

const neap_op neap__op_pixel_shuffle = SHUFFLE(
    "pixel_shuffle", shuffle, "upscale_factor", "Pixels a side that each pixel becomes.", up_samples,
    "input [N, C r r, H, W] -> [N, C, H r, W r]",
    "local x = neap.tensor({1, 2, 3, 4}, {shape = {1, 4, 1, 1}})\n"
    "print(x:pixel_shuffle(2))  --> tensor fp32 [1, 1, 2, 2] {{{{1, 2}, {3, 4}}}}",
    "Images of `upscale_factor` times the height and width out of as many times squared channels (Shi et al. 2016).");
const neap_op neap__op_pixel_unshuffle =
    SHUFFLE("pixel_unshuffle", unshuffle, "downscale_factor", "Pixels a side that become one.", down_samples,
            "input [N, C, H r, W r] -> [N, C r r, H, W]",
            "print(table.concat(neap.ones(1, 3, 8, 8):pixel_unshuffle(2).shape, \" \"))  --> 1 12 4 4",
            "Squares of `downscale_factor` pixels a side as channels: pixel_shuffle undone.");
const neap_op neap__op_channel_shuffle =
    SHUFFLE("channel_shuffle", channels, "groups", "Parts that the channels are cut into.", channel_samples,
            "input [N, C, ...] -> [N, C, ...]",
            "print(neap.tensor {{1, 2, 3, 4}}:channel_shuffle(2))  --> tensor fp32 [1, 4] {{1, 3, 2, 4}}",
            "Channels (dimension 2) of `groups` groups in turn (Zhang et al. 2018).");
