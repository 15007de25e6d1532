/* Places of the elements in order along a dimension: stable merging of lines of keys. */
#include <string.h>

#include "kernels/cpu/cpu.h"

/* An element as a number whose order is the one asked for. */
typedef struct item {
  uint64_t key;
  int64_t place;
} item;

typedef uint64_t (*key_fn)(const void *x, int64_t i);

typedef struct kernel {
  neap_cpu_kernel head;
  key_fn key;
  uint64_t flip; /* all ones turns the order around and leaves equal keys equal */
  int64_t r, inner;
  int64_t units, per;
  size_t space; /* workspace bytes a thread */
} kernel;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The bits of a float rise with it once negative ones are turned around; NaN comes last, and both zeros and all
 * NaNs are one. */
static uint64_t key_f64(const void *x, int64_t i) {
  double v = ((const double *)x)[i] + 0.0;
  uint64_t bits;
  if (v != v) return UINT64_MAX;
  memcpy(&bits, &v, sizeof bits);
  return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}
static uint64_t key_f32(const void *x, int64_t i) {
  double v = (double)((const float *)x)[i];
  return key_f64(&v, 0);
}
static uint64_t key_i64(const void *x, int64_t i) { return (uint64_t)((const int64_t *)x)[i] ^ UINT64_C(1) << 63; }
static uint64_t key_i32(const void *x, int64_t i) {
  return (uint64_t)((int64_t)((const int32_t *)x)[i] + INT32_MAX + 1);
}
static uint64_t key_u8(const void *x, int64_t i) { return ((const uint8_t *)x)[i]; }

/* Runs of up to RUN are sorted in place, then merged. */
enum { RUN = 16 };

static void sort_run(item *a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    item v = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1].key > v.key; j--) a[j] = a[j - 1];
    a[j] = v;
  }
}

static void merge(const item *a, int64_t na, const item *b, int64_t nb, item *to) {
  while (na > 0 && nb > 0) {
    bool second = b->key < a->key;
    *to++ = second ? *b : *a;
    b += second, nb -= second;
    a += !second, na -= !second;
  }
  memcpy(to, na > 0 ? a : b, (size_t)(na + nb) * sizeof *to);
}

/* The sorted items are in a or in b; returns which. */
static const item *sort_line(item *a, item *b, int64_t n) {
  for (int64_t i = 0; i < n; i += RUN) sort_run(a + i, smaller(RUN, n - i));
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      int64_t na = smaller(width, n - i), nb = smaller(width, n - i - na);
      merge(a + i, na, a + i + na, nb, b + i);
    }
    item *t = a;
    a = b;
    b = t;
  }
  return a;
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  item *a = (item *)(void *)((char *)l->workspace + thread * k->space), *b = a + k->r;
  (void)phase;
  int64_t first = task * k->per, end = smaller(first + k->per, k->units);
  for (int64_t u = first; u < end; u++) {
    int64_t at = u / k->inner * k->r * k->inner + u % k->inner;
    for (int64_t i = 0; i < k->r; i++) a[i] = (item){k->key(l->in[0], at + i * k->inner) ^ k->flip, i};
    const item *sorted = sort_line(a, b, k->r);
    for (int64_t i = 0; i < k->r; i++) ((int64_t *)l->out[0])[at + i * k->inner] = sorted[i].place;
  }
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  static const key_fn keys[] = {key_f32, key_f64, key_i64, key_i32, key_u8, key_u8};
  const neap_desc *d = &s->in[0].desc;
  if (d->dtype > NEAP_BOOL) return neap__cpu_unsupported(s, err);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, 0, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  int64_t dim = s->opt[0].v.i;
  k->units = k->r = k->inner = 1;
  for (int32_t i = 0; i < d->shape.ndim; i++) {
    if (i == dim)
      k->r = d->shape.dim[i];
    else
      k->units *= d->shape.dim[i];
    if (i > dim) k->inner *= d->shape.dim[i];
  }
  k->key = keys[d->dtype];
  k->flip = s->opt[1].v.i ? UINT64_MAX : 0;
  k->space = (size_t)k->r * 2 * sizeof(item);
  if (k->r == 0) k->units = 0;
  double depth = 1;
  for (int64_t w = RUN; w < k->r; w *= 2) depth++;
  double unit = (double)k->r * (1e-8 + 6e-9 * depth);
  k->head.tasks[0] = neap__cpu_split(k->units, unit, &k->per);
  k->head.base.workspace = k->units > 0 ? k->space * cpu->width : 0;
  k->head.base.seconds = (double)k->units * unit;
  return NEAP_OK;
}

NEAP_CPU_KERNEL(argsort) = {.prepare = prepare};
