#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "base/threads.h"
#include "fail_host.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#define MOST_WIDTH 64u

static int threads_of_the_process(void) {
  DIR *d = opendir("/proc/self/task");
  int n = 0;
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

/* A joined thread may stay listed for a moment. */
static void expect_at_most(int threads) {
  for (int i = 0; i < 200 && threads_of_the_process() > threads; i++) usleep(10000);
  assert_true(threads_of_the_process() <= threads);
}

static neap_threads *make_pool(fail_host *f, uint32_t width) {
  neap_threads *t;
  neap_error e;
  fail_host_init(f);
  assert_int_equal(neap__threads_create(&f->host, width, NULL, NULL, &t, &e), NEAP_OK);
  return t;
}

static void drop_pool(fail_host *f, neap_threads *t) {
  neap__threads_destroy(t);
  assert_true(f->host.in_use == 0 && f->blocks == 0 && f->wrong == 0);
}

/* --- what every run keeps ------------------------------------------------------------------------------ */

typedef struct tally {
  atomic_uint *seen; /* by task - first */
  atomic_int busy[MOST_WIDTH];
  atomic_uint broken;
  uint32_t first, count, width;
} tally;

static void note_task(void *ctx, uint32_t task, uint32_t thread) {
  tally *y = ctx;
  if (thread >= y->width || task - y->first >= y->count) {
    atomic_fetch_add(&y->broken, 1);
    return;
  }
  if (atomic_exchange(&y->busy[thread], 1)) atomic_fetch_add(&y->broken, 1);
  atomic_fetch_add(&y->seen[task - y->first], 1);
  atomic_store(&y->busy[thread], 0);
}

static void run_and_check(neap_threads *t, tally *y, uint32_t first, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) atomic_store(&y->seen[i], 0);
  y->first = first;
  y->count = count;
  neap__threads_run(t, note_task, y, first, count);
  assert_int_equal(atomic_load(&y->broken), 0);
  for (uint32_t i = 0; i < count; i++) assert_int_equal(atomic_load(&y->seen[i]), 1);
}

static tally *make_tally(uint32_t width, uint32_t most) {
  tally *y = calloc(1, sizeof *y);
  assert_non_null(y);
  y->seen = calloc(most, sizeof *y->seen);
  assert_non_null(y->seen);
  y->width = width;
  return y;
}

static void drop_tally(tally *y) {
  free(y->seen);
  free(y);
}

static void every_task_runs_once(void **state) {
  static const uint32_t widths[] = {1, 2, 3, 8};
  static const uint32_t counts[] = {0, 1, 2, 3, 7, 8, 9, 1000};
  (void)state;
  for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
    fail_host f;
    neap_threads *t = make_pool(&f, widths[w]);
    tally *y = make_tally(widths[w], 1000);
    assert_int_equal(neap__threads_width(t), widths[w]);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
      run_and_check(t, y, 0, counts[c]);
      run_and_check(t, y, 12345, counts[c]);
      run_and_check(t, y, UINT32_MAX - counts[c], counts[c]);
    }
    drop_tally(y);
    drop_pool(&f, t);
  }
}

static void thousands_of_runs_take_no_memory(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 4);
  tally *y = make_tally(4, 16);
  const uint64_t asked = f.asked;
  (void)state;
  for (uint32_t i = 0; i < 20000; i++) run_and_check(t, y, i, 2 + i % 15);
  assert_true(f.asked == asked);
  drop_tally(y);
  drop_pool(&f, t);
}

static void meet(void *ctx, uint32_t task, uint32_t thread) {
  (void)task;
  (void)thread;
  pthread_barrier_wait(ctx);
}

/* Each task waits for all others: it ends only when as many threads as tasks take part. */
static void tasks_run_side_by_side(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 4);
  pthread_barrier_t all;
  (void)state;
  for (uint32_t n = 2; n <= 4; n++) {
    assert_int_equal(pthread_barrier_init(&all, NULL, n), 0);
    for (int i = 0; i < 200; i++) neap__threads_run(t, meet, &all, 0, n);
    pthread_barrier_destroy(&all);
  }
  drop_pool(&f, t);
}

typedef struct sum_job {
  uint32_t values[64]; /* not atomic: what a task writes is there after the run, what the caller wrote is seen */
  uint32_t scale;
} sum_job;

static void write_value(void *ctx, uint32_t task, uint32_t thread) {
  sum_job *job = ctx;
  (void)thread;
  job->values[task] = task * job->scale;
}

static void plain_writes_are_seen_after_the_run(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 3);
  (void)state;
  for (uint32_t i = 0; i < 3000; i++) {
    sum_job job;
    job.scale = i;
    neap__threads_run(t, write_value, &job, 0, 64);
    for (uint32_t k = 0; k < 64; k++) assert_int_equal(job.values[k], k * i);
  }
  drop_pool(&f, t);
}

/* --- threads ------------------------------------------------------------------------------------------- */

static void record_self(void *ctx, uint32_t task, uint32_t thread) {
  pthread_t *who = ctx;
  (void)thread;
  who[task] = pthread_self();
}

