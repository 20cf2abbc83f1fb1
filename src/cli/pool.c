/* SPDX-License-Identifier: MIT */
#include "cli/pool.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"

enum { NO_JOB = -1, MAX_WORKERS = 256 };

/* The caller writes a job's number into the socket and reads length and text of its result. */
struct worker {
  pid_t pid; /* 0: not running */
  int fd;
  int job;
};

struct running {
  const struct cli_pool *pool;
  struct worker workers[MAX_WORKERS];
  int num_workers, next_job;
};

int cli_pool_default_workers(void) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return CPU_COUNT(&cpus) > 0 ? CPU_COUNT(&cpus) : 1;
}

static bool read_all(int fd, void *data, size_t length) {
  char *to = data;
  while (length > 0) {
    const ssize_t got = read(fd, to, length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    length -= (size_t)got;
  }
  return true;
}

static bool send_all(int fd, const void *data, size_t length) {
  const char *from = data;
  while (length > 0) {
    const ssize_t sent = send(fd, from, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    length -= (size_t)sent;
  }
  return true;
}

/* The life of a worker; ends when the caller closes its end. */
static void serve(const struct cli_pool *pool, int fd) {
  int32_t job;
  while (read_all(fd, &job, sizeof job)) {
    char *text = pool->work(pool->user, job);
    const uint32_t length = text ? (uint32_t)strlen(text) : 0;
    if (!text || !send_all(fd, &length, sizeof length) || !send_all(fd, text, length)) _exit(1);
    free(text);
  }
  _exit(0);
}

static bool start(struct running *run, struct worker *worker) {
  int fds[2], i;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return false;
  worker->pid = fork();
  if (worker->pid == 0) {
    /* A socket of another worker that stayed open here would keep that one from ending. */
    for (i = 0; i < run->num_workers; i++) {
      if (&run->workers[i] != worker && run->workers[i].pid > 0) (void)close(run->workers[i].fd);
    }
    (void)close(fds[0]);
    serve(run->pool, fds[1]);
  }
  (void)close(fds[1]);
  if (worker->pid < 0) {
    worker->pid = 0;
    (void)close(fds[0]);
    return false;
  }
  worker->fd = fds[0];
  worker->job = NO_JOB;
  return true;
}

static int stop(struct worker *worker) {
  int status = 0;
  (void)close(worker->fd);
  while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR) continue;
  worker->pid = 0;
  return status;
}

/* Gives a worker that runs its next job; one whose job cannot be sent has died. */
static void give_job(struct running *run, struct worker *worker) {
  int32_t job;
  worker->job = NO_JOB;
  if (run->next_job == run->pool->num_jobs) return;
  job = worker->job = run->next_job++;
  (void)send_all(worker->fd, &job, sizeof job); /* its death shows when the result is read */
}

/* Takes a result off a worker. */
static void take_result(struct running *run, struct worker *worker) {
  uint32_t length = 0;
  char *text = NULL;
  bool ok = read_all(worker->fd, &length, sizeof length);

  if (ok) {
    text = malloc((size_t)length + 1);
    ok = text && read_all(worker->fd, text, length);
  }
  if (ok) {
    text[length] = '\0';
    run->pool->done(run->pool->user, worker->job, text, 0);
    give_job(run, worker);
  } else {
    const int job = worker->job;
    const int status = stop(worker);
    run->pool->done(run->pool->user, job, NULL, status);
    if (run->next_job < run->pool->num_jobs && start(run, worker)) give_job(run, worker);
  }
  free(text);
}

bool cli_pool_run(const struct cli_pool *pool) {
  struct running run = {.pool = pool};
  struct pollfd polls[MAX_WORKERS];
  int i, wanted = pool->num_workers < pool->num_jobs ? pool->num_workers : pool->num_jobs;

  if (wanted > MAX_WORKERS) wanted = MAX_WORKERS;
  (void)fflush(NULL); /* or each worker would have a copy of what is not written yet */
  for (i = 0; i < wanted && start(&run, &run.workers[i]); i++) run.num_workers++;
  for (i = 0; i < run.num_workers; i++) give_job(&run, &run.workers[i]);

  for (;;) {
    int waiting = 0;
    for (i = 0; i < run.num_workers; i++) {
      const bool busy = run.workers[i].pid > 0 && run.workers[i].job != NO_JOB;
      polls[i] = (struct pollfd){.fd = busy ? run.workers[i].fd : -1, .events = POLLIN};
      waiting += busy;
    }
    if (waiting == 0) break;
    if (poll(polls, (nfds_t)run.num_workers, -1) < 0) continue;
    for (i = 0; i < run.num_workers; i++) {
      if (polls[i].revents) take_result(&run, &run.workers[i]);
    }
  }
  for (i = 0; i < run.num_workers; i++) {
    if (run.workers[i].pid > 0) (void)stop(&run.workers[i]);
  }
  if (run.next_job == pool->num_jobs) return true;
  (void)cli_fail("cannot start worker processes: %s", strerror(errno));
  return false;
}
