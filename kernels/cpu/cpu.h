/* What the files of the CPU backend share.
 *
 * Kernel files are compiled once for each instruction set level (NEAP_ISA is v2, v3, v4, or base off x86),
 * so every non-static name in them carries NEAP_CPU_NAME; the backend picks one table when it opens. A
 * kernel's result never depends on how its tasks are spread over threads. */
#ifndef NEAP_KERNELS_CPU_CPU_H
#define NEAP_KERNELS_CPU_CPU_H

#include "backend/backend.h"

#define NEAP_CPU_PASTE2(a, b, c) a##b##_##c
#define NEAP_CPU_PASTE(a, b, c) NEAP_CPU_PASTE2(a, b, c)
#define NEAP_CPU_NAME(name) NEAP_CPU_PASTE(neap__cpu_, name, NEAP_ISA)

typedef struct neap_cpu {
  neap_backend base;
  neap_host *host;
  neap_threads *threads;
  uint32_t width;                         /* threads */
  const char *level;                      /* "x86-64-v4" */
  struct neap_dnn *dnn;                   /* oneDNN's engine; NULL: built without it, or it has none */
  const struct neap_cpu_def *const *defs; /* of the chosen level, in the order of cpu_table.inc */
} neap_cpu;

typedef struct neap_cpu_kernel neap_cpu_kernel;

/* One task. `thread` < width; tasks that run at once have different ones. */
typedef void (*neap_cpu_run)(const neap_cpu_kernel *k, const neap_launch *l, uint32_t phase, uint32_t task,
                             uint32_t thread);

#define NEAP_CPU_MAX_PHASES 64
#define NEAP_CPU_MAX_OPERANDS 40

/* The head of every CPU kernel; a kernel file appends its own fields and passes the full size. Operands are
 * the kernel's own copy. */
struct neap_cpu_kernel {
  neap_kernel base;
  neap_cpu *cpu;
  neap_cpu_run run;
  void (*destroy)(neap_cpu_kernel *k); /* gives back library handles; NULL: none */
  size_t bytes;                        /* of the whole block */
  const neap_op *op;
  neap_opt opt[NEAP_MAX_OPTS];
  uint32_t n_in, n_out;
  neap_operand *in, *out;
  int64_t slab;
  uint32_t tasks[NEAP_CPU_MAX_PHASES];
};

typedef struct neap_cpu_def {
  neap_status (*prepare)(neap_cpu *cpu, const neap_sig *s, neap_cpu_kernel **out, neap_error *err);
  void (*layouts)(neap_cpu *cpu, const neap_sig *s, neap_layout *in, neap_layout *out); /* NULL: all PLAIN */
} neap_cpu_def;

/* Begins a line: `NEAP_CPU_KERNEL(sum) = {.prepare = prepare};` makes the kernel of op `sum` known. The one
 * named `elementwise` serves every op that is a row of elementwise.def. */
#define NEAP_CPU_KERNEL(op)                    \
  extern const neap_cpu_def NEAP_CPU_NAME(op); \
  const neap_cpu_def NEAP_CPU_NAME(op)

/* A cleared block of `bytes` with the head filled in from the signature, one phase of `tasks` tasks, no
 * workspace. */
neap_status neap__cpu_kernel_new(neap_cpu *cpu, const neap_sig *s, size_t bytes, neap_cpu_run run, uint32_t tasks,
                                 neap_cpu_kernel **out, neap_error *err);
/* NEAP_UNSUPPORTED, naming op, dtypes and the cpu backend. */
neap_status neap__cpu_unsupported(const neap_sig *s, neap_error *err);
/* Records the first fault of a launch; thread-safe. */
void neap__cpu_fault(neap_fault *f, neap_status code, int64_t row, int64_t value, int64_t limit);

/* Task count for n units of `cost` seconds each (one thread), at least `min_seconds` of work a task so that
 * a wake-up pays: depends on shapes alone. *per is units a task. */
uint32_t neap__cpu_split(int64_t n, double unit_seconds, int64_t *per);

#endif