static void width_one_starts_no_thread(void **state) {
  fail_host f;
  const int before = threads_of_the_process();
  neap_threads *t = make_pool(&f, 1);
  pthread_t who[50];
  (void)state;
  neap__threads_run(t, record_self, who, 0, 50);
  for (int i = 0; i < 50; i++) assert_true(pthread_equal(who[i], pthread_self()));
  expect_at_most(before);
  drop_pool(&f, t);
}

static void one_task_stays_with_the_caller(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 3);
  pthread_t who;
  (void)state;
  for (int i = 0; i < 500; i++) {
    neap__threads_run(t, record_self, &who, 0, 1);
    assert_true(pthread_equal(who, pthread_self()));
  }
  drop_pool(&f, t);
}

static void pools_come_and_go(void **state) {
  const int before = threads_of_the_process();
  (void)state;
  for (uint32_t i = 0; i < 200; i++) {
    fail_host f;
    neap_threads *t = make_pool(&f, 1 + i % 4);
    tally *y = make_tally(1 + i % 4, 4);
    run_and_check(t, y, 0, i % 5);
    drop_tally(y);
    drop_pool(&f, t);
  }
  expect_at_most(before);
}

static void two_pools_are_independent(void **state) {
  fail_host f, g;
  neap_threads *t = make_pool(&f, 2), *u = make_pool(&g, 3);
  tally *y = make_tally(3, 8);
  (void)state;
  for (uint32_t i = 0; i < 2000; i++) run_and_check(i % 2 ? t : u, y, 0, 8);
  drop_tally(y);
  drop_pool(&f, t);
  drop_pool(&g, u);
}

static void idle_threads_use_no_time(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 4);
  tally *y = make_tally(4, 8);
  struct rusage before, after;
  (void)state;
  run_and_check(t, y, 0, 8);
  usleep(20000);
  getrusage(RUSAGE_SELF, &before);
  usleep(200000);
  getrusage(RUSAGE_SELF, &after);
  assert_true((after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 + after.ru_utime.tv_usec -
                  before.ru_utime.tv_usec <
              20000);
  drop_tally(y);
  drop_pool(&f, t);
}

typedef struct signal_job {
  pthread_barrier_t all;
  pthread_t engine;
  atomic_int blocked, wrong;
} signal_job;

static void look_at_mask(void *ctx, uint32_t task, uint32_t thread) {
  signal_job *job = ctx;
  sigset_t mask;
  (void)task;
  (void)thread;
  pthread_barrier_wait(&job->all);
  if (pthread_equal(pthread_self(), job->engine)) return;
  if (pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0) atomic_fetch_add(&job->wrong, 1);
  if (sigismember(&mask, SIGINT) && sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGPROF))
    atomic_fetch_add(&job->blocked, 1);
}

static void workers_block_signals_and_the_caller_keeps_its_mask(void **state) {
  fail_host f;
  sigset_t before, after;
  neap_threads *t;
  signal_job job;
  (void)state;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  t = make_pool(&f, 3);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int s = 1; s < 32; s++) assert_int_equal(sigismember(&after, s), sigismember(&before, s));
  job.engine = pthread_self();
  atomic_init(&job.blocked, 0);
  atomic_init(&job.wrong, 0);
  assert_int_equal(pthread_barrier_init(&job.all, NULL, 3), 0);
  neap__threads_run(t, look_at_mask, &job, 0, 3);
  pthread_barrier_destroy(&job.all);
  assert_int_equal(atomic_load(&job.blocked), 2);
  assert_int_equal(atomic_load(&job.wrong), 0);
  drop_pool(&f, t);
}

#if defined(__SSE__)
typedef struct mode_job {
  pthread_barrier_t all;
  unsigned mode[4];
} mode_job;

static void look_at_mode(void *ctx, uint32_t task, uint32_t thread) {
  mode_job *job = ctx;
  (void)task;
  pthread_barrier_wait(&job->all);
  job->mode[thread] = _mm_getcsr() & ~0x3fu;
}

static void the_callers_floating_point_mode_holds_in_all_tasks(void **state) {
  fail_host f;
  neap_threads *t = make_pool(&f, 4);
  const unsigned before = _mm_getcsr();
  mode_job job;
  (void)state;
  assert_int_equal(pthread_barrier_init(&job.all, NULL, 4), 0);
  for (int i = 0; i < 4; i++) {
    const unsigned want = (before & ~0x3fu) | (i % 2 ? 0x8040u : 0u); /* flush to zero, denormals are zero */
    _mm_setcsr(want);
    neap__threads_run(t, look_at_mode, &job, 0, 4);
    for (int k = 0; k < 4; k++) assert_int_equal(job.mode[k], want);
  }
  _mm_setcsr(before);
  pthread_barrier_destroy(&job.all);
  drop_pool(&f, t);
}
#endif

/* --- refusals ------------------------------------------------------------------------------------------ */

