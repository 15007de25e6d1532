/* The CPU backend's frame: memory, the choice of an instruction set level, kernels by op, launching. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"
#include "memory/resource.h"

extern const neap_backend_vtable neap__cpu_backend;

/* --- kernels of each level --------------------------------------------------------------------------- */

#define XX(name) #name,
static const char *const kernel_names[] = {
#include "cpu_table.inc"
    NULL};
#undef XX
#define KERNEL_COUNT (sizeof kernel_names / sizeof kernel_names[0] - 1)

#if defined(__x86_64__)
#define XX(name) extern const neap_cpu_def neap__cpu_##name##_v2, neap__cpu_##name##_v3, neap__cpu_##name##_v4;
#include "cpu_table.inc"
#undef XX
#define XX(name) &neap__cpu_##name##_v2,
static const neap_cpu_def *const defs_v2[] = {
#include "cpu_table.inc"
    NULL};
#undef XX
#define XX(name) &neap__cpu_##name##_v3,
static const neap_cpu_def *const defs_v3[] = {
#include "cpu_table.inc"
    NULL};
#undef XX
#define XX(name) &neap__cpu_##name##_v4,
static const neap_cpu_def *const defs_v4[] = {
#include "cpu_table.inc"
    NULL};
#undef XX
#else
#define XX(name) extern const neap_cpu_def neap__cpu_##name##_base;
#include "cpu_table.inc"
#undef XX
#define XX(name) &neap__cpu_##name##_base,
static const neap_cpu_def *const defs_base[] = {
#include "cpu_table.inc"
    NULL};
#undef XX
#endif

typedef struct level {
  const char *name;
  const neap_cpu_def *const *defs;
} level;

/* The highest level this processor and system run; name NULL: below the lowest that kernels exist for. */
static level best_level(void) {
#if defined(__x86_64__)
  /* The features of each level, System V ABI for x86-64, table 3.1; by feature since clang 14 takes no
   * level names. __builtin_cpu_supports also asks whether the system saves the registers. */
  __builtin_cpu_init();
  const int v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const int v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
  if (v4) return (level){"x86-64-v4", defs_v4};
  if (v3) return (level){"x86-64-v3", defs_v3};
  if (v2) return (level){"x86-64-v2", defs_v2};
  return (level){NULL, NULL};
#else
  return (level){"base", defs_base};
#endif
}

/* --- life ---------------------------------------------------------------------------------------------- */

/* Without an engine of oneDNN the portable kernels serve; without memory for one, nothing does. */
static neap_status open_library(neap_cpu *b, neap_error *err) {
  const neap_status s = neap__dnn_open(&b->dnn, err);
  if (s == NEAP_UNSUPPORTED) neap__error_clear(err);
  return s == NEAP_UNSUPPORTED ? NEAP_OK : s;
}

static neap_status open_cpu(const neap_backend_config *c, neap_backend **out, neap_error *err) {
  const level best = best_level();
  neap_cpu *b;
  neap_status s;
  *out = NULL;
  if (c->device != 0) return neap__fail(err, NEAP_DEVICE, "device 'cpu:%d': there is only 'cpu:0'", c->device);
  if (!best.name)
    return neap__fail(err, NEAP_DEVICE, "device 'cpu': this processor lacks SSE4.2 (x86-64-v2), the least expected");
  b = neap__calloc(c->host, 1, sizeof *b);
  if (!b) return neap__fail(err, NEAP_NOMEM, "no host memory for the cpu backend (%zu bytes)", sizeof *b);
  b->base.vt = &neap__cpu_backend;
  b->host = c->host;
  b->threads = c->threads;
  b->width = c->threads ? neap__threads_width(c->threads) : 1;
  b->defs = best.defs;
  b->level = best.name;
  s = open_library(b, err);
  if (s)
    neap__free(c->host, b, sizeof *b);
  else
    *out = &b->base;
  return s;
}

static void close_cpu(neap_backend *base) {
  neap_cpu *b = (neap_cpu *)base;
  neap__dnn_close(b->dnn);
  neap__free(b->host, b, sizeof *b);
}

static void info_cpu(neap_backend *base, neap_backend_info *out) {
  const neap_cpu *b = (const neap_cpu *)base;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  memset(out, 0, sizeof *out);
  snprintf(out->device, sizeof out->device, "cpu");
  snprintf(out->description, sizeof out->description, "cpu %s", b->level);
  if (b->dnn) snprintf(out->description, sizeof out->description, "cpu %s, oneDNN %s", b->level, neap__dnn_version());
  out->memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
  out->host_memory = true;
}

