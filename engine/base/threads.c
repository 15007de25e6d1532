#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define MOST_THREADS 4096u
#define MOST_TASKS 0x7fffffffu /* in one round: the top bit of `unfinished` says that the caller sleeps */
#define CALLER_SLEEPS 0x80000000u

typedef struct worker {
  neap_threads *pool;
  pthread_t thread;
  uint32_t index; /* 1 and up; the caller is 0 */
} worker;

/* A round is published in `ticket`: its number in the high half, the tasks nobody has taken in the low one.
 * A task is taken by lowering the ticket with compare-and-swap. While the low half is not 0 the round cannot
 * end, so the fields of the round, read between loading the ticket and lowering it, belong to that round:
 * a thread that wakes late, in a later round or between two, takes nothing it has wrong arguments for. */
struct neap_threads {
  neap_host *host;
  uint32_t width;
  uint32_t capacity; /* of workers[] */
  neap_parallel_for_fn parallel_for;
  void *user;
  uint32_t round;

  _Atomic(neap_task_fn) fn;
  _Atomic(void *) ctx;
  atomic_uint end; /* one past the last task: tasks are taken from the first on */
  atomic_uint fp_mode;
  _Atomic uint64_t ticket;
  atomic_uint unfinished; /* tasks of the round not yet done, and CALLER_SLEEPS */
  atomic_uint wakes;      /* idle workers sleep on it */
  atomic_uint asleep;     /* how many do, or are about to */
  atomic_int closing;
  worker workers[];
};

/* A task's floating-point mode (flush to zero, rounding) is the caller's whichever thread runs it. */
static unsigned fp_mode(void) {
#if defined(__SSE__)
  return _mm_getcsr() & ~(unsigned)_MM_EXCEPT_MASK;
#else
  return 0;
#endif
}

static void set_fp_mode(unsigned mode) {
#if defined(__SSE__)
  if (fp_mode() != mode) _mm_setcsr(mode);
#else
  (void)mode;
#endif
}

static void sleep_while(atomic_uint *word, unsigned value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, uint32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Waking a thread takes tens of microseconds on a virtual machine, as long as many a kernel. So a thread that has
 * just worked looks for more for about LINGER_NS before it sleeps: inside a run the next kernel comes by then, and
 * nobody's core is held for longer; whoever else wants it gets it at once. */
#define LINGER_NS 50000.0

static void relax(void) {
#if defined(__SSE__)
  _mm_pause();
#endif
}

/* Returns once *word is not `value` or the time is over. */
static void linger_while(atomic_uint *word, unsigned value) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    for (int i = 0; i < 32; i++) {
      if (atomic_load_explicit(word, memory_order_acquire) != value) return;
      relax();
    }
    sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) * 1e9 + (double)(now.tv_nsec - start.tv_nsec) < LINGER_NS);
}

