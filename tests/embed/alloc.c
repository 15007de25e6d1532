/* The host's allocator refuses: the n-th request, or all from the n-th on, wherever it comes. Every call gives a
 * status, and destroying the engine leaves nothing behind. */
#include "embed.h"

#define HEADER 16
#define STEPS 3

typedef struct heap {
  uint64_t asked, refuse_at; /* 0: never */
  int refuse_after;          /* and all after it */
  uint64_t blocks;
} heap;

static void *heap_alloc(void *user, void *p, size_t old_size, size_t new_size) {
  heap *h = user;
  char *block = p ? (char *)p - HEADER : NULL;
  size_t known = 0;
  if (block) memcpy(&known, block, sizeof known);
  CHECK(known == old_size, "a block of %zu bytes was said to have %zu", known, old_size);
  if (new_size == 0) {
    h->blocks -= block ? 1 : 0;
    free(block);
    return NULL;
  }
  if (new_size > old_size) {
    h->asked++;
    if (h->refuse_at && (h->asked == h->refuse_at || (h->refuse_after && h->asked > h->refuse_at))) return NULL;
  }
  block = realloc(block, new_size + HEADER);
  CHECK(block, "the machine has no memory");
  h->blocks += p ? 0 : 1;
  memcpy(block, &new_size, sizeof new_size);
  return block + HEADER;
}

static neap_status answer(void *user, const neap_arg *args, size_t n_args, neap_arg *results, size_t *n_results) {
  (void)user, (void)args, (void)n_args;
  results[0] = neap_string("yes", 3);
  *n_results = 1;
  return NEAP_OK;
}

static const char script[] = "function f(t) return host.answer(t), t * 2 end";

/* A life in which everything happens once. The first failure is returned. */
static neap_status live(heap *h) {
  neap_config config;
  neap_engine *engine = NULL;
  neap_exported *policy = NULL;
  float data[4] = {1, 2, 3, 4}, out[64];
  neap_array array = {data, sizeof data, NEAP_F32, 1, {4}};
  neap_arg arg = neap_tensor_arg(&array), results[2] = {neap_number(0), neap_room(out, sizeof out)};
  neap_arg steps = neap_integer(STEPS);
  neap_config_init(&config);
  config.threads = 1;
  config.alloc = heap_alloc;
  config.alloc_user = h;
  neap_status s = neap_engine_create(&config, &engine);
  if (s == NEAP_OK) s = neap_register(engine, "answer", answer, NULL);
  if (s == NEAP_OK) s = run(engine, script);
  if (s == NEAP_OK) s = neap_call(engine, "f", &arg, 1, results, 2);
  if (s == NEAP_OK) s = neap_load_file(engine, SCRIPTS "/train.lua");
  if (s == NEAP_OK) s = neap_call(engine, "train_by_ticks", &steps, 1, NULL, 0);
  for (int i = 0; i < 5 && s == NEAP_OK; i++) s = neap_tick(engine, 1000, NULL);
  if (s == NEAP_OK) s = neap_set_memory_limit(engine, UINT64_C(1) << 20, NEAP_NOW);
  if (s == NEAP_OK) s = neap_program_find(engine, "act", &policy);
  if (engine) (void)neap_tick(engine, 1000, NULL); /* also after a failure */
  neap_destroy(engine);
  return s;
}

static void check(uint64_t at, int after) {
  heap h = {.refuse_at = at, .refuse_after = after};
  neap_status s = live(&h);
  CHECK(h.blocks == 0, "%llu blocks are left after request %llu was refused", (unsigned long long)h.blocks,
        (unsigned long long)at);
  CHECK(s == NEAP_OK || s == NEAP_NOMEM || s == NEAP_SCRIPT, "request %llu refused: %s", (unsigned long long)at,
        neap_status_name(s));
  CHECK(!after || s != NEAP_OK, "all requests from %llu on refused, and nothing failed", (unsigned long long)at);
}

int main(void) {
  heap h = {0};
  neap_status s = live(&h);
  CHECK(s == NEAP_OK && h.blocks == 0, "%s with all the memory there is", neap_status_name(s));
  CHECK(h.asked > 1000, "only %llu requests: the host's allocator is not used", (unsigned long long)h.asked);
  for (uint64_t n = 1; n < 100; n++) check(n, 0);
  for (uint64_t n = 100; n < h.asked; n += 1 + h.asked / 400) check(n, 0);
  for (uint64_t n = 1; n < h.asked * 9 / 10; n += 1 + h.asked / 60) check(n, 1);
  return 0;
}
