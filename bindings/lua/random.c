/* Random draws outside programs: from the engine's stream of numbers, or a generator's. */
#include <math.h>
#include <string.h>

#include "bindings/lua/lua_neap.h"

/* --- generators -------------------------------------------------------------------------------------- */

typedef struct generator {
  neap_handle base;
  neap_rng rng;
} generator;

static void drop(neap_handle *h) { (void)h; }

static const neap_class generator_class = {"neap.generator", drop};

/* generator([{seed = 0}]) */
static int make_generator(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  lua_settop(L, 1);
  neap__arg_options(L, 1, "generator", "seed");
  uint64_t seed = 0;
  if (!lua_isnil(L, 1) && lua_getfield(L, 1, "seed") != LUA_TNIL)
    seed = (uint64_t)neap__arg_integer(L, 2, "generator", "seed", INT64_MIN, INT64_MAX);
  generator *g = neap__handle_new(L, s, &generator_class, sizeof *g, 0);
  g->rng.seed = seed;
  return 1;
}

/* g:state() -> {seed =, position =} */
static int get_state(lua_State *L) {
  const generator *g = neap__handle_check(L, 1, &generator_class, "state");
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, (lua_Integer)g->rng.seed);
  lua_setfield(L, -2, "seed");
  lua_pushinteger(L, (lua_Integer)g->rng.position);
  lua_setfield(L, -2, "position");
  return 1;
}

/* g:load_state(state) -> g */
static int load_state(lua_State *L) {
  generator *g = neap__handle_check(L, 1, &generator_class, "load_state");
  lua_settop(L, 2);
  neap__arg_table(L, 2, "load_state", "the state");
  lua_getfield(L, 2, "seed");
  lua_getfield(L, 2, "position");
  const uint64_t seed = (uint64_t)neap__arg_integer(L, 3, "load_state", "the state's seed", INT64_MIN, INT64_MAX);
  g->rng.position = (uint64_t)neap__arg_integer(L, 4, "load_state", "the state's position", 0, INT64_MAX);
  g->rng.seed = seed;
  lua_settop(L, 1);
  return 1;
}

static int generator_tostring(lua_State *L) {
  const generator *g = neap__handle_test(L, 1, &generator_class);
  if (!g) return 0;
  lua_pushfstring(L, "neap.generator of seed %I, %I words drawn", (LUAI_UACINT)g->rng.seed,
                  (LUAI_UACINT)g->rng.position);
  return 1;
}

/* The stream that the options at index name (0: no options). Draws may not be part of a trace. */
static neap_rng *stream_of(lua_State *L, neap_lua *s, int options, const char *function) {
  if (s->trace)
    neap__lua_fail(L, NEAP_INVALID, NULL,
                   "%s inside a traced function would be drawn once and stay: draw outside and pass it in", function);
  char text[80];
  neap_rng *r = &s->ctx->rng;
  if (options && lua_getfield(L, options, "generator") != LUA_TNIL) {
    generator *g = neap__handle_test(L, -1, &generator_class);
    if (!g || !g->base.lua)
      neap__lua_fail(L, NEAP_INVALID, function, "generator is %s, expected a neap.generator",
                     neap__describe(L, -1, text, sizeof text));
    r = &g->rng;
  }
  if (options) lua_pop(L, 1);
  return r;
}

/* A draw begins at a block of its own, so that its numbers depend on its place in the stream alone. */
static void begin_block(neap_rng *r) { r->position = (r->position + 3) & ~UINT64_C(3); }

/* --- uniform and normal ------------------------------------------------------------------------------ */

/* The next block of Philox, the same words that four neap__rng_u32 give. */
static void draw_words(neap_rng *r, uint32_t out[4]) {
  const uint64_t block = r->position / 4;
  const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r->stream,
                               (uint32_t)(r->stream >> 32)};
  neap__philox(key, counter, out);
  r->position += 4;
}

static double uniform53(const uint32_t w[2]) { return (double)((w[0] | (uint64_t)w[1] << 32) >> 11) * 0x1p-53; }

/* Numbers out of one block; how many. */
typedef int (*draw_fn)(const uint32_t w[4], neap_dtype t, double out[4]);

/* In [0, 1). fp32 from 24 bits: rounding more of them could give 1. */
static int draw_uniform(const uint32_t w[4], neap_dtype t, double out[4]) {
  if (t == NEAP_F64) {
    out[0] = uniform53(w);
    out[1] = uniform53(w + 2);
    return 2;
  }
  for (int i = 0; i < 4; i++) out[i] = (double)(w[i] >> 8) * 0x1p-24;
  return 4;
}