static void a_refused_pool_leaves_nothing(void **state) {
  fail_host f;
  neap_threads *t = NULL;
  neap_error e;
  (void)state;
  fail_host_init(&f);
  f.until = 1;
  assert_int_equal(neap__threads_create(&f.host, 4, NULL, NULL, &t, &e), NEAP_NOMEM);
  assert_null(t);
  assert_int_equal(neap__threads_create(&f.host, 0, NULL, NULL, &t, &e), NEAP_RANGE);
  assert_int_equal(neap__threads_create(&f.host, UINT32_MAX, NULL, NULL, &t, &e), NEAP_RANGE);
  assert_null(t);
  assert_true(f.host.in_use == 0 && f.blocks == 0);
  neap__threads_destroy(NULL);
}

/* Stacks no address space can hold: the system refuses every thread. */
static void without_threads_the_caller_does_it_all(void **state) {
  pthread_attr_t usual, huge;
  fail_host f;
  neap_threads *t;
  tally *y = make_tally(1, 100);
  (void)state;
  assert_int_equal(pthread_getattr_default_np(&usual), 0);
  assert_int_equal(pthread_attr_init(&huge), 0);
  assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 56), 0);
  assert_int_equal(pthread_setattr_default_np(&huge), 0);
  t = make_pool(&f, 4);
  assert_int_equal(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
  assert_int_equal(neap__threads_width(t), 1);
  run_and_check(t, y, 0, 100);
  drop_tally(y);
  drop_pool(&f, t);
}

#ifndef SANITIZED
static int use_a_pool_that_is_short_of_threads(void) {
  fail_host f;
  neap_threads *t;
  neap_error e;
  uint32_t width, ok = 1;
  tally *y = make_tally(MOST_WIDTH, 500);
  struct rlimit limit;
  long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm || fscanf(statm, "%ld", &pages) != 1) return 1;
  fclose(statm);
  /* Room for two stacks of 8 MiB and a half. */
  limit.rlim_cur = limit.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)20 << 20);
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  fail_host_init(&f);
  if (neap__threads_create(&f.host, MOST_WIDTH, NULL, NULL, &t, &e) != NEAP_OK) return 3;
  width = neap__threads_width(t);
  y->width = width;
  y->count = 500;
  neap__threads_run(t, note_task, y, 0, 500);
  for (uint32_t i = 0; i < 500; i++) ok &= atomic_load(&y->seen[i]) == 1;
  ok &= atomic_load(&y->broken) == 0;
  neap__threads_destroy(t);
  drop_tally(y);
  if (width < 2 || width >= MOST_WIDTH) return 4;
  return ok && f.host.in_use == 0 ? 0 : 5;
}

static void a_pool_has_as_many_threads_as_could_be_made(void **state) {
  pid_t child;
  int status = 0;
  (void)state;
  child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)8 << 20);
    pthread_setattr_default_np(&attr);
    _exit(use_a_pool_that_is_short_of_threads());
  }
  assert_true(waitpid(child, &status, 0) == child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}
#endif

/* --- the host's scheduler ------------------------------------------------------------------------------ */

typedef struct scheduler {
  uint32_t calls, width;
} scheduler;

static void run_backwards(void *user, uint32_t count, void (*task)(void *ctx, uint32_t i, uint32_t worker), void *ctx) {
  scheduler *s = user;
  s->calls++;
  for (uint32_t i = count; i-- > 0;) task(ctx, i, i % s->width);
}

static void the_hosts_scheduler_is_used(void **state) {
  fail_host f;
  scheduler s = {0, 3};
  neap_threads *t;
  neap_error e;
  tally *y = make_tally(3, 40);
  const int before = threads_of_the_process();
  (void)state;
  fail_host_init(&f);
  assert_int_equal(neap__threads_create(&f.host, 3, run_backwards, &s, &t, &e), NEAP_OK);
  expect_at_most(before);
  assert_int_equal(neap__threads_width(t), 3);
  run_and_check(t, y, 5, 40);
  assert_int_equal(s.calls, 1);
  run_and_check(t, y, 5, 1);
  run_and_check(t, y, 5, 0);
  assert_int_equal(s.calls, 1);
  drop_tally(y);
  drop_pool(&f, t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_task_runs_once),
    cmocka_unit_test(thousands_of_runs_take_no_memory),
    cmocka_unit_test(tasks_run_side_by_side),
    cmocka_unit_test(plain_writes_are_seen_after_the_run),
    cmocka_unit_test(width_one_starts_no_thread),
    cmocka_unit_test(one_task_stays_with_the_caller),
    cmocka_unit_test(pools_come_and_go),
    cmocka_unit_test(two_pools_are_independent),
    cmocka_unit_test(idle_threads_use_no_time),
    cmocka_unit_test(workers_block_signals_and_the_caller_keeps_its_mask),
#if defined(__SSE__)
    cmocka_unit_test(the_callers_floating_point_mode_holds_in_all_tasks),
#endif
    cmocka_unit_test(a_refused_pool_leaves_nothing),
    cmocka_unit_test(without_threads_the_caller_does_it_all),
#ifndef SANITIZED
    cmocka_unit_test(a_pool_has_as_many_threads_as_could_be_made),
#endif
    cmocka_unit_test(the_hosts_scheduler_is_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
