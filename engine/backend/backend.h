/* The backend vtable. The engine knows no backend by name; CPU, CUDA and null implement this. */
#ifndef NEAP_BACKEND_BACKEND_H
#define NEAP_BACKEND_BACKEND_H

#include "base/host.h"
#include "base/log.h"
#include "base/threads.h"
#include "ir/record.h"

#define NEAP_BACKEND_VERSION 1u

typedef struct neap_backend neap_backend;

typedef struct neap_backend_config {
  uint32_t size;
  neap_host *host;
  neap_threads *threads; /* for backends that compute on the host's cores; outlives the backend */
  const neap_log *log;
  int device; /* index, for backends with several */
} neap_backend_config;

typedef struct neap_backend_info {
  char device[64];       /* "cpu", "cuda:0" */
  char description[128]; /* instruction set, library versions: recorded in checkpoints */
  uint64_t memory;       /* bytes of device memory; 0: unknown */
  bool host_memory;      /* the host may read and write device pointers */
} neap_backend_info;

/* What prepare returns. Work is `n_phases` phases one after the other; each is tasks[p] independent tasks.
 * Which tasks there are depends on the signature alone (never on threads or budget). */
typedef struct neap_kernel {
  uint32_t n_phases;
  const uint32_t *tasks;
  size_t workspace; /* bytes the plan gives at each launch; contents need not survive from launch to launch */
  double seconds;   /* predicted for the whole kernel on one thread */
} neap_kernel;

/* Set by a kernel that met bad data (a label out of range); the first wins. Plain text only. */
typedef struct neap_fault {
  volatile int32_t code; /* neap_status; NEAP_OK: none */
  int64_t row, value, limit;
} neap_fault;

#define NEAP_LAUNCH_FIRST 1u /* SUM outputs begin at zero; otherwise they go on from what is there */

/* Which random numbers a launch draws: a function of these, the signature's salt, the sample and the place in
 * the sample alone, so that recompute, micro-batches, retries and other devices draw the same. */
typedef struct neap_draw {
  uint64_t seed;
  uint64_t number; /* of the update; outside updates of the call, with the top bit set */
  int64_t sample;  /* the first of this micro-batch */
} neap_draw;

typedef struct neap_launch {
  void *const *in; /* pointers, in the layouts of the signature */
  void *const *out;
  void *workspace;
  neap_fault *fault;
  neap_draw draw;
  uint32_t flags;
} neap_launch;

typedef enum neap_copy_kind { NEAP_COPY_IN, NEAP_COPY_OUT, NEAP_COPY_WITHIN } neap_copy_kind;

typedef struct neap_backend_vtable {
  uint32_t version, size; /* NEAP_BACKEND_VERSION, sizeof this struct where it was compiled */
  const char *name;

  neap_status (*open)(const neap_backend_config *c, neap_backend **out, neap_error *err);
  void (*close)(neap_backend *b);
  void (*info)(neap_backend *b, neap_backend_info *out);

  /* Device memory, NEAP_ALIGN-aligned. Refusal is NEAP_OOM. release gives back to the system. */
  neap_status (*reserve)(neap_backend *b, size_t bytes, void **out, neap_error *err);
  void (*release)(neap_backend *b, void *p, size_t bytes);

  /* Complete when it returns. */
  neap_status (*copy)(neap_backend *b, void *dst, const void *src, size_t bytes, neap_copy_kind kind, neap_error *err);
  neap_status (*fill)(neap_backend *b, void *dst, int byte, size_t bytes, neap_error *err);

  /* Given a signature with the layouts its inputs have now, sets in[i].layout to what the kernel wants and
   * out[o].layout to what it will write. NULL: everything PLAIN. */
  void (*layouts)(neap_backend *b, const neap_sig *s, neap_layout *in, neap_layout *out);

  /* A kernel for the signature, owned by the caller until kernel_free. May be slow. NEAP_UNSUPPORTED (err
   * names the op, dtype and backend) when there is none. */
  neap_status (*prepare)(neap_backend *b, const neap_sig *s, neap_kernel **out, neap_error *err);
  void (*kernel_free)(neap_backend *b, neap_kernel *k);

  /* Runs tasks [first, first + count) of one phase; phases in order, tasks in any order and grouping.
   * Takes no memory of the engine. */
  neap_status (*launch)(neap_backend *b, const neap_kernel *k, const neap_launch *l, uint32_t phase, uint32_t first,
                        uint32_t count, neap_error *err);
  /* Everything launched so far is done when it returns. */
  neap_status (*wait)(neap_backend *b, neap_error *err);
} neap_backend_vtable;

struct neap_backend {
  const neap_backend_vtable *vt;
};

/* "cpu", "null" (built in), others by plug-in library. Opening takes "name" or "name:index"; "auto" is the
 * fastest there is. err says why not, in words. */
neap_status neap__backend_open(const char *device, const neap_backend_config *c, neap_backend **out, neap_error *err);
void neap__backend_close(neap_backend *b);

#endif