/* Box-Muller: u in (0, 1] and v in [0, 1) give two. */
static void normal_pair(double u, double v, double out[2]) {
  const double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586476925286766559 * v;
  out[0] = radius * cos(angle);
  out[1] = radius * sin(angle);
}

static int draw_normal(const uint32_t w[4], neap_dtype t, double out[4]) {
  if (t == NEAP_F64) {
    normal_pair(1.0 - uniform53(w), uniform53(w + 2), out);
    return 2;
  }
  for (int i = 0; i < 4; i += 2) normal_pair(((double)w[i] + 1) * 0x1p-32, (double)w[i + 1] * 0x1p-32, out + i);
  return 4;
}

static neap_status fill_random(neap_rng *r, neap_lua_tensor *t, draw_fn draw, neap_error *err) {
  const size_t size = neap__dtype_size(t->t.dtype);
  neap_stage w;
  neap__stage_begin(&w, t->base.lua->ctx, neap__tensor_data(&t->t), 0);
  begin_block(r);
  for (int64_t left = neap__shape_count(&t->t.shape); left > 0;) {
    uint32_t words[4];
    double numbers[4];
    char element[8];
    draw_words(r, words);
    int n = draw(words, t->t.dtype, numbers);
    for (int i = 0; i < n && left > 0; i++, left--) {
      neap_status s = neap__encode_double(numbers[i], t->t.dtype, element, err);
      if (s == NEAP_OK) s = neap__stage_put(&w, element, size, err);
      if (s != NEAP_OK) return s;
    }
  }
  return neap__stage_flush(&w, err);
}

static int make_random(lua_State *L, const char *function, draw_fn draw) {
  neap_lua *s = neap__lua_get(L);
  neap_desc d;
  neap_error err;
  int options = neap__arg_shape(L, 1, function, &d.shape);
  neap__arg_options(L, options, function, "dtype|generator");
  d.dtype = neap__option_dtype(L, options, function, NEAP_F32);
  if (d.dtype != NEAP_F32 && d.dtype != NEAP_F64)
    neap__lua_fail(L, NEAP_DTYPE, function, "draws fp32 or fp64, not %s", neap__dtype_name(d.dtype));
  neap_rng *r = stream_of(L, s, options, function);
  neap_lua_tensor *t = neap__push_made(L, s, &d, function);
  neap__ok(L, fill_random(r, t, draw, &err), &err);
  return 1;
}

static int rand_uniform(lua_State *L) { return make_random(L, "rand", draw_uniform); }
static int rand_normal(lua_State *L) { return make_random(L, "randn", draw_normal); }

/* --- integers ---------------------------------------------------------------------------------------- */

static neap_status put_integer(neap_stage *w, int64_t i, neap_error *err) {
  return neap__stage_put(w, &i, sizeof i, err);
}

static neap_status fill_integers(neap_rng *r, neap_lua_tensor *t, int64_t low, uint64_t range, neap_error *err) {
  neap_stage w;
  neap__stage_begin(&w, t->base.lua->ctx, neap__tensor_data(&t->t), 0);
  begin_block(r);
  for (int64_t left = neap__shape_count(&t->t.shape); left > 0; left--) {
    neap_status s = put_integer(&w, (int64_t)((uint64_t)low + neap__rng_below(r, range)), err);
    if (s != NEAP_OK) return s;
  }
  return neap__stage_flush(&w, err);
}

/* randint(low, high, shape...[, {generator =}]): int64 in [low, high) */
static int rand_integer(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_desc d = {.dtype = NEAP_I64};
  neap_error err;
  const int64_t low = neap__arg_integer(L, 1, "randint", "low", INT64_MIN, INT64_MAX);
  const int64_t high = neap__arg_integer(L, 2, "randint", "high", INT64_MIN, INT64_MAX);
  if (high <= low)
    neap__lua_fail(L, NEAP_RANGE, "randint", "high is %lld, expected more than low, %lld", (long long)high,
                   (long long)low);
  int options = neap__arg_shape(L, 3, "randint", &d.shape);
  neap__arg_options(L, options, "randint", "generator");
  neap_rng *r = stream_of(L, s, options, "randint");
  neap_lua_tensor *t = neap__push_made(L, s, &d, "randint");
  neap__ok(L, fill_integers(r, t, low, (uint64_t)high - (uint64_t)low, &err), &err);
  return 1;
}

