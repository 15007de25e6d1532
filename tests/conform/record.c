/* Each record is complete and consistent. */
#include <ctype.h>
#include <string.h>

#include "conform/conform.h"
#include "op/op.h"

static void check_name(const cf_case *c) {
  for (const char *p = c->op->name; *p; p++)
    if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_')
      cf_complain(c, "is named with '%c'", *p);
  if (neap__op_find(c->op->name) != c->op) cf_complain(c, "is not found by its name");
}

static void check_doc(const cf_case *c) {
  const char *doc = c->op->doc;
  const size_t n = doc ? strlen(doc) : 0;
  if (n < 4 || doc[n - 1] != '.' || strchr(doc, '\n')) cf_complain(c, "has no sentence of documentation");
}

/* --- what help and the reference pages show --- */

/* The inputs or results in text up to `end`, which commas outside of brackets part; how many may be left out and are
 * lists. */
typedef struct arg_count {
  uint32_t all, optional, lists;
} arg_count;

static arg_count count_args(const char *text, const char *end) {
  arg_count n = {0};
  int depth = 0;
  bool name = true;
  if (text < end) n.all = 1;
  for (const char *p = text; p < end; p++) {
    depth += (*p == '[') - (*p == ']');
    if (*p == ' ') name = false;
    if (*p == '?' && name) n.optional++;
    if (*p == '.' && name && p[-1] != '.') n.lists++;
    if (*p != ',' || depth > 0) continue;
    n.all++;
    p++; /* the space */
    name = true;
  }
  return n;
}

static void check_args(const cf_case *c) {
  const neap_op *op = c->op;
  const char *arrow = op->args ? strstr(op->args, "-> ") : NULL;
  const uint32_t results = op->results ? op->results : 1;
  if (!arrow) {
    cf_complain(c, "does not name its inputs and results");
    return;
  }
  const arg_count in = count_args(op->args, arrow), out = count_args(arrow + 3, op->args + strlen(op->args));
  if (op->max_in == 255 ? in.lists != 1 : in.all != op->max_in || (int)in.optional != op->max_in - op->min_in)
    cf_complain(c, "names %u inputs, of which %u may be left out: \"%s\"", in.all, in.optional, op->args);
  if (out.all != results) cf_complain(c, "names %u results of %u: \"%s\"", out.all, results, op->args);
}

static void check_shown(const cf_case *c) {
  const neap_op *op = c->op;
  if (op->internal) return;
  if (op->args || !op->row) check_args(c);
  if (op->topic == NEAP_TOPIC_NONE && !op->row) cf_complain(c, "has no topic");
  if (!op->example || !strstr(op->example, op->name) || !strstr(op->example, "  --> "))
    cf_complain(c, "has no example that calls it and tells what is printed");
  for (int k = 0; k < NEAP_MAX_OPTS && op->opts[k].type != NEAP_OPT_END; k++)
    if (!op->opts[k].doc) cf_complain(c, "does not tell what option `%s` means", op->opts[k].name);
}

static void check_option(const cf_case *c, int k) {
  const neap_opt_spec *s = &c->op->opts[k];
  if (!s->name || !s->name[0]) {
    cf_complain(c, "option %d has no name", k + 1);
    return;
  }
  for (int i = 0; i < k; i++)
    if (strcmp(c->op->opts[i].name, s->name) == 0) cf_complain(c, "option `%s` is there twice", s->name);
  if (s->required && s->has_default) cf_complain(c, "option `%s` is required and has a default", s->name);
  if (s->min > s->max) cf_complain(c, "option `%s` has no value in its range", s->name);
  if ((s->type == NEAP_OPT_CHOICE) != (s->choices != NULL))
    cf_complain(c, "option `%s`: choices are for CHOICE", s->name);
  const bool bounded = s->min != 0 || s->max != 0;
  if (bounded && s->has_default && (s->def < s->min || s->def > s->max))
    cf_complain(c, "option `%s` has a default out of its range", s->name);
}

static void check_rules(const cf_case *c) {
  const neap_op *op = c->op;
  if (op->n_out < 1 || op->n_out > NEAP_MAX_OUT) cf_complain(c, "has %d outputs", op->n_out);
  if (op->min_in > op->max_in) cf_complain(c, "takes %d to %d inputs", op->min_in, op->max_in);
  if (op->expand && op->expand_all) cf_complain(c, "is expanded in two ways");
  if (neap__is_composite(op)) {
    if (op->infer || op->grad || op->unfused || op->batch) cf_complain(c, "is a composite: its parts have the rules");
    return;
  }
  if (!op->infer) cf_complain(c, "has no shape rule");
  if (!op->batch && op->rule != NEAP_BATCH_MIX) cf_complain(c, "has no batch rule");
  if (!op->grad && !op->nondiff && !op->internal) cf_complain(c, "has no gradient");
  if (op->grad && op->unfused) cf_complain(c, "has two gradients: one rule, or parts that have some");
  if (op->grad && op->nondiff && !op->row) cf_complain(c, "has a gradient that nobody asks for");
  if (op->alias && op->inplace) cf_complain(c, "is an alias: nothing is written");
  if (op->max_in < 8 && (op->inplace >> op->max_in || op->shape_only >> op->max_in))
    cf_complain(c, "speaks of inputs it does not take");
  if (op->inplace & op->shape_only) cf_complain(c, "is in place of an input that has no bytes");
}

void cf_check_record(const cf_case *c) {
  check_name(c);
  check_doc(c);
  for (int k = 0; k < NEAP_MAX_OPTS && c->op->opts[k].type != NEAP_OPT_END; k++) check_option(c, k);
  check_rules(c);
  check_shown(c);
}
