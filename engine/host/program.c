/* Programs that scripts exported, for hosts to run. */
#include "bindings/lua/host.h"
#include "bindings/lua/lua_neap.h"
#include "host/engine.h"

typedef struct search {
  const char *name;
  neap_exported *found;
} search;

static int run_search(lua_State *L) {
  search *s = lua_touserdata(L, 1);
  s->found = neap__lua_exported(L, s->name);
  if (!s->found) neap__lua_fail(L, NEAP_NOT_FOUND, NULL, "no script has exported '%s'", s->name);
  return 0;
}

neap_status neap_program_find(neap_engine *e, const char *name, neap_exported **out) {
  if (out) *out = NULL;
  if (!e) return NEAP_INVALID;
  if (!name || !out) return neap__refuse(e, NEAP_INVALID, "neap_program_find: %s is NULL", name ? "out" : "name");
  search s = {name, NULL};
  neap_status status = neap__enter(e, run_search, &s);
  if (status != NEAP_OK) return status;
  s.found->engine = e;
  *out = s.found;
  return NEAP_OK;
}

size_t neap_program_inputs(const neap_exported *x) { return x ? x->n_in : 0; }
size_t neap_program_outputs(const neap_exported *x) { return x ? x->n_out : 0; }
const neap_array *neap_program_input(const neap_exported *x, size_t i) { return x && i < x->n_in ? &x->in[i] : NULL; }
const neap_array *neap_program_output(const neap_exported *x, size_t i) {
  return x && i < x->n_out ? &x->out[i] : NULL;
}

neap_status neap_program_run(neap_exported *x, const void *const *inputs, void *const *outputs) {
  if (!x) return NEAP_INVALID;
  neap_engine *e = x->engine;
  return neap__leave(e, neap__exported_run(x, inputs, outputs, &e->error));
}
