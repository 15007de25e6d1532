/* Debug builds: a kernel that writes past its block is caught at the step that did it. */
#include "graph/plan.h"

#ifdef NEAP_DEBUG

#include <string.h>

#define PATTERN 0xC7

static unsigned char *after_value(const neap_run *r, uint32_t value) {
  neap_program *p = r->program;
  const neap_pvalue *v = &p->values[neap__root(p, value)];
  size_t bytes = neap__desc_bytes(&v->desc);
  if (v->ref != NEAP_REF_ARENA || v->grad || v->constant || !bytes) return NULL;
  return (unsigned char *)r->base + v->offset + neap__align_up(bytes);
}

static unsigned char *after_workspace(const neap_run *r, const neap_step *s) {
  return s->workspace ? (unsigned char *)r->base + s->ws_offset + neap__align_up(s->workspace) : NULL;
}

static bool broken(const unsigned char *at) {
  for (uint32_t i = 0; at && i < NEAP_CANARY; i++)
    if (at[i] != PATTERN) return true;
  return false;
}

static void put(unsigned char *at) {
  if (at) memset(at, PATTERN, NEAP_CANARY);
}

void neap__canary_put(const neap_run *r, const neap_step *s) {
  if (!r->program->ctx->info.host_memory) return;
  for (uint32_t o = 0; o < s->n_out; o++) put(after_value(r, s->out[o]));
  put(after_workspace(r, s));
}

neap_status neap__canary_check(const neap_run *r, const neap_step *s, neap_error *err) {
  if (!r->program->ctx->info.host_memory) return NEAP_OK;
  for (uint32_t i = 0; i < s->n_in + s->n_out; i++)
    if ((i >= s->n_in || !neap__shape_only(s->op, i)) && broken(after_value(r, s->in[i])))
      return neap__fail(err, NEAP_INTERNAL, "wrote past the block of value %u", i);
  if (broken(after_workspace(r, s))) return neap__fail(err, NEAP_INTERNAL, "wrote past its workspace");
  return NEAP_OK;
}

#else

void neap__canary_put(const neap_run *r, const neap_step *s) { (void)r, (void)s; }

neap_status neap__canary_check(const neap_run *r, const neap_step *s, neap_error *err) {
  (void)r, (void)s, (void)err;
  return NEAP_OK;
}

#endif