/* --- memory -------------------------------------------------------------------------------------------- */

/* From here on blocks are pages of their own, so that release gives them back to the system at once; malloc
 * may keep smaller ones. */
#define PAGES_FROM ((size_t)256 << 10)

static neap_status reserve(neap_backend *b, size_t bytes, void **out, neap_error *err) {
  void *p = NULL;
  (void)b;
  if (bytes >= PAGES_FROM) {
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) p = NULL;
  } else {
    p = aligned_alloc(NEAP_ALIGN, neap__align_up(bytes ? bytes : 1));
  }
  *out = p;
  if (p) return NEAP_OK;
  neap__fail(err, NEAP_OOM, "the system refused %zu bytes", bytes);
  if (err) err->bytes = bytes;
  return NEAP_OOM;
}

static void release(neap_backend *b, void *p, size_t bytes) {
  (void)b;
  if (!p) return;
  if (bytes >= PAGES_FROM)
    munmap(p, bytes);
  else
    free(p);
}

static neap_status copy(neap_backend *b, void *dst, const void *src, size_t bytes, neap_copy_kind kind,
                        neap_error *err) {
  (void)b, (void)kind, (void)err;
  if (bytes) memmove(dst, src, bytes);
  return NEAP_OK;
}

static neap_status fill(neap_backend *b, void *dst, int byte, size_t bytes, neap_error *err) {
  (void)b, (void)err;
  if (bytes) memset(dst, byte, bytes);
  return NEAP_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------- */

static int compare_names(const void *key, const void *name) {
  return strcmp((const char *)key, *(const char *const *)name);
}

static const neap_cpu_def *find_def(const neap_cpu *b, const neap_op *op) {
  const char *name = op->row ? "elementwise" : op->name;
  const char *const *p = bsearch(name, kernel_names, KERNEL_COUNT, sizeof kernel_names[0], compare_names);
  return p ? b->defs[p - kernel_names] : NULL;
}

static void layouts(neap_backend *base, const neap_sig *s, neap_layout *in, neap_layout *out) {
  neap_cpu *b = (neap_cpu *)base;
  const neap_cpu_def *def = find_def(b, s->op);
  for (uint32_t i = 0; i < s->n_in; i++) in[i] = NEAP_LAYOUT_PLAIN;
  for (uint32_t o = 0; o < s->n_out; o++) out[o] = NEAP_LAYOUT_PLAIN;
  if (def && def->layouts) def->layouts(b, s, in, out);
}

static neap_status prepare(neap_backend *base, const neap_sig *s, neap_kernel **out, neap_error *err) {
  neap_cpu *b = (neap_cpu *)base;
  const neap_cpu_def *def = find_def(b, s->op);
  neap_cpu_kernel *k = NULL;
  neap_status status;
  *out = NULL;
  if (!def) return neap__cpu_unsupported(s, err);
  status = def->prepare(b, s, &k, err);
  if (status == NEAP_OK) *out = &k->base;
  return status;
}

static void kernel_free(neap_backend *base, neap_kernel *kernel) {
  neap_cpu *b = (neap_cpu *)base;
  neap_cpu_kernel *k = (neap_cpu_kernel *)kernel;
  if (!k) return;
  if (k->destroy) k->destroy(k);
  neap__free(b->host, k, k->bytes);
}

typedef struct job {
  const neap_cpu_kernel *k;
  const neap_launch *l;
  uint32_t phase;
} job;

static void run_task(void *ctx, uint32_t task, uint32_t thread) {
  const job *j = ctx;
  j->k->run(j->k, j->l, j->phase, task, thread);
}

static neap_status launch(neap_backend *base, const neap_kernel *kernel, const neap_launch *l, uint32_t phase,
                          uint32_t first, uint32_t count, neap_error *err) {
  neap_cpu *b = (neap_cpu *)base;
  job j = {(const neap_cpu_kernel *)kernel, l, phase};
  if (phase >= kernel->n_phases || first > kernel->tasks[phase] || count > kernel->tasks[phase] - first)
    return neap__fail(err, NEAP_INTERNAL, "%s: there are no tasks %u to %u in phase %u", j.k->op->name, first,
                      first + count, phase);
  if (b->threads && count > 1)
    neap__threads_run(b->threads, run_task, &j, first, count);
  else
    for (uint32_t i = 0; i < count; i++) run_task(&j, first + i, 0);
  return NEAP_OK;
}

static neap_status wait_cpu(neap_backend *b, neap_error *err) {
  (void)b, (void)err;
  return NEAP_OK;
}

/* --- for kernel files ---------------------------------------------------------------------------------- */

neap_status neap__cpu_kernel_new(neap_cpu *cpu, const neap_sig *s, size_t bytes, neap_cpu_run run, uint32_t tasks,
                                 neap_cpu_kernel **out, neap_error *err) {
  const size_t head = (bytes + 15) & ~(size_t)15;
  const size_t size = head + (s->n_in + s->n_out) * sizeof(neap_operand);
  neap_cpu_kernel *k = neap__calloc(cpu->host, 1, size);
  *out = k;
  if (!k) return neap__fail(err, NEAP_NOMEM, "no host memory for a kernel of %s (%zu bytes)", s->op->name, size);
  k->base.n_phases = 1;
  k->base.tasks = k->tasks;
  k->tasks[0] = tasks;
  k->cpu = cpu;
  k->run = run;
  k->bytes = size;
  k->op = s->op;
  if (s->opt) memcpy(k->opt, s->opt, sizeof k->opt);
  k->n_in = s->n_in;
  k->n_out = s->n_out;
  k->in = (neap_operand *)((char *)k + head);
  k->out = k->in + s->n_in;
  if (s->n_in) memcpy(k->in, s->in, s->n_in * sizeof *k->in);
  if (s->n_out) memcpy(k->out, s->out, s->n_out * sizeof *k->out);
  k->slab = s->slab;
  return NEAP_OK;
}

neap_status neap__cpu_unsupported(const neap_sig *s, neap_error *err) {
  char dtypes[128] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < s->n_in && used < sizeof dtypes; i++) {
    const int n =
        snprintf(dtypes + used, sizeof dtypes - used, "%s%s", i ? ", " : "", neap__dtype_name(s->in[i].desc.dtype));
    used += n > 0 ? (size_t)n : 0;
  }
  neap__fail(err, NEAP_UNSUPPORTED, "%s has no kernel for (%s) on the cpu backend", s->op->name, dtypes);
  if (err) snprintf(err->op, sizeof err->op, "%s", s->op->name);
  return NEAP_UNSUPPORTED;
}

