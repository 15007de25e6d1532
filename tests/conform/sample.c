/* Sample lines of op records, and what is said about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "op/op.h"

static const char *const short_names[] = {"f32", "f64", "i64", "i32", "u8", "bool"};
enum { SHORT_NAMES = sizeof short_names / sizeof short_names[0] };

static _Noreturn void malformed(const neap_op *op, const char *text, const char *at) {
  fail_msg("%s: sample \"%s\" is not understood at \"%s\"", op->name, text, at);
  abort(); /* fail_msg does not return */
}

/* --- inputs --- */
static const char *parse_shape(const char *p, neap_shape *s) {
  s->ndim = 0;
  for (p++; *p && *p != ']';) {
    char *end;
    s->dim[s->ndim++] = strtoll(p, &end, 10);
    if (end == p || s->ndim == NEAP_MAX_DIMS) return NULL;
    p = *end == ',' ? end + 1 : end;
  }
  return *p == ']' ? p + 1 : NULL;
}

static const char *parse_marks(const char *p, cf_input *in) {
  while (*p == ':') {
    const size_t n = strcspn(++p, ": ;");
    if (n == 8 && strncmp(p, "positive", n) == 0)
      in->positive = true;
    else if (n == 8 && strncmp(p, "distinct", n) == 0)
      in->distinct = true;
    else if (n == 4 && strncmp(p, "unit", n) == 0)
      in->unit = true;
    else if (n > 6 && strncmp(p, "above=", 6) == 0)
      in->above = strtod(p + 6, NULL);
    else if (n > 6 && strncmp(p, "below=", 6) == 0)
      in->below = strtoll(p + 6, NULL, 10);
    else
      return NULL;
    p += n;
  }
  return p;
}

static const char *parse_input(const char *p, cf_input *in) {
  memset(in, 0, sizeof *in);
  const size_t n = strcspn(p, "[");
  int t = 0;
  while (t < SHORT_NAMES && (strlen(short_names[t]) != n || strncmp(p, short_names[t], n) != 0)) t++;
  if (t == SHORT_NAMES || p[n] != '[') return NULL;
  in->desc.dtype = (neap_dtype)t;
  p = parse_shape(p + n, &in->desc.shape);
  return p ? parse_marks(p, in) : NULL;
}

/* --- options --- */
/* Positions are 1-based or negative in samples. */
static int64_t position(int64_t i) { return i > 0 ? i - 1 : i; }

static bool parse_list(const char *value, const neap_opt_spec *s, neap_opt *o) {
  o->n = 0;
  for (const char *p = value; *p;) {
    char *end;
    const int64_t i = strtoll(p, &end, 10);
    if (end == p || o->n == NEAP_MAX_DIMS) return false;
    o->v.list[o->n++] = s->type == NEAP_OPT_DIMS ? position(i) : i;
    p = *end == ',' ? end + 1 : end;
  }
  if (s->type == NEAP_OPT_PAIR && o->n == 1) o->v.list[o->n++] = o->v.list[0];
  return s->type != NEAP_OPT_PAIR || o->n == 2;
}

static bool parse_choice(const char *value, const char *choices, int64_t *out) {
  const size_t n = strlen(value);
  *out = 0;
  for (const char *p = choices; p; (*out)++) {
    const size_t word = strcspn(p, "|");
    if (word == n && strncmp(p, value, n) == 0) return true;
    p = p[word] ? p + word + 1 : NULL;
  }
  return false;
}

static bool parse_value(const char *value, const neap_opt_spec *s, neap_opt *o) {
  neap_dtype t;
  char *end = NULL;
  switch (s->type) {
    case NEAP_OPT_BOOL: o->v.i = strcmp(value, "true") == 0; return o->v.i || strcmp(value, "false") == 0;
    case NEAP_OPT_INT: o->v.i = strtoll(value, &end, 10); return end != value && !*end;
    case NEAP_OPT_DIM: o->v.i = position(strtoll(value, &end, 10)); return end != value && !*end;
    case NEAP_OPT_FLOAT: o->v.f = strtod(value, &end); return end != value && !*end;
    case NEAP_OPT_DTYPE:
      if (!neap__dtype_parse(value, &t)) return false;
      o->v.i = t;
      return true;
    case NEAP_OPT_CHOICE: return parse_choice(value, s->choices, &o->v.i);
    default: return parse_list(value, s, o);
  }
}

