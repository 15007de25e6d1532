/* The engine's own thread pool. Work is `count` independent tasks; which thread runs which task never
 * changes a result, since tasks are cut by shape alone. Idle threads sleep: one that has worked looks for more for at
 * most some 50 microseconds first, so that kernels follow each other without the cost of waking it. */
#ifndef NEAP_BASE_THREADS_H
#define NEAP_BASE_THREADS_H

#include <stdint.h>

#include "base/host.h"
#include "base/status.h"

typedef struct neap_threads neap_threads;

/* task in [0, count), thread in [0, width): no two tasks that run at once see the same `thread`. */
typedef void (*neap_task_fn)(void *ctx, uint32_t task, uint32_t thread);

/* width threads in all, the caller's included: width 1 starts none. When parallel_for is given the
 * host's scheduler is used instead and none is started. Should the system refuse a thread, the pool
 * has as many as could be made. */
neap_status neap__threads_create(neap_host *h, uint32_t width, neap_parallel_for_fn parallel_for, void *user,
                                 neap_threads **out, neap_error *err);
void neap__threads_destroy(neap_threads *t);
uint32_t neap__threads_width(const neap_threads *t);

/* Runs fn(ctx, first..first+count-1, thread) and returns when all are done. Takes no memory. Not
 * reentrant; one caller at a time (the engine's thread). count 1 runs on the caller. */
void neap__threads_run(neap_threads *t, neap_task_fn fn, void *ctx, uint32_t first, uint32_t count);

#endif