/* Whoever sets the code owns the other fields; they are read when all tasks are done. */
void neap__cpu_fault(neap_fault *f, neap_status code, int64_t row, int64_t value, int64_t limit) {
  int32_t none = NEAP_OK;
  if (!f || !__atomic_compare_exchange_n(&f->code, &none, (int32_t)code, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  f->row = row;
  f->value = value;
  f->limit = limit;
}

/* Enough tasks for some threads to share them evenly, none longer than a time slice can wait for, none so
 * short that waking a thread for it costs more than it saves. */
#define EVEN_TASKS 16
#define SHORTEST 8e-6
#define LONGEST 3e-4

uint32_t neap__cpu_split(int64_t n, double unit_seconds, int64_t *per) {
  const double total = (double)n * unit_seconds;
  double task = total / EVEN_TASKS;
  int64_t units, tasks;
  *per = 1;
  if (n <= 0) return 0;
  if (task < SHORTEST) task = SHORTEST;
  if (task > LONGEST) task = LONGEST;
  units = unit_seconds > 0 && task / unit_seconds < (double)n ? (int64_t)(task / unit_seconds) : n;
  if (units < 1) units = 1;
  if (n / units > INT32_MAX - 1) units = n / (INT32_MAX - 1) + 1;
  tasks = (n + units - 1) / units;
  *per = (n + tasks - 1) / tasks; /* evenly */
  return (uint32_t)((n + *per - 1) / *per);
}

const neap_backend_vtable neap__cpu_backend = {
    .version = NEAP_BACKEND_VERSION,
    .size = sizeof(neap_backend_vtable),
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .info = info_cpu,
    .reserve = reserve,
    .release = release,
    .copy = copy,
    .fill = fill,
    .layouts = layouts,
    .prepare = prepare,
    .kernel_free = kernel_free,
    .launch = launch,
    .wait = wait_cpu,
};
