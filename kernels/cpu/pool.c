/* Max and average pooling with their gradients, in both layouts. Work is cut into strips of windows that lie
 * side by side in memory: channels of one place (channels-last) or places of one row. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define STRIP 64

typedef struct pool {
  neap_cpu_kernel head;
  int64_t n, c, h, w, oh, ow; /* x: (n, c, h, w), y: (n, c, oh, ow) */
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool last;         /* channels innermost */
  bool include;      /* averages count padding */
  bool wide;         /* fp64 */
  bool narrow_index; /* uint8 rather than int32 */
  int32_t taps;      /* elements of a window */
  int64_t units;     /* samples (channels-last) or planes */
  int64_t per;       /* units a task */
} pool;

typedef struct strip {
  int64_t count, step; /* windows, and elements of x between those of neighbours */
  int64_t oy, ox;      /* the first window's place */
  int64_t in, out;     /* where its unit of x, and it in y, begins */
} strip;

/* Windows [from, to) of the strip have the tap in x, the first of them at element `in`. */
typedef struct tap {
  int64_t in, from, to;
} tap;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static tap tap_of(const pool *p, const strip *s, int32_t t) {
  const int64_t y = s->oy * p->stride[0] - p->padding[0] + t / p->kernel[1] * p->dilation[0];
  const int64_t x = s->ox * p->stride[1] - p->padding[1] + t % p->kernel[1] * p->dilation[1];
  tap k = {0, 0, 0};
  if (y < 0 || y >= p->h) return k;
  if (p->last) {
    if (x < 0 || x >= p->w) return k;
    return (tap){s->in + (y * p->w + x) * p->c, 0, s->count};
  }
  if (x < 0) k.from = ceil_div(-x, p->stride[1]);
  k.to = x < p->w ? (p->w - 1 - x) / p->stride[1] + 1 : 0;
  if (k.to > s->count) k.to = s->count;
  if (k.from >= k.to) return (tap){0, 0, 0};
  k.in = s->in + y * p->w + x + k.from * p->stride[1];
  return k;
}

/* What window i of the strip divides by. */
static int64_t elements(const pool *p, const strip *s, int64_t i) {
  const int64_t at[2] = {s->oy, s->ox + i}, size[2] = {p->h, p->w};
  int64_t count = 1;
  for (int a = 0; a < 2; a++) {
    int64_t begin = at[a] * p->stride[a] - p->padding[a], end = begin + p->kernel[a];
    if (end > size[a] + p->padding[a]) end = size[a] + p->padding[a];
    if (!p->include && begin < 0) begin = 0;
    if (!p->include && end > size[a]) end = size[a];
    count *= end - begin;
  }
  return count;
}

#define T float
#define FN(name) name##_f32
#include "kernels/cpu/pool_strip.h"
#define T double
#define FN(name) name##_f64
#include "kernels/cpu/pool_strip.h"

/* --- walking -------------------------------------------------------------------------------------------- */

typedef void (*strip_fn)(const pool *p, const strip *s, const neap_launch *l);

static void each_strip(const pool *p, int64_t unit, strip_fn fn, const neap_launch *l) {
  const int64_t x_unit = p->h * p->w * (p->last ? p->c : 1), y_unit = p->oh * p->ow * (p->last ? p->c : 1);
  const int64_t along = p->last ? p->c : p->ow;
  for (int64_t oy = 0; oy < p->oh; oy++)
    for (int64_t ox = 0; ox < (p->last ? p->ow : 1); ox++)
      for (int64_t i = 0; i < along; i += STRIP) {
        strip s = {.count = along - i < STRIP ? along - i : STRIP, .oy = oy};
        s.step = p->last ? 1 : p->stride[1];
        s.ox = p->last ? ox : i;
        s.in = unit * x_unit + (p->last ? i : 0);
        s.out = unit * y_unit + (p->last ? (oy * p->ow + ox) * p->c : oy * p->ow) + i;
        fn(p, &s, l);
      }
}

