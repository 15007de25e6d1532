/* A trainer that the host advances by ticks gives the bits that it gives by itself; preparing leaves nothing that a
 * tick would have to trace or plan. */
#include "embed.h"

#define STEPS 11 /* ends in the middle of an epoch */
#define MAX_TICKS 100000

static neap_engine *open_trainer(void) {
  neap_engine *engine = open_plain();
  OK(engine, neap_load_file(engine, SCRIPTS "/trainer.lua"));
  return engine;
}

static void run_ticks(neap_engine *engine) {
  int commits = 0;
  CHECK(tick(engine, 100).state == NEAP_TICK_PREPARE, "a trainer asks to be prepared");
  OK(engine, neap_prepare(engine));
  CHECK(ask(engine, "steps") == 0, "preparing trained");
  uint64_t reserved = memory_of(engine).in_use;
  for (int i = 0; i < MAX_TICKS; i++) {
    neap_tick_result r = tick(engine, 100);
    commits += (int)r.commits;
    if (r.state == NEAP_TICK_IDLE) break;
    if (commits == 0) CHECK(memory_of(engine).in_use == reserved, "the first update took more memory");
  }
  CHECK(commits == STEPS && ask(engine, "steps") == STEPS, "%d commits of %d", commits, STEPS);
}

int main(void) {
  neap_arg steps = neap_integer(STEPS);
  neap_engine *whole = open_trainer(), *sliced = open_trainer();
  OK(whole, neap_call(whole, "fit", &steps, 1, NULL, 0));
  OK(sliced, neap_call(sliced, "begin", &steps, 1, NULL, 0));
  run_ticks(sliced);
  bytes wanted = ask_bytes(whole, "weights"), got = ask_bytes(sliced, "weights");
  CHECK(same(wanted, got), "training in slices gave other bits");
  neap_destroy(whole);
  neap_destroy(sliced);
  free(wanted.data);
  free(got.data);
  return 0;
}
