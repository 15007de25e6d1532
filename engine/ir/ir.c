#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/record.h"

neap_graph *neap__graph_create(neap_host *h) {
  neap_graph *g = neap__calloc(h, 1, sizeof *g);
  if (!g) return NULL;
  neap__zone_init(&g->zone, h);
  g->refs = 1;
  g->path = "";
  g->where = "";
  return g;
}

neap_graph *neap__graph_retain(neap_graph *g) {
  g->refs++;
  return g;
}

void neap__graph_drop(neap_graph *g) {
  if (!g || --g->refs) return;
  neap_host *h = g->zone.host;
  for (uint32_t i = 0; i < g->n_captures; i++) neap__storage_drop(g->captures[i].storage);
  neap__zone_free(&g->zone);
  neap__free(h, g, sizeof *g);
}

neap_id neap__graph_fail(neap_graph *g, const neap_op *op, neap_status s, const char *fmt, ...) {
  if (g->error.status != NEAP_OK) return NEAP_NONE;
  char text[sizeof g->error.message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  neap__fail(&g->error, s, "%s", text);
  if (op) snprintf(g->error.op, sizeof g->error.op, "%s", op->name);
  snprintf(g->error.where, sizeof g->error.where, "%s", g->where);
  return NEAP_NONE;
}

static neap_id refused(neap_graph *g) {
  return neap__graph_fail(g, NULL, NEAP_NOMEM, "the host allocator refused memory for a graph node");
}

static neap_id push_value(neap_graph *g, const neap_value *v) {
  neap_value *values = neap__zone_grow(&g->zone, g->values, g->n_values, &g->cap_values, sizeof *values);
  if (!values) return refused(g);
  g->values = values;
  values[g->n_values] = *v;
  return g->n_values++;
}

static bool push_id(neap_graph *g, neap_id **list, uint32_t *n, uint32_t *cap, neap_id id) {
  neap_id *p = neap__zone_grow(&g->zone, *list, *n, cap, sizeof *p);
  if (!p) return refused(g), false;
  *list = p;
  p[(*n)++] = id;
  return true;
}

neap_id neap__graph_input(neap_graph *g, const neap_desc *d) {
  if (g->error.status != NEAP_OK) return NEAP_NONE;
  neap_value v = {.kind = NEAP_VALUE_INPUT, .desc = *d, .index = g->n_inputs};
  neap_id id = push_value(g, &v);
  if (id == NEAP_NONE || !push_id(g, &g->inputs, &g->n_inputs, &g->cap_inputs, id)) return NEAP_NONE;
  return id;
}

static bool same_view(const neap_tensor *a, const neap_tensor *b) {
  return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype &&
         neap__shape_equal(&a->shape, &b->shape);
}

neap_id neap__graph_capture(neap_graph *g, const neap_tensor *t) {
  if (g->error.status != NEAP_OK) return NEAP_NONE;
  for (uint32_t i = 0; i < g->n_captures; i++)
    if (same_view(&g->captures[i], t)) return g->capture_ids[i];
  uint32_t cap = g->cap_captures;
  neap_tensor *captures = neap__zone_grow(&g->zone, g->captures, g->n_captures, &cap, sizeof *captures);
  if (!captures) return refused(g);
  g->captures = captures;
  neap_value v = {.kind = NEAP_VALUE_CAPTURE, .desc = neap__tensor_desc(t), .index = g->n_captures};
  neap_id id = push_value(g, &v);
  uint32_t n = g->n_captures;
  if (id == NEAP_NONE || !push_id(g, &g->capture_ids, &n, &g->cap_captures, id)) return NEAP_NONE;
  g->cap_captures = cap;
  captures[g->n_captures++] = *t;
  neap__storage_retain(t->storage);
  return id;
}

neap_id neap__graph_const(neap_graph *g, neap_dtype dtype, double number) {
  if (g->error.status != NEAP_OK) return NEAP_NONE;
  neap_value v = {.kind = NEAP_VALUE_CONST, .desc = {.dtype = dtype}, .number = number};
  return push_value(g, &v);
}

void neap__graph_output(neap_graph *g, neap_id v) {
  if (g->error.status != NEAP_OK || v == NEAP_NONE) return;
  push_id(g, &g->outputs, &g->n_outputs, &g->cap_outputs, v);
}

static bool check_write(neap_graph *g, neap_id value, neap_id target) {
  if (target >= g->n_values || g->values[target].kind != NEAP_VALUE_CAPTURE) {
    neap__graph_fail(g, NULL, NEAP_INVALID, "a write goes to something that is not a tensor made outside the trace");
    return false;
  }
  const neap_desc *a = neap__desc_of(g, value), *b = neap__desc_of(g, target);
  char x[96], y[96];
  if (a->dtype == b->dtype && neap__shape_equal(&a->shape, &b->shape)) return true;
  neap__graph_fail(g, NULL, NEAP_SHAPE, "a write of %s %s goes to a tensor of %s %s", neap__dtype_name(a->dtype),
                   neap__shape_text(&a->shape, x, sizeof x), neap__dtype_name(b->dtype),
                   neap__shape_text(&b->shape, y, sizeof y));
  return false;
}

void neap__graph_write(neap_graph *g, neap_id value, neap_id target) {
  if (g->error.status != NEAP_OK || value == NEAP_NONE || !check_write(g, value, target)) return;
  neap_write *writes = neap__zone_grow(&g->zone, g->writes, g->n_writes, &g->cap_writes, sizeof *writes);
  if (!writes) {
    refused(g);
    return;
  }
  g->writes = writes;
  uint32_t i = 0;
  while (i < g->n_writes && writes[i].target != target) i++;
  /* It moves behind writes to other views of the same bytes. */
  for (; i + 1 < g->n_writes; i++) writes[i] = writes[i + 1];
  if (i == g->n_writes) g->n_writes++;
  writes[i] = (neap_write){value, target, g->where};
}

static bool overlap(const neap_tensor *a, const neap_tensor *b) {
  const int64_t a_size = (int64_t)neap__dtype_size(a->dtype), b_size = (int64_t)neap__dtype_size(b->dtype);
  const int64_t a_begin = a->offset * a_size, a_end = a_begin + (int64_t)neap__shape_count(&a->shape) * a_size;
  const int64_t b_begin = b->offset * b_size, b_end = b_begin + (int64_t)neap__shape_count(&b->shape) * b_size;
  return a->storage == b->storage && a_begin < b_end && b_begin < a_end;
}

neap_id neap__graph_read(neap_graph *g, const neap_tensor *t) {
  char from[96], to[96];
  for (uint32_t i = g->n_writes; i-- > 0 && g->error.status == NEAP_OK;) {
    const neap_write *w = &g->writes[i];
    const neap_tensor *written = &g->captures[g->values[w->target].index];
    if (same_view(written, t)) return w->value;
    if (!overlap(written, t)) continue;
    return neap__graph_fail(g, NULL, NEAP_UNSUPPORTED,
                            "a tensor of shape %s was written before (at %s) and is read here through another view of "
                            "it, of shape %s: read the one that was written",
                            neap__shape_text(&written->shape, from, sizeof from),
                            w->where[0] ? w->where : "an unknown line", neap__shape_text(&t->shape, to, sizeof to));
  }
  return neap__graph_capture(g, t);
}

void neap__graph_where(neap_graph *g, const char *path, const char *where) {
  /* Consecutive nodes mostly share both: keep the strings that are there. */
  if (path && strcmp(path, g->path)) {
    char *p = neap__zone_strdup(&g->zone, path);
    g->path = p ? p : "";
  }
  if (where && strcmp(where, g->where)) {
    char *p = neap__zone_strdup(&g->zone, where);
    g->where = p ? p : "";
  }
}

static void describe_inputs(neap_graph *g, const neap_id *in, uint32_t n) {
  char *to = g->error.shapes;
  size_t room = sizeof g->error.shapes, used = 0;
  for (uint32_t i = 0; i < n && used + 1 < room; i++) {
    char text[96];
    const neap_desc *d = neap__desc_of(g, in[i]);
    int w = snprintf(to + used, room - used, "%s%s %s", i ? ", " : "", neap__dtype_name(d->dtype),
                     neap__shape_text(&d->shape, text, sizeof text));
    if (w < 0) break;
    used += (size_t)w;
  }
}

static bool check_arity(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in) {
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] == NEAP_NONE || in[i] >= g->n_values) {
      neap__graph_fail(g, op, NEAP_INVALID, "input %u is missing", i + 1);
      return false;
    }
  bool many = op->max_in == 255;
  if (n_in >= op->min_in && (many || n_in <= op->max_in)) return true;
  if (many)
    neap__graph_fail(g, op, NEAP_INVALID, "takes at least %u inputs, got %u", op->min_in, n_in);
  else if (op->min_in == op->max_in)
    neap__graph_fail(g, op, NEAP_INVALID, "takes %u inputs, got %u", op->min_in, n_in);
  else
    neap__graph_fail(g, op, NEAP_INVALID, "takes %u to %u inputs, got %u", op->min_in, op->max_in, n_in);
  return false;
}

