/* The host halves the budget in the middle of an update: the update is dropped, nothing else changes, the memory is
 * back before the call returns, and training goes on within the new budget. */
#include "embed.h"

#define STEPS 12
#define MAX_TICKS 100000

static neap_engine *open_trainer(uint64_t limit) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 1;
  config.seed = 7;
  config.memory_limit = limit;
  neap_engine *engine = open_engine(&config);
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  return engine;
}

/* Without a limit. *need is the most that was in use. */
static bytes train_whole(uint64_t *need) {
  neap_engine *engine = open_trainer(0);
  neap_arg steps = neap_integer(STEPS);
  OK(engine, neap_call(engine, "train", &steps, 1, NULL, 0));
  bytes weights = ask_bytes(engine, "weights");
  *need = memory_of(engine).peak;
  neap_destroy(engine);
  return weights;
}

static void stop_within_update(neap_engine *engine) {
  for (int i = 0; i < MAX_TICKS; i++)
    if (tick(engine, 50).state == NEAP_TICK_UPDATING && ask(engine, "steps") >= 2) return;
  CHECK(0, "no update was unfinished after any of %d ticks", MAX_TICKS);
}

static void train_to_end(neap_engine *engine, uint64_t limit) {
  for (int i = 0; i < MAX_TICKS; i++) {
    neap_tick_result r = tick(engine, 2000);
    CHECK(limit == 0 || memory_of(engine).reserved <= limit, "%llu bytes reserved, the limit is %llu",
          (unsigned long long)memory_of(engine).reserved, (unsigned long long)limit);
    if (r.state == NEAP_TICK_STOPPED) return;
  }
  CHECK(0, "training did not end");
}

int main(void) {
  uint64_t need = 0;
  bytes wanted = train_whole(&need);
  neap_arg steps = neap_integer(STEPS);
  neap_engine *engine = open_trainer(need + need / 8);
  OK(engine, neap_call(engine, "train_by_ticks", &steps, 1, NULL, 0));
  stop_within_update(engine);
  uint64_t half = memory_of(engine).limit / 2;
  bytes before = ask_bytes(engine, "weights");
  CHECK(memory_of(engine).in_use > half, "the update needs no more than half");
  double commits = ask(engine, "steps"), batch = ask(engine, "micro_batch");

  OK(engine, neap_set_memory_limit(engine, half, NEAP_NOW));
  neap_memory_info info = memory_of(engine);
  CHECK(info.limit == half && info.in_use <= half && info.reserved <= half,
        "%llu in use, %llu reserved, the limit is %llu", (unsigned long long)info.in_use,
        (unsigned long long)info.reserved, (unsigned long long)half);
  bytes after = ask_bytes(engine, "weights");
  CHECK(same(before, after), "a dropped update changed parameters");
  CHECK(ask(engine, "steps") == commits, "a dropped update was counted");

  train_to_end(engine, half);
  CHECK(ask(engine, "steps") == STEPS, "%g updates of %d", ask(engine, "steps"), STEPS);
  CHECK(ask(engine, "micro_batch") < batch, "the plan stayed the same within half the memory");
  bytes got = ask_bytes(engine, "weights");
  CHECK(same(wanted, got), "micro-batches of whole slabs gave other bits");

  /* A limit below what must stay is refused in words, and holds. */
  FAILS(engine, NEAP_OOM, neap_set_memory_limit(engine, 4096, NEAP_NOW));
  CHECK(neap_last_error(engine)->bytes > 4096 && memory_of(engine).limit == 4096, "bytes or limit");
  FAILS(engine, NEAP_OOM, run(engine, "require('neap').zeros(100000)"));
  /* Later: an unfinished update keeps what it has. */
  OK(engine, neap_set_memory_limit(engine, 0, NEAP_NEXT));
  steps = neap_integer(STEPS + 4);
  OK(engine, neap_call(engine, "train_by_ticks", &steps, 1, NULL, 0));
  for (int i = 0; i < MAX_TICKS && tick(engine, 50).state != NEAP_TICK_UPDATING; i++) continue;
  uint64_t in_use = memory_of(engine).in_use;
  OK(engine, neap_set_memory_limit(engine, half, NEAP_NEXT));
  CHECK(memory_of(engine).in_use == in_use, "a limit for the next update took memory from this one");
  train_to_end(engine, 0);
  CHECK(memory_of(engine).in_use <= half, "the limit did not come into force");
  neap_destroy(engine);
  free(wanted.data);
  free(before.data);
  free(after.data);
  free(got.data);
  return 0;
}
