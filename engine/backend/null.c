/* The null backend knows shapes and bytes and computes nothing: programs planned on it tell what their
 * tensors need, a lower bound without the workspaces of libraries. Its memory is an address range that is
 * never touched. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/backend.h"
#include "memory/resource.h"

extern const neap_backend_vtable neap__null_backend;

typedef struct null_backend {
  neap_backend base;
  neap_host *host;
} null_backend;

static const uint32_t one_task[] = {1};

static neap_status open_null(const neap_backend_config *c, neap_backend **out, neap_error *err) {
  null_backend *b = neap__calloc(c->host, 1, sizeof *b);
  *out = NULL;
  if (!b) return neap__fail(err, NEAP_NOMEM, "no host memory for the null backend (%zu bytes)", sizeof *b);
  b->base.vt = &neap__null_backend;
  b->host = c->host;
  *out = &b->base;
  return NEAP_OK;
}

static void close_null(neap_backend *base) {
  null_backend *b = (null_backend *)base;
  neap__free(b->host, b, sizeof *b);
}

static void info_null(neap_backend *b, neap_backend_info *out) {
  (void)b;
  memset(out, 0, sizeof *out);
  snprintf(out->device, sizeof out->device, "null");
  snprintf(out->description, sizeof out->description, "null: shapes and bytes, no arithmetic");
}

/* Address space without access: a pointer used by mistake faults instead of giving wrong numbers. */
static neap_status reserve_null(neap_backend *b, size_t bytes, void **out, neap_error *err) {
  void *p = mmap(NULL, bytes ? bytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  (void)b;
  *out = p == MAP_FAILED ? NULL : p;
  if (*out) return NEAP_OK;
  neap__fail(err, NEAP_OOM, "the null backend found no %zu bytes of addresses", bytes);
  if (err) err->bytes = bytes;
  return NEAP_OOM;
}

static void release_null(neap_backend *b, void *p, size_t bytes) {
  (void)b;
  if (p) munmap(p, bytes ? bytes : 1);
}

static neap_status copy_null(neap_backend *b, void *dst, const void *src, size_t bytes, neap_copy_kind kind,
                             neap_error *err) {
  (void)b, (void)src, (void)err;
  if (kind == NEAP_COPY_OUT) memset(dst, 0, bytes);
  return NEAP_OK;
}

static neap_status fill_null(neap_backend *b, void *dst, int byte, size_t bytes, neap_error *err) {
  (void)b, (void)dst, (void)byte, (void)bytes, (void)err;
  return NEAP_OK;
}

static neap_status prepare_null(neap_backend *base, const neap_sig *s, neap_kernel **out, neap_error *err) {
  null_backend *b = (null_backend *)base;
  neap_kernel *k = neap__calloc(b->host, 1, sizeof *k);
  *out = k;
  if (!k) return neap__fail(err, NEAP_NOMEM, "no host memory for a kernel of %s", s->op->name);
  k->n_phases = 1;
  k->tasks = one_task;
  return NEAP_OK;
}

static void kernel_free_null(neap_backend *base, neap_kernel *k) {
  null_backend *b = (null_backend *)base;
  neap__free(b->host, k, sizeof *k);
}

static neap_status launch_null(neap_backend *b, const neap_kernel *k, const neap_launch *l, uint32_t phase,
                               uint32_t first, uint32_t count, neap_error *err) {
  (void)b, (void)k, (void)l, (void)phase, (void)first, (void)count, (void)err;
  return NEAP_OK;
}

static neap_status wait_null(neap_backend *b, neap_error *err) {
  (void)b, (void)err;
  return NEAP_OK;
}

const neap_backend_vtable neap__null_backend = {
    .version = NEAP_BACKEND_VERSION,
    .size = sizeof(neap_backend_vtable),
    .name = "null",
    .open = open_null,
    .close = close_null,
    .info = info_null,
    .reserve = reserve_null,
    .release = release_null,
    .copy = copy_null,
    .fill = fill_null,
    .prepare = prepare_null,
    .kernel_free = kernel_free_null,
    .launch = launch_null,
    .wait = wait_null,
};
