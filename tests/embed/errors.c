/* What goes wrong is told in words, costs nothing, and leaves an engine that works. */
#include "embed.h"

static neap_status add(void *user, const neap_arg *args, size_t n_args, neap_arg *results, size_t *n_results) {
  (void)user;
  if (n_args != 2) {
    static const char text[] = "two numbers, please";
    results[0] = neap_string(text, sizeof text - 1);
    *n_results = 1;
    return NEAP_INVALID;
  }
  results[0] = neap_number(neap_arg_number(&args[0]) + neap_arg_number(&args[1]));
  *n_results = 1;
  return NEAP_OK;
}

/* The engine is in the middle of the call that called this. */
static neap_status reenter(void *user, const neap_arg *args, size_t n_args, neap_arg *results, size_t *n_results) {
  (void)args, (void)n_args;
  neap_engine *engine = user;
  results[0] = neap_integer(run(engine, "x = 1"));
  *n_results = 1;
  return NEAP_OK;
}

/* The sum of a tensor's elements, and a tensor of the same shape with all of them doubled. */
static neap_status twice(void *user, const neap_arg *args, size_t n_args, neap_arg *results, size_t *n_results) {
  static float kept[16];
  float sum = 0;
  (void)user;
  if (n_args != 1 || args[0].type != NEAP_ARG_TENSOR || args[0].as.tensor.dtype != NEAP_F32) return NEAP_DTYPE;
  neap_array a = args[0].as.tensor;
  for (size_t i = 0; i < a.bytes / sizeof(float) && i < 16; i++) {
    sum += ((const float *)a.data)[i];
    kept[i] = 2 * ((const float *)a.data)[i];
  }
  a.data = kept;
  results[0] = neap_number(sum);
  results[1] = neap_tensor_arg(&a);
  *n_results = 2;
  return NEAP_OK;
}

static const char script[] =
    "local neap = require 'neap'\n"
    "function half(t) kept = t; return t / 2 end\n"
    "function use_kept() return kept:sum():item() end\n"
    "function write(t) t:copy_(t + 1) end\n"
    "function types() return nil, true, 3, 2.5, 'text' end\n"
    "function give_table() return {} end\n"
    "function too_much() return neap.zeros(1 << 20) end\n"
    "function broken()\n"
    "  local missing\n"
    "  return missing.field\n"
    "end\n"
    "ai = {act = function(a, b) return host.add(a, b) end}\n"
    "function add_wrong() return host.add(1) end\n"
    "function tensors() local sum, t = host.twice(neap.tensor {{1, 2}, {3, 4}}); return sum + t:sum():item() end\n"
    "function busy() return host.reenter() end\n"
    "function shapes() return neap.matmul(neap.zeros(2, 3), neap.zeros(2, 3)) end\n";

static void check_values(neap_engine *engine) {
  float data[6] = {2, 4, 6, 8, 10, 12}, out[6];
  neap_array array = {data, sizeof data, NEAP_F32, 2, {2, 3}};
  neap_arg args[2] = {neap_tensor_arg(&array)}, results[5];
  results[0] = neap_room(out, sizeof out);
  OK(engine, neap_call(engine, "half", args, 1, results, 1));
  CHECK(results[0].as.tensor.ndim == 2 && results[0].as.tensor.dim[1] == 3 && out[0] == 1 && out[5] == 6, "halves");
  FAILS(engine, NEAP_CLOSED, neap_call(engine, "use_kept", NULL, 0, NULL, 0));
  OK(engine, neap_call(engine, "write", args, 1, NULL, 0));
  CHECK(data[0] == 3 && data[5] == 13, "a lent tensor is the host's memory");
  results[0] = neap_room(out, sizeof out - 1);
  FAILS(engine, NEAP_RANGE, neap_call(engine, "half", args, 1, results, 1));
  SAYS(engine, "24 bytes");
  OK(engine, neap_call(engine, "types", NULL, 0, results, 5));
  CHECK(results[0].type == NEAP_ARG_NIL && results[1].as.boolean && results[2].as.integer == 3, "types");
  CHECK(results[3].as.number == 2.5 && strcmp(results[4].as.string.text, "text") == 0, "types");
  args[0] = neap_number(2);
  args[1] = neap_integer(3);
  OK(engine, neap_call(engine, "ai.act", args, 2, results, 1));
  CHECK(neap_arg_number(&results[0]) == 5, "host.add gave %g", neap_arg_number(&results[0]));
  CHECK(ask(engine, "tensors") == 30, "host.twice");
}

