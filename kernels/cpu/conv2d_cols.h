/* The columns of an image and back, for one element type: included with T and FN(name).
 *
 * cols: (c / groups * kh * kw, oh * ow) of one group of one sample. Images are read and written through
 * strides, so both layouts are served. */

/* Where a group's image lies: element (c, y, x) is at c * channel + (y * w + x) * pixel. */
typedef struct FN(image) {
  T *at;
  int64_t channel, pixel;
} FN(image);

static FN(image) FN(group_image)(const void *sample, const neap_cpu_conv *g, int64_t group) {
  const int64_t channels = g->c / g->groups;
  T *at = (T *)(uintptr_t)sample;
  if (g->x_last) return (FN(image)){at + group * channels, 1, g->c};
  return (FN(image)){at + group * channels * g->h * g->w, g->h * g->w, 1};
}

/* Outputs [*from, *to) whose window meets the input at tap `at` along an axis. */
static void FN(inside)(int64_t at, int64_t size, int64_t places, int64_t stride, int64_t *from, int64_t *to) {
  *from = at >= 0 ? 0 : (-at + stride - 1) / stride;
  *to = at >= size ? 0 : (size - 1 - at) / stride + 1;
  if (*to > places) *to = places;
  if (*from > *to) *from = *to;
}

static void FN(fill_row)(const neap_cpu_conv *g, const T *in, int64_t pixel, int64_t at, T *row) {
  const int64_t stride = g->stride[1];
  int64_t from, to;
  FN(inside)(at, g->w, g->ow, stride, &from, &to);
  for (int64_t i = 0; i < from; i++) row[i] = 0;
  for (int64_t i = from; i < to; i++) row[i] = in[(i * stride + at) * pixel];
  for (int64_t i = to; i < g->ow; i++) row[i] = 0;
}

static void FN(to_cols)(const neap_cpu_conv *g, FN(image) x, T *cols) {
  const int64_t channels = g->c / g->groups;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t ky = 0; ky < g->kernel[0]; ky++)
      for (int64_t kx = 0; kx < g->kernel[1]; kx++)
        for (int64_t oy = 0; oy < g->oh; oy++, cols += g->ow) {
          const int64_t y = oy * g->stride[0] - g->padding[0] + ky * g->dilation[0];
          const int64_t at = kx * g->dilation[1] - g->padding[1];
          if (y < 0 || y >= g->h) {
            memset(cols, 0, (size_t)g->ow * sizeof(T));
          } else {
            const T *row = x.at + c * x.channel + y * g->w * x.pixel;
            FN(fill_row)(g, row, x.pixel, at, cols);
          }
        }
}

static void FN(from_cols)(const neap_cpu_conv *g, const T *cols, FN(image) x) {
  const int64_t channels = g->c / g->groups, stride = g->stride[1];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t ky = 0; ky < g->kernel[0]; ky++)
      for (int64_t kx = 0; kx < g->kernel[1]; kx++)
        for (int64_t oy = 0; oy < g->oh; oy++, cols += g->ow) {
          const int64_t y = oy * g->stride[0] - g->padding[0] + ky * g->dilation[0];
          const int64_t at = kx * g->dilation[1] - g->padding[1];
          int64_t from, to;
          if (y < 0 || y >= g->h) continue;
          T *row = x.at + c * x.channel + y * g->w * x.pixel;
          FN(inside)(at, g->w, g->ow, stride, &from, &to);
          for (int64_t i = from; i < to; i++) row[(i * stride + at) * x.pixel] += cols[i];
        }
}

/* y (o, places), one row a channel, plus its bias. */
static void FN(add_bias)(T *y, const T *bias, int64_t channels, int64_t places) {
  for (int64_t o = 0; o < channels; o++)
    for (int64_t p = 0; p < places; p++) y[o * places + p] += bias[o];
}

/* db[o] (+)= the sum of d over the sample's places. */
static void FN(sum_places)(const neap_cpu_conv *g, const T *d, T *db, bool add) {
  const int64_t places = g->oh * g->ow, channel = g->y_last ? 1 : places, place = g->y_last ? g->o : 1;
  for (int64_t o = 0; o < g->o; o++) {
    T sum = 0;
    for (int64_t p = 0; p < places; p++) sum += d[o * channel + p * place];
    db[o] = add ? db[o] + sum : sum;
  }
}

#undef T
#undef FN
