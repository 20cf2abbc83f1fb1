/* SPDX-License-Identifier: MIT */
/* Worker processes: NVRTC scales by processes, not by threads, and one that crashes takes only its
   own job along. */
#ifndef KILN_CLI_POOL_H
#define KILN_CLI_POOL_H

#include <stdbool.h>

struct cli_pool {
  int num_workers, num_jobs;
  /* Runs in a worker, which has all that was there when the pool started; returns the result as
     text from malloc, NULL when out of memory. */
  char *(*work)(void *user, int job);
  /* Runs in the caller's process for each job, in the order in which they end. `result` is NULL if
     the worker ended before it had one; `wait_status` is that of waitpid. */
  void (*done)(void *user, int job, const char *result, int wait_status);
  void *user;
};

/* Number of CPUs this process may use. */
int cli_pool_default_workers(void);
/* Runs all jobs; each is done exactly once. False after a message if no worker could be started;
   then jobs may be left undone. */
bool cli_pool_run(const struct cli_pool *pool);

#endif