static void check_bad_arguments(neap_engine *engine) {
  float data[6] = {0};
  neap_arg arg, result = neap_number(0);
  const neap_array good = {data, sizeof data, NEAP_F32, 2, {2, 3}};
  neap_array bad[7];
  for (int i = 0; i < 7; i++) bad[i] = good;
  bad[0].ndim = 9;
  bad[1].ndim = -1;
  bad[2].dim[0] = -2;
  bad[3].dim[0] = INT64_MAX;
  bad[4].bytes = 23;
  bad[5].data = NULL;
  bad[6].data = (char *)data + 1;
  for (int i = 0; i < 7; i++) {
    arg = neap_tensor_arg(&bad[i]);
    neap_status status = neap_call(engine, "half", &arg, 1, NULL, 0);
    CHECK(status == NEAP_SHAPE || status == NEAP_RANGE || status == NEAP_INVALID, "bad array %d: %d", i, (int)status);
    SAYS(engine, "argument 1");
  }
  arg = neap_tensor_arg(&good);
  arg.as.tensor.dtype = (neap_dtype)99;
  FAILS(engine, NEAP_DTYPE, neap_call(engine, "half", &arg, 1, NULL, 0));
  arg.type = (neap_arg_type)42;
  FAILS(engine, NEAP_INVALID, neap_call(engine, "half", &arg, 1, NULL, 0));
  FAILS(engine, NEAP_RANGE, neap_call(engine, "half", &arg, NEAP_MAX_ARGS + 1, NULL, 0));
  FAILS(engine, NEAP_INVALID, neap_call(engine, NULL, NULL, 0, NULL, 0));
  FAILS(engine, NEAP_INVALID, neap_call(engine, "half", NULL, 1, NULL, 0));
  FAILS(engine, NEAP_INVALID, neap_call(engine, "give_table", NULL, 0, &result, 1));
  SAYS(engine, "result 1");
  FAILS(engine, NEAP_RANGE, neap_call(engine, "too_much", NULL, 0, &result, 1));
  FAILS(engine, NEAP_NOT_FOUND, neap_call(engine, "nobody", NULL, 0, NULL, 0));
  FAILS(engine, NEAP_NOT_FOUND, neap_call(engine, "ai.nobody.home", NULL, 0, NULL, 0));
  FAILS(engine, NEAP_INVALID, neap_register(engine, "", add, NULL));
  FAILS(engine, NEAP_INVALID, neap_set_memory_limit(engine, 0, (neap_when)9));
  neap_tick_result small = {.size = 4};
  FAILS(engine, NEAP_INVALID, neap_tick(engine, 10, &small));
}

static void check_script_errors(neap_engine *engine) {
  FAILS(engine, NEAP_SCRIPT, neap_call(engine, "broken", NULL, 0, NULL, 0));
  CHECK(strcmp(neap_last_error(engine)->where, "test:10") == 0, "where is %s", neap_last_error(engine)->where);
  SAYS(engine, "missing");
  FAILS(engine, NEAP_INVALID, neap_call(engine, "add_wrong", NULL, 0, NULL, 0));
  SAYS(engine, "two numbers, please");
  CHECK(strcmp(neap_last_error(engine)->op, "host.add") == 0, "op is %s", neap_last_error(engine)->op);
  FAILS(engine, NEAP_SHAPE, neap_call(engine, "shapes", NULL, 0, NULL, 0));
  CHECK(strncmp(neap_last_error(engine)->where, "test:", 5) == 0 && strcmp(neap_last_error(engine)->op, "matmul") == 0,
        "%s %s", neap_last_error(engine)->where, neap_last_error(engine)->op);
  FAILS(engine, NEAP_SCRIPT, run(engine, "x = = 1"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "error({code = 'nonsense'})"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "error()"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "error(setmetatable({}, {__tostring = function() error 'again' end}))"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "local function f() return f() + 1 end f()"));
  FAILS(engine, NEAP_SCRIPT, run(engine, "coroutine.yield()"));
  FAILS(engine, NEAP_UNSUPPORTED, run(engine, "os.exit(3)"));
  FAILS(engine, NEAP_NOT_FOUND, neap_load_file(engine, "/nonexistent/script.lua"));
  OK(engine, run(engine, "ticker = require('neap').on_tick(function() error 'in a tick' end)"));
  FAILS(engine, NEAP_SCRIPT, neap_tick(engine, 100, NULL));
  SAYS(engine, "in a tick");
  OK(engine, run(engine, "assert(require('neap').off_tick(ticker) and not require('neap').off_tick(ticker))"));
  CHECK(tick(engine, 100).state == NEAP_TICK_IDLE, "not idle");
  CHECK(ask(engine, "busy") == NEAP_BUSY, "a call from inside a call");
}