static neap_status put_all(neap_lua_tensor *t, const int64_t *from, int64_t n, neap_error *err) {
  return neap__copy(t->base.lua->ctx, neap__tensor_data(&t->t), from, (size_t)n * sizeof *from, NEAP_COPY_IN, err);
}

/* randperm(n[, {generator =}]): the numbers 0 to n - 1 in random order, int64 (Fisher and Yates). */
static int rand_order(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  lua_settop(L, 2);
  const int64_t n = neap__arg_integer(L, 1, "randperm", "n", 0, INT64_MAX / 16);
  const bool options = neap__arg_options(L, 2, "randperm", "generator");
  neap_rng *r = stream_of(L, s, options ? 2 : 0, "randperm");
  neap_desc d = {.dtype = NEAP_I64, .shape = {.ndim = 1, .dim = {n}}};
  neap_lua_tensor *t = neap__push_made(L, s, &d, "randperm");
  int64_t *order = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *order, 0);
  begin_block(r);
  for (int64_t i = 0; i < n; i++) {
    const int64_t k = (int64_t)neap__rng_below(r, (uint64_t)i + 1);
    order[i] = order[k]; /* k = i reads what is written next */
    order[k] = i;
  }
  neap__ok(L, put_all(t, order, n, &err), &err);
  lua_pop(L, 1);
  return 1;
}

/* --- multinomial --------------------------------------------------------------------------------------- */

typedef struct urn {
  const double *weight; /* of the row */
  double *left;         /* what has not been drawn */
  int64_t n;
} urn;

/* The first place where the running sum passes a share of all: never one of weight 0. */
static int64_t draw_one(neap_rng *r, const urn *u, double total) {
  const double at = neap__rng_uniform(r) * total;
  double sum = 0;
  int64_t last = -1;
  for (int64_t i = 0; i < u->n; i++) {
    if (u->left[i] <= 0) continue;
    last = i;
    sum += u->left[i];
    if (at < sum) return i;
  }
  return last; /* rounding: the sums may end below total */
}

static double total_of(const urn *u) {
  double total = 0;
  for (int64_t i = 0; i < u->n; i++) total += u->left[i];
  return total;
}

/* Raises for what are no weights. */
static void check_row(lua_State *L, const urn *u, int64_t row, int64_t draws, bool replacement) {
  int64_t positive = 0;
  for (int64_t i = 0; i < u->n; i++) {
    if (!(u->weight[i] >= 0) || isinf(u->weight[i]))
      neap__lua_fail(L, NEAP_RANGE, "multinomial",
                     "weight %lld of row %lld is %g, expected a finite number of at least 0", (long long)i + 1,
                     (long long)row + 1, u->weight[i]);
    positive += u->weight[i] > 0;
  }
  if (positive == 0 || (!replacement && positive < draws))
    neap__lua_fail(L, NEAP_RANGE, "multinomial", "row %lld has %lld weights above 0 for %lld draws%s",
                   (long long)row + 1, (long long)positive, (long long)draws,
                   replacement ? "" : " without replacement");
}

static void draw_row(neap_rng *r, const urn *u, int64_t draws, bool replacement, int64_t *out) {
  memcpy(u->left, u->weight, (size_t)u->n * sizeof *u->left);
  double total = total_of(u);
  for (int64_t k = 0; k < draws; k++) {
    out[k] = draw_one(r, u, total);
    if (replacement) continue;
    u->left[out[k]] = 0;
    total = total_of(u);
  }
}

static bool get_replacement(lua_State *L, int options) {
  char text[80];
  if (!options) return false;
  if (lua_getfield(L, options, "replacement") != LUA_TNIL && !lua_isboolean(L, -1))
    neap__lua_fail(L, NEAP_INVALID, "multinomial", "replacement is %s, expected true or false",
                   neap__describe(L, -1, text, sizeof text));
  const bool replacement = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return replacement;
}

