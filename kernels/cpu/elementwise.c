/* The kernel of every row of elementwise.def: broadcasting, mixed dtypes and tasks around the rows' loops.
 *
 * After collapsing, each dimension is one along which an input either moves densely or stands still, so a
 * row's loop only needs steps of 1 and 0. What does not fit (another dtype, short rows) is gathered into
 * chunks on the stack first. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/elementwise.h"

enum { MAX_IN = 3, CHUNK = 512, SHORT_ROW = 96, BLOCK = 64 };

typedef struct operand {
  size_t size;              /* bytes of an element as stored */
  size_t ready;             /* bytes of an element as computed with */
  neap_cpu_convert convert; /* to the dtype computed in; NULL: as it is */
  bool dense;               /* element i of the output needs element i */
  bool single;              /* one element for all */
  bool periodic;            /* the last dimension over and over */
  int64_t stride[NEAP_MAX_DIMS];
} operand;

typedef struct kernel kernel;
struct kernel {
  neap_cpu_kernel head;
  void (*range)(const kernel *k, const neap_launch *l, int64_t begin, int64_t end);
  neap_cpu_row row;
  uint32_t n_in;
  operand in[MAX_IN];
  size_t out_size;
  int32_t ndim;
  int64_t dim[NEAP_MAX_DIMS];
  int64_t n, per;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* --- one task ------------------------------------------------------------------------------------------ */

typedef struct cursor {
  int64_t at[NEAP_MAX_DIMS]; /* place in the collapsed dimensions */
} cursor;

static cursor cursor_at(const kernel *k, int64_t place) {
  cursor c = {{0}};
  for (int32_t d = k->ndim; d-- > 0;) {
    c.at[d] = place % k->dim[d];
    place /= k->dim[d];
  }
  return c;
}

static void cursor_next_row(const kernel *k, cursor *c) {
  c->at[k->ndim - 1] = 0;
  for (int32_t d = k->ndim - 1; d-- > 0;) {
    if (++c->at[d] < k->dim[d]) return;
    c->at[d] = 0;
  }
}

static int64_t offset_of(const kernel *k, const operand *o, const cursor *c) {
  int64_t offset = 0;
  for (int32_t d = 0; d < k->ndim; d++) offset += c->at[d] * o->stride[d];
  return offset;
}

static void repeat(char *dst, const char *src, size_t size, int64_t n) {
  if (size == 4) {
    uint32_t v, *p = (uint32_t *)(void *)dst;
    memcpy(&v, src, sizeof v);
    for (int64_t i = 0; i < n; i++) p[i] = v;
  } else {
    for (int64_t i = 0; i < n; i++) memcpy(dst + (size_t)i * size, src, size);
  }
}

/* Elements [place, place + n) of the broadcast operand, densely. */
static void gather(const kernel *k, const operand *o, const char *src, int64_t place, int64_t n, char *dst) {
  cursor c = cursor_at(k, place);
  int64_t length = k->dim[k->ndim - 1];
  while (n > 0) {
    int64_t run = smaller(n, length - c.at[k->ndim - 1]);
    const char *from = src + (size_t)offset_of(k, o, &c) * o->size;
    if (o->stride[k->ndim - 1])
      memcpy(dst, from, (size_t)run * o->size);
    else
      repeat(dst, from, o->size, run);
    dst += (size_t)run * o->size;
    n -= run;
    cursor_next_row(k, &c);
  }
}

/* Whole rows go to the loop as they are. */
static void run_rows(const kernel *k, const neap_launch *l, int64_t begin, int64_t end) {
  cursor c = cursor_at(k, begin);
  int32_t last = k->ndim - 1;
  const void *in[MAX_IN];
  int64_t step[MAX_IN];
  for (uint32_t i = 0; i < k->n_in; i++) step[i] = k->in[i].stride[last];
  while (begin < end) {
    int64_t n = smaller(end - begin, k->dim[last] - c.at[last]);
    for (uint32_t i = 0; i < k->n_in; i++)
      in[i] = (const char *)l->in[i] + (size_t)offset_of(k, &k->in[i], &c) * k->in[i].size;
    k->row(n, in, step, (char *)l->out[0] + (size_t)begin * k->out_size);
    begin += n;
    cursor_next_row(k, &c);
  }
}

typedef union chunk {
  double align;
  char bytes[2 * CHUNK * 8];
} chunk;

/* Short repeated rows are laid out once a task, long enough to begin a chunk anywhere in them. */
static void lay_out(const kernel *k, const neap_launch *l, chunk *raw, chunk *ready) {
  for (uint32_t i = 0; i < k->n_in; i++) {
    const operand *o = &k->in[i];
    int64_t n = o->single ? 1 : o->periodic ? CHUNK + k->dim[k->ndim - 1] : 0;
    if (n == 0) continue; /* one element in all is dense as well */
    if (o->single)
      memcpy(raw[i].bytes, l->in[i], o->size);
    else
      for (int64_t at = 0; at < n; at += k->dim[k->ndim - 1])
        memcpy(raw[i].bytes + (size_t)at * o->size, l->in[i], (size_t)smaller(n - at, k->dim[k->ndim - 1]) * o->size);
    if (o->convert) o->convert(n, raw[i].bytes, ready[i].bytes);
  }
}

/* Where input i's elements [begin, begin + n) are, in the dtype computed in. */
static const void *chunk_of(const kernel *k, uint32_t i, const char *src, int64_t begin, int64_t n, chunk *raw,
                            chunk *ready) {
  const operand *o = &k->in[i];
  if (o->single || o->periodic) {
    const char *laid = o->convert ? ready[i].bytes : raw[i].bytes;
    return o->single ? laid : laid + (size_t)(begin % k->dim[k->ndim - 1]) * o->ready;
  }
  const char *dense = src + (size_t)begin * o->size;
  if (!o->dense) {
    gather(k, o, src, begin, n, raw[i].bytes);
    dense = raw[i].bytes;
  }
  if (!o->convert) return dense;
  o->convert(n, dense, ready[i].bytes);
  return ready[i].bytes;
}

static void run_chunks(const kernel *k, const neap_launch *l, int64_t begin, int64_t end) {
  chunk raw[MAX_IN], ready[MAX_IN];
  const void *in[MAX_IN];
  int64_t step[MAX_IN];
  lay_out(k, l, raw, ready);
  for (uint32_t i = 0; i < k->n_in; i++) step[i] = !k->in[i].single;
  for (int64_t n; begin < end; begin += n) {
    n = smaller(end - begin, CHUNK);
    for (uint32_t i = 0; i < k->n_in; i++) in[i] = chunk_of(k, i, l->in[i], begin, n, raw, ready);
    k->row(n, in, step, (char *)l->out[0] + (size_t)begin * k->out_size);
  }
}

static void run_flat(const kernel *k, const neap_launch *l, int64_t begin, int64_t end) {
  const void *in[MAX_IN];
  int64_t step[MAX_IN];
  for (uint32_t i = 0; i < k->n_in; i++) {
    step[i] = k->in[i].dense;
    in[i] = (const char *)l->in[i] + (k->in[i].dense ? (size_t)begin * k->in[i].size : 0);
  }
  k->row(end - begin, in, step, (char *)l->out[0] + (size_t)begin * k->out_size);
}

static void run(const neap_cpu_kernel *base, const neap_launch *l, uint32_t phase, uint32_t task, uint32_t thread) {
  const kernel *k = (const kernel *)base;
  (void)phase, (void)thread;
  int64_t begin = task * k->per;
  k->range(k, l, begin, smaller(begin + k->per, k->n));
}

/* --- preparation --------------------------------------------------------------------------------------- */

/* Steps of input i along the dimensions of the output: 0 where it is spread. */
static void broadcast_strides(const neap_shape *in, const neap_shape *out, int64_t *stride) {
  int64_t step = 1;
  int32_t lead = out->ndim - in->ndim;
  for (int32_t d = out->ndim; d-- > 0;) {
    int64_t size = d < lead ? 1 : in->dim[d - lead];
    stride[d] = size == 1 ? 0 : step;
    step *= size;
  }
}

/* Neighbouring dimensions become one when every input moves (or stands still) along both as along one. */
static void collapse(kernel *k, const neap_shape *shape) {
  k->ndim = 0;
  for (int32_t d = 0; d < shape->ndim; d++) {
    if (shape->dim[d] == 1) continue;
    int32_t last = k->ndim - 1;
    bool merge = last >= 0;
    for (uint32_t i = 0; i < k->n_in && merge; i++) merge = k->in[i].stride[last] == k->in[i].stride[d] * shape->dim[d];
    if (!merge) last = k->ndim++;
    k->dim[last] = merge ? k->dim[last] * shape->dim[d] : shape->dim[d];
    for (uint32_t i = 0; i < k->n_in; i++) k->in[i].stride[last] = k->in[i].stride[d];
  }
  if (k->ndim > 0) return;
  k->ndim = 1;
  k->dim[0] = 1;
  for (uint32_t i = 0; i < k->n_in; i++) k->in[i].stride[0] = 0;
}

static void classify(kernel *k, operand *o) {
  int64_t step = 1;
  o->dense = o->single = true;
  for (int32_t d = k->ndim; d-- > 0;) {
    if (o->stride[d] != step) o->dense = false;
    if (o->stride[d] != 0) o->single = false;
    step *= k->dim[d];
  }
  if (k->n == 1) o->dense = o->single = true;
  o->periodic = k->ndim == 2 && o->stride[0] == 0 && o->stride[1] == 1 && k->dim[1] <= CHUNK;
}

static void choose_loop(kernel *k) {
  bool flat = true, convert = false;
  for (uint32_t i = 0; i < k->n_in; i++) {
    flat = flat && (k->in[i].dense || k->in[i].single);
    convert = convert || k->in[i].convert != NULL;
  }
  k->range = convert ? run_chunks : flat ? run_flat : k->dim[k->ndim - 1] < SHORT_ROW ? run_chunks : run_rows;
}

/* The dtype computed in is the output's, or for comparisons what the inputs promote to. */
static neap_dtype compute_dtype(const neap_sig *s, uint32_t first) {
  neap_dtype in = s->in[first].desc.dtype, out = s->out[0].desc.dtype;
  for (uint32_t i = first + 1; i < s->n_in; i++) in = neap__dtype_promote(in, s->in[i].desc.dtype);
  neap_dtype t = out == NEAP_BOOL ? in : out;
  return t == NEAP_BOOL ? NEAP_U8 : t;
}

static bool same_storage(neap_dtype a, neap_dtype computed) {
  return a == computed || (a == NEAP_BOOL && computed == NEAP_U8);
}

static neap_cpu_row find_row(const neap_sig *s, neap_dtype t) {
  if (s->op->row >= NEAP_CPU_NAME(row_count) || (int)t >= NEAP_ROW_TYPES) return NULL;
  return NEAP_CPU_NAME(rows)[s->op->row][t];
}

/* Seconds an element takes on one thread: reading and writing, and a call of libm where there is one. */
static double unit_seconds(const neap_sig *s, neap_dtype t) {
  double bytes = (double)neap__dtype_size(s->out[0].desc.dtype);
  for (uint32_t i = 0; i < s->n_in; i++) bytes += (double)neap__dtype_size(s->in[i].desc.dtype);
  return bytes * 5e-11 + (t == NEAP_F32 ? 2e-10 : 2e-9);
}

/* What an input needs before the loop can read it; false: no conversion. */
static bool set_input(kernel *k, const neap_sig *s, uint32_t i, neap_dtype t, bool condition) {
  operand *o = &k->in[i];
  neap_dtype from = s->in[i].desc.dtype, to = condition ? NEAP_U8 : t;
  o->size = neap__dtype_size(from);
  o->ready = neap__dtype_size(to);
  if (!same_storage(from, to)) {
    o->convert = NEAP_CPU_NAME(converter)(from, to);
    if (!o->convert) return false;
  }
  broadcast_strides(&s->in[i].desc.shape, &s->out[0].desc.shape, o->stride);
  return true;
}

/* Equal layouts of equal shapes are one run of memory whatever the order in it. */
static neap_shape walk_shape(const neap_sig *s) {
  neap_shape shape = s->out[0].desc.shape;
  if (s->out[0].layout == NEAP_LAYOUT_PLAIN) return shape;
  return (neap_shape){.ndim = 1, .dim = {neap__shape_count(&shape)}};
}

static neap_status prepare(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err) {
  uint32_t first = s->n_in == 3 ? 1 : 0; /* a condition comes before what is computed with */
  neap_dtype t = compute_dtype(s, first);
  neap_cpu_row row = find_row(s, t);
  int64_t n = neap__shape_count(&s->out[0].desc.shape), blocks;
  if (!row || s->n_in > MAX_IN) return neap__cpu_unsupported(s, err);
  uint32_t tasks = neap__cpu_split((n + BLOCK - 1) / BLOCK, BLOCK * unit_seconds(s, t), &blocks);
  neap_status status = neap__cpu_kernel_new(cpu, s, sizeof(kernel), run, tasks, out, err);
  if (status != NEAP_OK) return status;
  kernel *k = (kernel *)*out;
  k->row = row;
  k->n_in = s->n_in;
  k->n = n;
  k->per = blocks * BLOCK;
  k->out_size = neap__dtype_size(s->out[0].desc.dtype);
  k->head.base.seconds = (double)n * unit_seconds(s, t);
  neap_shape shape = walk_shape(s);
  for (uint32_t i = 0; i < s->n_in; i++) {
    if (!set_input(k, s, i, t, i < first)) {
      neap__free(cpu->host, k, k->head.bytes);
      *out = NULL;
      return neap__cpu_unsupported(s, err);
    }
    if (s->out[0].layout != NEAP_LAYOUT_PLAIN) k->in[i].stride[0] = neap__shape_count(&s->in[i].desc.shape) != 1;
  }
  collapse(k, &shape);
  for (uint32_t i = 0; i < s->n_in; i++) classify(k, &k->in[i]);
  choose_loop(k);
  return NEAP_OK;
}

/* Channels-last stays when every input is of the full shape or a single element. */
static void layouts(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out) {
  (void)cpu;
  bool last = false;
  for (uint32_t i = 0; i < s->n_in; i++) {
    bool full = neap__shape_equal(&s->in[i].desc.shape, &s->out[0].desc.shape);
    if (!full && neap__shape_count(&s->in[i].desc.shape) != 1) return;
    last |= full && s->in[i].desc.shape.ndim >= 3 && s->in[i].layout == NEAP_LAYOUT_LAST;
  }
  if (!last) return;
  for (uint32_t i = 0; i < s->n_in; i++)
    if (neap__shape_equal(&s->in[i].desc.shape, &s->out[0].desc.shape)) in[i] = NEAP_LAYOUT_LAST;
  out[0] = NEAP_LAYOUT_LAST;
}

NEAP_CPU_KERNEL(elementwise) = {.prepare = prepare, .layouts = layouts};