static void check_memory_errors(neap_engine *engine) {
  OK(engine, neap_set_memory_limit(engine, 1 << 20, NEAP_NOW));
  FAILS(engine, NEAP_OOM, run(engine, "big = require('neap').zeros(1 << 20)"));
  CHECK(neap_last_error(engine)->bytes == (uint64_t)4 << 20, "bytes are %llu",
        (unsigned long long)neap_last_error(engine)->bytes);
  OK(engine, run(engine, "small = require('neap').zeros(1 << 10)"));
  FAILS(engine, NEAP_RANGE, run(engine, "require('neap').zeros(1 << 40, 1 << 40)"));
  OK(engine, neap_set_memory_limit(engine, 0, NEAP_NOW));
  OK(engine, run(engine, "big = require('neap').zeros(1 << 20):sum():item() big, small = nil, nil"));
}

static void check_creation(void) {
  static const char *const modules[] = {"math", "telnet", NULL};
  neap_config config;
  neap_engine *engine = NULL;
  char why[300] = "";
  neap_config_init(&config);
  config.error = why;
  config.error_size = sizeof why;
  config.device = "abacus";
  CHECK(neap_engine_create(&config, &engine) != NEAP_OK && !engine && strstr(why, "abacus"), "%s", why);
  config.device = "cpu";
  config.modules = modules;
  CHECK(neap_engine_create(&config, &engine) == NEAP_INVALID && !engine && strstr(why, "telnet"), "%s", why);
  config.modules = NULL;
  config.script_seconds = -1;
  CHECK(neap_engine_create(&config, &engine) == NEAP_RANGE && strstr(why, "script_seconds"), "%s", why);
  config.size = 8;
  CHECK(neap_engine_create(&config, &engine) == NEAP_INVALID, "a config without a size");
  CHECK(neap_engine_create(NULL, NULL) == NEAP_INVALID, "nowhere to put an engine");
  CHECK(neap_call(NULL, "f", NULL, 0, NULL, 0) == NEAP_INVALID && neap_tick(NULL, 1, NULL) == NEAP_INVALID,
        "no engine");
  CHECK(neap_last_error(NULL)->message[0], "no message");
  neap_destroy(NULL);
}

int main(void) {
  check_creation();
  neap_engine *engine = open_plain();
  OK(engine, neap_register(engine, "add", add, NULL));
  OK(engine, neap_register(engine, "twice", twice, NULL));
  OK(engine, neap_register(engine, "reenter", reenter, engine));
  OK(engine, run(engine, script));
  uint64_t in_use = 0;
  for (int round = 0; round < 3; round++) {
    check_values(engine);
    check_bad_arguments(engine);
    check_script_errors(engine);
    check_memory_errors(engine);
    check_values(engine);
    OK(engine, run(engine, "kept = nil collectgarbage() collectgarbage()"));
    uint64_t now = memory_of(engine).in_use;
    CHECK(round == 0 || now == in_use, "%llu bytes in use, %llu a round before", (unsigned long long)now,
          (unsigned long long)in_use);
    in_use = now;
  }
  neap_destroy(engine);
  return 0;
}