static bool parse_option(const char *text, size_t n, cf_case *c) {
  char word[128];
  if (n >= sizeof word) return false;
  memcpy(word, text, n);
  word[n] = '\0';
  char *value = strchr(word, '=');
  if (!value) return false;
  *value++ = '\0';
  for (int i = 0; i < NEAP_MAX_OPTS && c->op->opts[i].type != NEAP_OPT_END; i++) {
    if (strcmp(c->op->opts[i].name, word) != 0) continue;
    c->opt[i].set = 1;
    return parse_value(value, &c->op->opts[i], &c->opt[i]);
  }
  return false;
}

void cf_parse(cf_case *c, const neap_op *op, const char *text) {
  const char *p = text + strspn(text, " ");
  memset(c, 0, sizeof *c);
  c->op = op;
  for (; *p && *p != ';'; p += strspn(p, " ")) {
    const char *end = c->n_in < CF_INPUTS ? parse_input(p, &c->in[c->n_in++]) : NULL;
    if (!end) malformed(op, text, p);
    p = end;
  }
  c->options = p;
  while (*p == ';') {
    p++;
    p += strspn(p, " ");
    size_t n = strcspn(p, ";"), trimmed = n;
    while (trimmed > 0 && p[trimmed - 1] == ' ') trimmed--;
    if (!parse_option(p, trimmed, c)) malformed(op, text, p);
    p += n;
  }
}

cf_case cf_wide(const cf_case *c) {
  cf_case w = *c;
  for (uint32_t i = 0; i < w.n_in; i++)
    if (neap__dtype_is_float(w.in[i].desc.dtype)) w.in[i].desc.dtype = NEAP_F64;
  for (int i = 0; i < NEAP_MAX_OPTS && w.op->opts[i].type != NEAP_OPT_END; i++) {
    const neap_opt_spec *s = &w.op->opts[i];
    if (s->type != NEAP_OPT_DTYPE) continue;
    const bool narrow = w.opt[i].set ? w.opt[i].v.i == NEAP_F32 : s->has_default && (neap_dtype)s->def == NEAP_F32;
    if (narrow) w.opt[i] = NEAP_INT(NEAP_F64);
  }
  return w;
}

/* --- remarks --- */
const char *cf_title(const cf_case *c) {
  static char text[600];
  size_t used = (size_t)snprintf(text, sizeof text, "%s", c->op->name);
  for (uint32_t i = 0; i < c->n_in && used < sizeof text; i++) {
    const neap_desc *d = &c->in[i].desc;
    char shape[96];
    used += (size_t)snprintf(text + used, sizeof text - used, " %s%s",
                             (int)d->dtype < SHORT_NAMES ? short_names[d->dtype] : neap__dtype_name(d->dtype),
                             neap__shape_text(&d->shape, shape, sizeof shape));
  }
  if (used < sizeof text) snprintf(text + used, sizeof text - used, "%s", c->options);
  return text;
}

static int complaints;

void cf_complain(const cf_case *c, const char *fmt, ...) {
  enum { ENOUGH = 12 };
  char text[800];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (complaints++ < ENOUGH) print_error("%s: %s\n", cf_title(c), text);
}

int cf_complaints(void) {
  const int n = complaints;
  complaints = 0;
  return n;
}

typedef struct note {
  const char *heading;
  const neap_op *op;
} note;
static note notes[4096];
static size_t n_notes;

void cf_note(const char *heading, const neap_op *op) {
  for (size_t i = 0; i < n_notes; i++)
    if (notes[i].op == op && strcmp(notes[i].heading, heading) == 0) return;
  if (n_notes < sizeof notes / sizeof notes[0]) notes[n_notes++] = (note){heading, op};
}

void cf_print_notes(void) {
  for (size_t i = 0; i < n_notes; i++) {
    bool first = true;
    for (size_t k = 0; k < i; k++) first = first && strcmp(notes[k].heading, notes[i].heading) != 0;
    if (!first) continue;
    print_message("%s:", notes[i].heading);
    for (size_t k = i; k < n_notes; k++)
      if (strcmp(notes[k].heading, notes[i].heading) == 0) print_message(" %s", notes[k].op->name);
    print_message("\n");
  }
}
