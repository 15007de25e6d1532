/* Training in the frames of a game: slices of updates by neap_tick, and a policy network that answers in every
 * frame, also while an update is unfinished. It always sees the parameters of the last commit, whole. */
#include "embed.h"

#define STEPS 8
#define INPUTS 64
#define OUTPUTS 8
#define SLICE_US 200
#define MAX_FRAMES 200000

/* Counts what is asked of the host's memory. */
typedef struct counter {
  uint64_t requests;
} counter;

static void *count_alloc(void *user, void *p, size_t old_size, size_t new_size) {
  (void)old_size;
  if (new_size == 0) {
    free(p);
    return NULL;
  }
  ((counter *)user)->requests++;
  return realloc(p, new_size);
}

static neap_engine *open_trainer(counter *count) {
  neap_config config;
  neap_config_init(&config);
  config.threads = 2;
  config.seed = 3;
  config.alloc = count_alloc;
  config.alloc_user = count;
  neap_engine *engine = open_engine(&config);
  OK(engine, neap_load_file(engine, SCRIPTS "/train.lua"));
  return engine;
}

static void act(neap_exported *policy, const counter *count, const float *input, float *output) {
  const void *inputs[] = {input};
  void *outputs[] = {output};
  uint64_t before = count->requests;
  neap_status status = neap_program_run(policy, inputs, outputs);
  CHECK(status == NEAP_OK, "%s", neap_status_name(status));
  CHECK(count->requests == before, "running a program took memory %d times", (int)(count->requests - before));
}

static void check_shapes(const neap_exported *policy) {
  CHECK(neap_program_inputs(policy) == 1 && neap_program_outputs(policy) == 1, "other inputs or outputs");
  const neap_array *in = neap_program_input(policy, 0), *out = neap_program_output(policy, 0);
  CHECK(in && in->ndim == 2 && in->dim[0] == 1 && in->dim[1] == INPUTS && in->dtype == NEAP_F32, "input's shape");
  CHECK(out && out->bytes == OUTPUTS * sizeof(float), "output's shape");
  CHECK(!neap_program_input(policy, 1), "an input that is not there");
}

/* Returns frames in which an update was unfinished at their end. */
static int play(neap_engine *engine, neap_exported *policy, const counter *count) {
  float input[INPUTS], now[OUTPUTS], committed[OUTPUTS];
  int unfinished = 0, commits = 0, changes = 0;
  for (int i = 0; i < INPUTS; i++) input[i] = 0.01f * (float)i;
  act(policy, count, input, committed);
  for (int frame = 0; frame < MAX_FRAMES; frame++) {
    neap_tick_result r = tick(engine, SLICE_US);
    act(policy, count, input, now);
    int changed = memcmp(now, committed, sizeof now) != 0;
    if (r.state == NEAP_TICK_COMMITTED) {
      commits += (int)r.commits;
      changes += changed;
      memcpy(committed, now, sizeof now);
    } else {
      CHECK(!changed, "the network changed in frame %d, in which nothing was committed", frame);
    }
    if (r.state == NEAP_TICK_UPDATING) {
      unfinished++;
      CHECK(r.next_us > 0, "no prediction for an unfinished update");
    }
    if (r.state == NEAP_TICK_STOPPED) {
      CHECK(commits == STEPS && changes == STEPS, "%d commits, %d seen, wanted %d", commits, changes, STEPS);
      return unfinished;
    }
  }
  CHECK(0, "%d frames and %d commits", MAX_FRAMES, commits);
  return 0;
}

int main(void) {
  counter count = {0};
  neap_arg steps = neap_integer(STEPS);
  neap_engine *whole = open_trainer(&count);
  OK(whole, neap_call(whole, "train", &steps, 1, NULL, 0));
  bytes wanted = ask_bytes(whole, "weights");
  neap_destroy(whole);

  neap_engine *engine = open_trainer(&count);
  neap_exported *policy = NULL;
  CHECK(tick(engine, SLICE_US).state == NEAP_TICK_IDLE, "not idle with nothing registered");
  FAILS(engine, NEAP_NOT_FOUND, neap_program_find(engine, "nothing", &policy));
  OK(engine, neap_program_find(engine, "act", &policy));
  check_shapes(policy);
  OK(engine, neap_call(engine, "prepare", NULL, 0, NULL, 0));
  OK(engine, neap_call(engine, "train_by_ticks", &steps, 1, NULL, 0));
  CHECK(tick(engine, SLICE_US).state == NEAP_TICK_PREPARE, "preparing is due and not said to be");
  OK(engine, neap_prepare(engine));
  int unfinished = play(engine, policy, &count);
  CHECK(unfinished >= STEPS, "only %d frames ended within an update: the slices prove nothing", unfinished);
  bytes got = ask_bytes(engine, "weights");
  CHECK(same(wanted, got), "training in slices gave other bits");
  neap_destroy(engine);
  free(wanted.data);
  free(got.data);
  return 0;
}
