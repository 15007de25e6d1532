/* Two engines in two threads at the same time: neither sees the other, and each gives the bits it gives alone. */
#include <pthread.h>

#include "embed.h"

#define STEPS 20

typedef struct worker {
  uint64_t seed;
  uint64_t limit;
  bytes weights;
  double loss;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  neap_config config;
  neap_config_init(&config);
  config.threads = 2;
  config.seed = w->seed;
  config.memory_limit = w->limit;
  neap_engine *engine = open_engine(&config);
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  neap_arg steps = neap_integer(STEPS);
  OK(engine, neap_call(engine, "train", &steps, 1, NULL, 0));
  w->weights = ask_bytes(engine, "weights");
  w->loss = ask(engine, "last_loss");
  CHECK(memory_of(engine).limit == w->limit, "the limit is another engine's");
  neap_destroy(engine);
  return NULL;
}

int main(void) {
  worker alone = {.seed = 1}, pair[2] = {{.seed = 1}, {.seed = 2, .limit = UINT64_C(64) << 20}};
  pthread_t thread[2];
  work(&alone);
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, work, &pair[i]) == 0, "no thread");
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  CHECK(same(alone.weights, pair[0].weights), "other bits beside another engine");
  CHECK(!same(pair[0].weights, pair[1].weights), "two seeds gave the same network");
  CHECK(alone.loss > 0 && alone.loss < 0.5, "loss %g", alone.loss);
  free(alone.weights.data);
  for (int i = 0; i < 2; i++) free(pair[i].weights.data);
  return 0;
}