/* multinomial(weights, n[, {replacement = false, generator =}]): n places of each row drawn by weight, int64 */
static int multinomial(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  neap_error err;
  char text[96];
  lua_settop(L, 3);
  const neap_lua_tensor *w = neap__concrete_check(L, 1, "multinomial");
  const int64_t draws = neap__arg_integer(L, 2, "multinomial", "n", 1, INT32_MAX);
  const int options = neap__arg_options(L, 3, "multinomial", "replacement|generator") ? 3 : 0;
  const bool replacement = get_replacement(L, options);
  neap_rng *r = stream_of(L, s, options, "multinomial");
  const neap_shape shape = w->t.shape;
  if (shape.ndim < 1 || shape.ndim > 2 || !neap__dtype_is_float(w->t.dtype))
    neap__lua_fail(L, NEAP_SHAPE, "multinomial", "weights are %s %s, expected floating point [n] or [rows, n]",
                   neap__dtype_name(w->t.dtype), neap__shape_text(&shape, text, sizeof text));
  const int64_t rows = shape.ndim == 2 ? shape.dim[0] : 1, n = shape.dim[shape.ndim - 1];
  neap_desc wide = {.dtype = NEAP_F64, .shape = shape}, d = {.dtype = NEAP_I64, .shape = shape};
  d.shape.dim[shape.ndim - 1] = draws;
  neap_lua_tensor *as_wide = neap__push_as(L, s, 1, &wide, "multinomial");
  neap_lua_tensor *t = neap__push_made(L, s, &d, "multinomial");
  double *weights = lua_newuserdatauv(L, (size_t)((rows + 1) * n + 1) * sizeof *weights, 0);
  int64_t *out = lua_newuserdatauv(L, (size_t)(rows * draws + 1) * sizeof *out, 0);
  neap__ok(L,
           neap__copy(s->ctx, weights, neap__tensor_data(&as_wide->t), (size_t)(rows * n) * sizeof *weights,
                      NEAP_COPY_OUT, &err),
           &err);
  for (int64_t i = 0; i < rows; i++) {
    const urn u = {weights + i * n, weights + rows * n, n};
    check_row(L, &u, i, draws, replacement);
  }
  begin_block(r);
  for (int64_t i = 0; i < rows; i++) {
    const urn u = {weights + i * n, weights + rows * n, n};
    draw_row(r, &u, draws, replacement, out + i * draws);
  }
  neap__ok(L, put_all(t, out, rows * draws, &err), &err);
  lua_pop(L, 2);
  return 1;
}

/* --- the engine's stream ------------------------------------------------------------------------------- */

static int manual_seed(lua_State *L) {
  neap_lua *s = neap__lua_get(L);
  s->ctx->seed = (uint64_t)neap__arg_integer(L, 1, "manual_seed", "the seed", INT64_MIN, INT64_MAX);
  s->ctx->rng = (neap_rng){.seed = s->ctx->seed};
  s->ctx->updates = s->ctx->draws = 0;
  return 0;
}

/* random_state() -> seed and position of the draws outside programs, committed updates, runs outside updates that
 * drew. random_state(seed, position) moves the first two, with the last two all of them. */
static int random_state(lua_State *L) {
  neap_context *c = neap__lua_get(L)->ctx;
  if (!lua_isnoneornil(L, 1)) {
    uint64_t seed = (uint64_t)neap__arg_integer(L, 1, "random_state", "the seed", INT64_MIN, INT64_MAX);
    c->rng.position = (uint64_t)neap__arg_integer(L, 2, "random_state", "the position", 0, INT64_MAX);
    c->rng.seed = seed;
    if (!lua_isnoneornil(L, 3)) {
      c->seed = seed;
      c->updates = (uint64_t)neap__arg_integer(L, 3, "random_state", "the number of updates", 0, INT64_MAX);
      c->draws = (uint64_t)neap__arg_integer(L, 4, "random_state", "the number of draws", 0, INT64_MAX);
    }
  }
  lua_pushinteger(L, (lua_Integer)c->rng.seed);
  lua_pushinteger(L, (lua_Integer)c->rng.position);
  lua_pushinteger(L, (lua_Integer)c->updates);
  lua_pushinteger(L, (lua_Integer)c->draws);
  return 4;
}

void neap__open_random(lua_State *L) {
  static const luaL_Reg methods[] = {{"state", get_state}, {"load_state", load_state}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", generator_tostring}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"rand", rand_uniform},       {"randn", rand_normal},         {"randint", rand_integer},
      {"randperm", rand_order},     {"multinomial", multinomial},   {"generator", make_generator},
      {"manual_seed", manual_seed}, {"random_state", random_state}, {NULL, NULL}};
  neap__class_new(L, &generator_class, methods, meta);
  luaL_setfuncs(L, functions, 0);
}