/* Runs tasks until none is left to take; returns how many. */
static uint32_t run_tasks(neap_threads *t, uint32_t thread) {
  uint64_t ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
  uint32_t done = 0, left;
  while ((left = (uint32_t)ticket) != 0) {
    neap_task_fn fn = atomic_load_explicit(&t->fn, memory_order_relaxed);
    void *ctx = atomic_load_explicit(&t->ctx, memory_order_relaxed);
    const uint32_t task = atomic_load_explicit(&t->end, memory_order_relaxed) - left;
    const unsigned mode = atomic_load_explicit(&t->fp_mode, memory_order_relaxed);
    if (!atomic_compare_exchange_weak_explicit(&t->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    if (thread != 0) set_fp_mode(mode);
    fn(ctx, task, thread);
    done++;
    ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
  }
  return done;
}

static void report_done(neap_threads *t, uint32_t done) {
  const unsigned before = atomic_fetch_sub_explicit(&t->unfinished, done, memory_order_acq_rel);
  if (before == (CALLER_SLEEPS | done)) wake(&t->unfinished, 1);
}

static void *work(void *arg) {
  const worker *w = arg;
  neap_threads *t = w->pool;
  for (;;) {
    const unsigned seen = atomic_load_explicit(&t->wakes, memory_order_acquire);
    const uint32_t done = run_tasks(t, w->index);
    if (done) {
      report_done(t, done);
      linger_while(&t->wakes, seen);
    }
    if (atomic_load_explicit(&t->closing, memory_order_acquire)) return NULL;
    if (atomic_load_explicit(&t->wakes, memory_order_acquire) != seen) continue;
    atomic_fetch_add(&t->asleep, 1);
    sleep_while(&t->wakes, seen);
    atomic_fetch_sub(&t->asleep, 1);
  }
}

static void wait_for_workers(neap_threads *t) {
  unsigned left = atomic_load_explicit(&t->unfinished, memory_order_acquire);
  if (left == 0) return;
  linger_while(&t->unfinished, left);
  if (atomic_load_explicit(&t->unfinished, memory_order_acquire) == 0) return;
  left = atomic_fetch_or_explicit(&t->unfinished, CALLER_SLEEPS, memory_order_acq_rel) | CALLER_SLEEPS;
  while (left != CALLER_SLEEPS) {
    sleep_while(&t->unfinished, left);
    left = atomic_load_explicit(&t->unfinished, memory_order_acquire);
  }
}

static void run_round(neap_threads *t, neap_task_fn fn, void *ctx, uint32_t first, uint32_t count) {
  const uint32_t helpers = count - 1 < t->width - 1 ? count - 1 : t->width - 1;
  uint32_t done, asleep;
  atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&t->ctx, ctx, memory_order_relaxed);
  atomic_store_explicit(&t->end, first + count, memory_order_relaxed);
  atomic_store_explicit(&t->fp_mode, fp_mode(), memory_order_relaxed);
  atomic_store_explicit(&t->unfinished, count, memory_order_relaxed);
  t->round++;
  atomic_store_explicit(&t->ticket, (uint64_t)t->round << 32 | count, memory_order_release);
  /* In this order for all: who sees none asleep is seen by those about to sleep, whose futex then refuses. */
  atomic_fetch_add(&t->wakes, 1);
  asleep = atomic_load(&t->asleep);
  if (asleep) wake(&t->wakes, asleep < helpers ? asleep : helpers);
  done = run_tasks(t, 0);
  atomic_fetch_sub_explicit(&t->unfinished, done, memory_order_acq_rel);
  wait_for_workers(t);
}

typedef struct host_job {
  neap_task_fn fn;
  void *ctx;
  uint32_t first;
} host_job;

static void run_host_task(void *arg, uint32_t i, uint32_t thread) {
  const host_job *job = arg;
  job->fn(job->ctx, job->first + i, thread);
}

void neap__threads_run(neap_threads *t, neap_task_fn fn, void *ctx, uint32_t first, uint32_t count) {
  if (count > 1 && t->parallel_for) {
    host_job job = {fn, ctx, first};
    t->parallel_for(t->user, count, run_host_task, &job);
    return;
  }
  if (t->width == 1 || count <= 1) {
    for (uint32_t i = 0; i < count; i++) fn(ctx, first + i, 0);
    return;
  }
  while (count > 0) {
    const uint32_t n = count < MOST_TASKS ? count : MOST_TASKS;
    run_round(t, fn, ctx, first, n);
    first += n;
    count -= n;
  }
}

/* Signals are blocked while threads are made, so that a worker inherits the mask and never runs a handler
 * of the host's. */
static void start_workers(neap_threads *t, uint32_t width) {
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  while (t->width < width) {
    worker *w = &t->workers[t->width - 1];
    w->pool = t;
    w->index = t->width;
    if (pthread_create(&w->thread, NULL, work, w) != 0) break;
    t->width++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static size_t pool_size(uint32_t workers) { return sizeof(neap_threads) + workers * sizeof(worker); }

neap_status neap__threads_create(neap_host *h, uint32_t width, neap_parallel_for_fn parallel_for, void *user,
                                 neap_threads **out, neap_error *err) {
  uint32_t workers;
  neap_threads *t;
  *out = NULL;
  if (width < 1 || width > MOST_THREADS)
    return neap__fail(err, NEAP_RANGE, "threads must be from 1 to %u, not %u", MOST_THREADS, width);
  workers = parallel_for ? 0 : width - 1;
  t = neap__calloc(h, 1, pool_size(workers));
  if (!t) return neap__fail(err, NEAP_NOMEM, "no host memory for a pool of %u threads", width);
  t->host = h;
  t->capacity = workers;
  t->parallel_for = parallel_for;
  t->user = user;
  t->width = parallel_for ? width : 1;
  if (workers) start_workers(t, width);
  *out = t;
  return NEAP_OK;
}

void neap__threads_destroy(neap_threads *t) {
  if (!t) return;
  if (!t->parallel_for) {
    atomic_store_explicit(&t->closing, 1, memory_order_release);
    atomic_fetch_add_explicit(&t->wakes, 1, memory_order_release);
    wake(&t->wakes, t->width);
    for (uint32_t i = 0; i + 1 < t->width; i++) pthread_join(t->workers[i].thread, NULL);
  }
  neap__free(t->host, t, pool_size(t->capacity));
}

uint32_t neap__threads_width(const neap_threads *t) { return t->width; }