static void run(const neap_cpu_kernel *head, const neap_launch *l, uint32_t task, strip_fn fn, bool gradient) {
  const pool *p = (const pool *)head;
  const int64_t first = (int64_t)task * p->per, last = first + p->per < p->units ? first + p->per : p->units;
  if (gradient) {
    const size_t unit = (size_t)(p->h * p->w * (p->last ? p->c : 1)) * (p->wide ? sizeof(double) : sizeof(float));
    memset((char *)l->out[0] + (size_t)first * unit, 0, (size_t)(last - first) * unit);
  }
  for (int64_t u = first; u < last; u++) each_strip(p, u, fn, l);
}

/* --- the kernels ---------------------------------------------------------------------------------------- */

static void max_strip(const pool *p, const strip *s, const neap_launch *l) {
  int32_t at[STRIP];
  if (p->wide)
    max_strip_f64(p, s, l->in[0], l->out[0], at);
  else
    max_strip_f32(p, s, l->in[0], l->out[0], at);
  if (p->narrow_index)
    for (int64_t i = 0; i < s->count; i++) ((uint8_t *)l->out[1])[s->out + i] = (uint8_t)at[i];
  else
    memcpy((int32_t *)l->out[1] + s->out, at, (size_t)s->count * sizeof *at);
}

/* The numbers, which input 1 gives, of the strip's elements in their windows. */
static void numbers(const pool *p, const strip *s, const neap_launch *l, int32_t *at) {
  if (p->narrow_index)
    for (int64_t i = 0; i < s->count; i++) at[i] = ((const uint8_t *)l->in[1])[s->out + i];
  else
    memcpy(at, (const int32_t *)l->in[1] + s->out, (size_t)s->count * sizeof *at);
}

static void max_at_strip(const pool *p, const strip *s, const neap_launch *l) {
  int32_t at[STRIP];
  numbers(p, s, l, at);
  if (p->wide)
    max_at_strip_f64(p, s, l->in[0], at, l->out[0]);
  else
    max_at_strip_f32(p, s, l->in[0], at, l->out[0]);
}

static void max_grad_strip(const pool *p, const strip *s, const neap_launch *l) {
  int32_t at[STRIP];
  numbers(p, s, l, at);
  if (p->wide)
    max_grad_strip_f64(p, s, l->in[0], at, l->out[0]);
  else
    max_grad_strip_f32(p, s, l->in[0], at, l->out[0]);
}

static void avg_strip(const pool *p, const strip *s, const neap_launch *l) {
  if (p->wide)
    avg_strip_f64(p, s, l->in[0], l->out[0]);
  else
    avg_strip_f32(p, s, l->in[0], l->out[0]);
}

static void avg_grad_strip(const pool *p, const strip *s, const neap_launch *l) {
  if (p->wide)
    avg_grad_strip_f64(p, s, l->in[0], l->out[0]);
  else
    avg_grad_strip_f32(p, s, l->in[0], l->out[0]);
}