/* Runs the shape rule; its own message is kept and completed with op, shapes and place. */
static bool infer(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, neap_opt *opt, neap_desc *out) {
  neap_desc *descs = neap__zone_alloc(&g->zone, (n_in ? n_in : 1u) * sizeof *descs);
  if (!descs) return refused(g), false;
  for (uint32_t i = 0; i < n_in; i++) descs[i] = *neap__desc_of(g, in[i]);
  neap_error err = {0};
  neap_infer x = {.op = op, .n_in = n_in, .n_out = op->n_out, .in = descs, .opt = opt, .out = out, .err = &err};
  neap_status s = op->infer(&x);
  for (uint32_t i = 0; s == NEAP_OK && i < op->n_out; i++) s = neap__desc_check(&out[i], &err);
  if (s == NEAP_OK) return true;
  neap__graph_fail(g, op, s, "%s", err.message[0] ? err.message : neap_status_text(s));
  return false;
}

/* Which module, and which of its draws: the same in every trace, whatever other modules do. */
static uint64_t salt_of(const neap_graph *g, const neap_node *n) {
  uint64_t h = 14695981039346656037u, call = 0;
  for (const char *c = n->path; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
  for (uint32_t i = 0; i < n->index; i++)
    if (g->nodes[i]->op->random && !strcmp(g->nodes[i]->path, n->path)) call++;
  return h ^ ((call + 1) * 0x9e3779b97f4a7c15u);
}

static neap_node *append(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opt) {
  neap_node **nodes = neap__zone_grow(&g->zone, g->nodes, g->n_nodes, &g->cap_nodes, sizeof(neap_node *));
  neap_node *n = neap__zone_alloc(&g->zone, sizeof *n);
  neap_id *ins = neap__zone_alloc(&g->zone, (n_in ? n_in : 1u) * sizeof *ins);
  if (!nodes || !n || !ins) {
    if (nodes) g->nodes = nodes;
    return refused(g), NULL;
  }
  g->nodes = nodes;
  if (n_in) memcpy(ins, in, n_in * sizeof *ins);
  n->op = op;
  n->index = g->n_nodes;
  n->n_in = (uint16_t)n_in;
  n->n_out = op->n_out;
  n->in = ins;
  memcpy(n->opt, opt, sizeof n->opt);
  n->called = g->called ? g->called : op->name;
  n->path = g->path;
  n->where = g->where;
  if (op->random) n->salt = salt_of(g, n);
  nodes[g->n_nodes++] = n;
  return n;
}

static bool build_node(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, neap_opt *opt,
                       neap_id *out) {
  neap_desc descs[NEAP_MAX_OUT];
  memset(descs, 0, sizeof descs);
  if (!infer(g, op, in, n_in, opt, descs)) return describe_inputs(g, in, n_in), false;
  neap_node *n = append(g, op, in, n_in, opt);
  if (!n) return false;
  for (uint32_t i = 0; i < op->n_out; i++) {
    neap_value v = {.kind = NEAP_VALUE_NODE, .desc = descs[i], .node = n->index, .index = i};
    n->out[i] = push_value(g, &v);
    if (n->out[i] == NEAP_NONE) {
      g->n_nodes--;
      return false;
    }
    out[i] = n->out[i];
  }
  return true;
}

bool neap__build_n(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opts,
                   neap_id *out) {
  for (uint32_t i = 0; i < op->n_out; i++) out[i] = NEAP_NONE;
  if (g->error.status != NEAP_OK || !check_arity(g, op, in, n_in)) return false;
  neap_opt opt[NEAP_MAX_OPTS];
  neap_error err = {0};
  neap_status s = neap__opts_complete(op, opts, opt, &err);
  if (s != NEAP_OK) return neap__graph_fail(g, op, s, "%s", err.message), false;
  if (!neap__is_composite(op)) return build_node(g, op, in, n_in, opt, out);
  const char *outer = g->called;
  if (!outer) g->called = op->name;
  if (op->expand)
    out[0] = op->expand(g, op, in, n_in, opt);
  else
    op->expand_all(g, op, in, n_in, opt, out);
  g->called = outer;
  /* What failed inside a composite is told in the terms the caller used. */
  if (out[0] == NEAP_NONE && g->error.status != NEAP_OK) {
    snprintf(g->error.op, sizeof g->error.op, "%s", op->name);
    describe_inputs(g, in, n_in);
  }
  return out[0] != NEAP_NONE;
}

neap_id neap__build(neap_graph *g, const neap_op *op, const neap_id *in, uint32_t n_in, const neap_opt *opts) {
  neap_id out[NEAP_MAX_OUT] = {NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE};
  return neap__build_n(g, op, in, n_in, opts, out) ? out[0] : NEAP_NONE;
}

neap_id neap__build1(neap_graph *g, const neap_op *op, neap_id a) { return neap__build(g, op, &a, 1, NULL); }

neap_id neap__build2(neap_graph *g, const neap_op *op, neap_id a, neap_id b) {
  return neap__build(g, op, (neap_id[]){a, b}, 2, NULL);
}

neap_id neap__build3(neap_graph *g, const neap_op *op, neap_id a, neap_id b, neap_id c) {
  return neap__build(g, op, (neap_id[]){a, b, c}, 3, NULL);
}