#define DEFINE_RUN(name, gradient)                                                                      \
  static void run_##name(const neap_cpu_kernel *k, const neap_launch *l, uint32_t phase, uint32_t task, \
                         uint32_t thread) {                                                             \
    (void)phase, (void)thread;                                                                          \
    run(k, l, task, name##_strip, gradient);                                                            \
  }
DEFINE_RUN(max, false)
DEFINE_RUN(max_at, false)
DEFINE_RUN(max_grad, true)
DEFINE_RUN(avg, false)
DEFINE_RUN(avg_grad, true)

/* --- preparing ------------------------------------------------------------------------------------------ */

/* Options' positions in the ops; the last one is each op's own. */
enum { KERNEL, STRIDE, PADDING, CEIL, MAX_DILATION, AVG_INCLUDE = MAX_DILATION };

/* The entries of a window, from the first, that can lie in the padded input: with ceil_mode a window may be larger. */
static int64_t reached(int64_t kernel, int64_t size, int64_t padding, int64_t dilation) {
  const int64_t most = size + 2 * padding > 0 ? (size + 2 * padding - 1) / dilation + 1 : 1;
  return kernel < most ? kernel : most;
}

static void describe(pool *p, const neap_operand *x, const neap_operand *y, const neap_opt *opt, bool max) {
  const int64_t *xd = x->desc.shape.dim, *yd = y->desc.shape.dim;
  p->n = xd[0], p->c = xd[1], p->h = xd[2], p->w = xd[3], p->oh = yd[2], p->ow = yd[3];
  p->wide = x->desc.dtype == NEAP_F64;
  p->last = x->layout == NEAP_LAYOUT_LAST;
  p->include = !max && opt[AVG_INCLUDE].v.i;
  for (int i = 0; i < 2; i++) {
    p->stride[i] = opt[STRIDE].v.list[i];
    p->padding[i] = opt[PADDING].v.list[i];
    p->dilation[i] = max ? opt[MAX_DILATION].v.list[i] : 1;
    p->kernel[i] = reached(opt[KERNEL].v.list[i], xd[2 + i], p->padding[i], p->dilation[i]);
  }
  p->taps = (int32_t)(p->kernel[0] * p->kernel[1]);
  p->units = p->last ? p->n : p->n * p->c;
}

/* x and y in the roles they have in the op itself, whose gradient this may be. */
static neap_status prepare(neap_cpu *cpu, const neap_sig *s, const neap_operand *x, const neap_operand *y, bool max,
                           neap_dtype index, neap_cpu_run fn, neap_cpu_kernel **out, neap_error *err) {
  pool *p;
  neap_status status;
  *out = NULL;
  if (x->desc.dtype != NEAP_F32 && x->desc.dtype != NEAP_F64) return neap__cpu_unsupported(s, err);
  status = neap__cpu_kernel_new(cpu, s, sizeof *p, fn, 0, out, err);
  if (status) return status;
  p = (pool *)*out;
  describe(p, x, y, s->opt, max);
  p->narrow_index = index == NEAP_U8;
  const double units = p->units > 0 ? (double)p->units : 1;
  const double outs = (double)p->n * (double)p->c * (double)p->oh * (double)p->ow / units;
  const double ins = (double)p->n * (double)p->c * (double)p->h * (double)p->w / units;
  const double seconds = (outs * p->taps * 2 + ins) * 2e-10;
  p->head.tasks[0] = neap__cpu_split(p->units, seconds, &p->per);
  p->head.base.seconds = seconds * (double)p->units;
  return NEAP_OK;
}

static neap_status prepare_max(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->in[0], &s->out[0], true, s->out[1].desc.dtype, run_max, out, err);
}
static neap_status prepare_max_grad(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->out[0], &s->in[0], true, s->in[1].desc.dtype, run_max_grad, out, err);
}
static neap_status prepare_max_at(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->in[0], &s->out[0], true, s->in[1].desc.dtype, run_max_at, out, err);
}
static neap_status prepare_avg(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->in[0], &s->out[0], false, NEAP_I32, run_avg, out, err);
}
static neap_status prepare_avg_grad(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  return prepare(cpu, s, &s->out[0], &s->in[0], false, NEAP_I32, run_avg_grad, out, err);
}

/* Everything in the layout that comes in: the index's when there is one, since it has no other maker. */
static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  const neap_layout layout = s->in[s->n_in - 1].layout;
  (void)cpu;
  for (uint32_t i = 0; i < s->n_in; i++) in[i] = layout;
  for (uint32_t o = 0; o < s->n_out; o++) out[o] = layout;
}

NEAP_CPU_KERNEL(max_pool2d) = {.prepare = prepare_max, .layouts = layouts};
NEAP_CPU_KERNEL(max_pool2d_grad) = {.prepare = prepare_max_grad, .layouts = layouts};
NEAP_CPU_KERNEL(max_pool2d_at) = {.prepare = prepare_max_at, .layouts = layouts};
NEAP_CPU_KERNEL(avg_pool2d) = {.prepare = prepare_avg, .layouts = layouts};
NEAP_CPU_KERNEL(avg_pool2d_grad) = {.prepare = prepare_avg_grad, .layouts = layouts};
