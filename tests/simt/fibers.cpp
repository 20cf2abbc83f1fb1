// SPDX-License-Identifier: MIT
// Threads as fibers. A fiber runs until it reaches a barrier or a warp operation; then the schedule
// picks the next one that can go on. Nothing runs in parallel: what a race would break shows as a
// difference between schedules.
#include "fibers.hpp"

#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "device.hpp"

// Present only where AddressSanitizer is preloaded.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **, const void *, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *, const void **, size_t *);
}

namespace simt {
namespace {

constexpr size_t STACK_BYTES = 256 << 10, PAGE = 4096;
constexpr unsigned MAX_ARGS_BYTES = 96 * 8;

// The System V ABI passes a trivially copyable struct of more than 16 bytes in memory, on the
// stack, at the address where a longer one would begin too; a callee reads only its own part. So
// one type of 768 bytes calls them all. Up to 16 bytes travel in two integer registers.
struct AnyArgs {
  unsigned char bytes[MAX_ARGS_BYTES];
};
struct SmallArgs {
  uint64_t words[2];
};

struct CopyAsync {
  void *to;
  const void *from;
  size_t bytes;
};

enum class State { READY, BLOCK_BARRIER, WARP_OPERATION, DONE };

struct Fiber {
  ucontext_t context;
  unsigned char *stack;
  void *fake_stack = nullptr;
  Thread thread;
  State state;
  const char *what;  // it waits in
  uint32_t mask;
  uint64_t value;  // deposited
  int from;
  uint64_t result;
  bool has_deposited;
  int predicate;
  std::vector<CopyAsync> copies;
};

struct Block {
  const Launch *launch;
  Schedule schedule;
  std::mt19937 random;
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
  void *scheduler_fake_stack = nullptr;
  const void *scheduler_bottom = nullptr;
  size_t scheduler_size = 0;
  Fiber *current = nullptr;
  unsigned char *shared = nullptr;
  std::string fault;
  int count = 0;
};

Block *block = nullptr;

void switch_to_scheduler(bool for_ever) {
  Fiber *self = block->current;
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &self->fake_stack, block->scheduler_bottom,
                                   block->scheduler_size);
  }
  swapcontext(&self->context, &block->scheduler);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(self->fake_stack, &block->scheduler_bottom,
                                    &block->scheduler_size);
  }
}

void switch_to(Fiber *fiber) {
  block->current = fiber;
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&block->scheduler_fake_stack, fiber->stack, STACK_BYTES);
  }
  swapcontext(&block->scheduler, &fiber->context);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(block->scheduler_fake_stack, nullptr, nullptr);
  }
}

void fiber_main() {
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(nullptr, &block->scheduler_bottom, &block->scheduler_size);
  }
  const Launch &launch = *block->launch;
  if (launch.args.size() > 16) {
    AnyArgs args = {};
    std::memcpy(args.bytes, launch.args.data(), launch.args.size());
    reinterpret_cast<void (*)(AnyArgs)>(launch.function)(args);
  } else {
    SmallArgs args = {};
    std::memcpy(args.words, launch.args.data(), launch.args.size());
    reinterpret_cast<void (*)(SmallArgs)>(launch.function)(args);
  }
  block->current->state = State::DONE;
  switch_to_scheduler(true);
}

void fail(const Fiber &fiber, const std::string &text) {
  if (!block->fault.empty()) return;
  char place[128];
  std::snprintf(place, sizeof place, "block %u, thread %u, %s: ", fiber.thread.block.x,
                fiber.thread.thread.x, fiber.what ? fiber.what : "?");
  block->fault = place + text;
}

// Waits in a warp operation or barrier; comes back when all it waits for have arrived.
void wait(State state, const char *what) {
  block->current->state = state;
  block->current->what = what;
  switch_to_scheduler(false);
}

// ---- releasing ----

// A block barrier opens when every thread of the block waits there.
bool open_block_barrier() {
  int count = 0;
  for (Fiber &fiber : block->fibers) {
    if (fiber.state != State::BLOCK_BARRIER) return false;
    count += fiber.predicate;
  }
  block->count = count;
  for (Fiber &fiber : block->fibers) fiber.state = State::READY;
  return true;
}

// The lanes of a fiber's warp that are in the same warp operation as it are all of its mask.
bool have_all_arrived(const Fiber &fiber, const Fiber *lanes, size_t num_lanes) {
  for (size_t j = 0; j < 32; ++j) {
    if (!(fiber.mask >> j & 1)) continue;
    if (j >= num_lanes || lanes[j].state != State::WARP_OPERATION || lanes[j].mask != fiber.mask ||
        std::strcmp(lanes[j].what, fiber.what) != 0) {
      return false;
    }
  }
  return true;
}

// Operations over all lanes of a mask, in the place of a lane to read from.
enum { VOTE = -1, MATCH = -2, LARGEST = -3 };

// What lane `own` gets of an operation over all deposits.
uint64_t combine(int operation, const Fiber *lanes, size_t num_lanes, size_t own) {
  uint64_t result = 0;
  for (size_t k = 0; k < num_lanes; ++k) {
    if (!(lanes[own].mask >> k & 1)) continue;
    if (operation == VOTE) result |= (lanes[k].value & 1) << k;
    if (operation == MATCH) result |= uint64_t(lanes[k].value == lanes[own].value) << k;
    if (operation == LARGEST) result = std::max(result, lanes[k].value);
  }
  return result;
}

// A warp operation is done as soon as the last lane of the mask has come, so that the warp goes on
// and does not wait for other warps: only barriers of the block order those.
void finish_warp_operation(const Fiber &last) {
  size_t first = last.thread.thread.x / 32 * 32;
  Fiber *lanes = &block->fibers[first];
  size_t num_lanes = std::min<size_t>(32, block->fibers.size() - first);
  if (!have_all_arrived(last, lanes, num_lanes)) return;
  uint32_t mask = last.mask;
  for (size_t j = 0; j < num_lanes; ++j) {
    if (!(mask >> j & 1)) continue;
    int from = lanes[j].from;
    if (from < 0) {
      lanes[j].result = combine(from, lanes, num_lanes, j);
    } else if (!(mask >> from & 1)) {
      fail(lanes[j], "reads lane " + std::to_string(from) + ", which is not in the mask");
    } else {
      lanes[j].result = lanes[from].value;
    }
  }
  for (size_t j = 0; j < num_lanes; ++j) {
    if (mask >> j & 1) lanes[j].state = State::READY;
  }
}

// ---- choosing ----

Fiber *next_ready() {
  size_t count = block->fibers.size();
  size_t start = block->schedule == Schedule::RANDOM ? block->random() % count : 0;
  for (size_t i = 0; i < count; ++i) {
    size_t at = block->schedule == Schedule::DESCENDING ? count - 1 - i : (start + i) % count;
    if (block->fibers[at].state == State::READY) return &block->fibers[at];
  }
  return nullptr;
}

void explain_deadlock() {
  int done = 0;
  for (const Fiber &fiber : block->fibers) done += fiber.state == State::DONE;
  for (const Fiber &fiber : block->fibers) {
    if (fiber.state == State::DONE) continue;
    fail(fiber, "waits for ever: not all threads it waits for arrive (" + std::to_string(done) +
                    " have returned)");
    return;
  }
}

bool run_block(Block &b) {
  for (;;) {
    Fiber *fiber = next_ready();
    if (fiber) {
      switch_to(fiber);
      if (fiber->state == State::WARP_OPERATION) finish_warp_operation(*fiber);
      if (!b.fault.empty()) return false;
      continue;
    }
    bool all_done = true;
    for (const Fiber &f : b.fibers) all_done = all_done && f.state == State::DONE;
    if (all_done) return true;
    if (!open_block_barrier()) explain_deadlock();
    if (!b.fault.empty()) return false;
  }
}

void start_fiber(Fiber &fiber, unsigned block_index, unsigned thread_index, const Launch &launch) {
  fiber.thread = {
      {thread_index, 0, 0}, {block_index, 0, 0}, {launch.threads, 1, 1}, {launch.grid, 1, 1}};
  fiber.state = State::READY;
  fiber.what = nullptr;
  fiber.fake_stack = nullptr;
  fiber.copies.clear();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = STACK_BYTES;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
}

// Memory that ends at a page nobody may touch.
struct Guarded {
  unsigned char *base;
  size_t mapped;
  unsigned char *end;
  explicit Guarded(size_t bytes) {
    mapped = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    base = static_cast<unsigned char *>(
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    end = base + mapped - PAGE;
    mprotect(end, PAGE, PROT_NONE);
  }
  ~Guarded() { munmap(base, mapped); }
};

// Stacks are kept from launch to launch: mapping a thousand of them is slow.
unsigned char *stack_of(size_t index) {
  static std::vector<unsigned char *> stacks;
  while (stacks.size() <= index) {
    stacks.push_back(static_cast<unsigned char *>(
        mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
  }
  return stacks[index];
}

}  // namespace

bool run(const Launch &launch, Schedule schedule, uint8_t shared_poison, std::string *fault) {
  Block b;
  b.launch = &launch;
  b.schedule = schedule;
  b.random.seed(launch.threads * 7919u + launch.grid);
  b.fibers.resize(launch.threads);
  for (size_t i = 0; i < b.fibers.size(); ++i) b.fibers[i].stack = stack_of(i);
  Guarded shared(launch.shared_bytes ? launch.shared_bytes : 1);
  // The end of shared memory lies at the guard page; its begin keeps the alignment CUDA gives.
  b.shared = shared.end - (launch.shared_bytes + 15) / 16 * 16;
  block = &b;
  bool good = true;
  for (unsigned i = 0; i < launch.grid && good; ++i) {
    unsigned index = schedule == Schedule::DESCENDING ? launch.grid - 1 - i : i;
    std::memset(b.shared, shared_poison, launch.shared_bytes);
    for (unsigned t = 0; t < launch.threads; ++t) start_fiber(b.fibers[t], index, t, launch);
    good = run_block(b);
  }
  block = nullptr;
  if (!good) *fault = b.fault;
  return good;
}

// ---- what kernels call ----

extern "C" {

__attribute__((visibility("default"))) Thread *simt_thread() {
  return &block->current->thread;
}

__attribute__((visibility("default"))) void simt_sync_block(const char *what) {
  block->current->predicate = 0;
  wait(State::BLOCK_BARRIER, what);
}

__attribute__((visibility("default"))) int simt_sync_block_count(const char *what, int predicate) {
  block->current->predicate = predicate != 0;
  wait(State::BLOCK_BARRIER, what);
  return block->count;
}

__attribute__((visibility("default"))) uint64_t simt_exchange(const char *what, uint32_t mask,
                                                              uint64_t value, int from_lane) {
  Fiber *self = block->current;
  self->what = what;
  if (!(mask >> (self->thread.thread.x % 32) & 1))
    fail(*self, "the calling lane is not in the mask");
  self->mask = mask;
  self->value = value;
  self->from = from_lane;
  wait(State::WARP_OPERATION, what);
  return self->result;
}

__attribute__((visibility("default"))) uint32_t simt_vote(const char *what, uint32_t mask,
                                                          bool predicate) {
  return uint32_t(simt_exchange(what, mask, predicate, VOTE));
}

__attribute__((visibility("default"))) uint32_t simt_match(const char *what, uint32_t mask,
                                                           uint64_t value) {
  return uint32_t(simt_exchange(what, mask, value, MATCH));
}

__attribute__((visibility("default"))) uint64_t simt_largest(const char *what, uint32_t mask,
                                                             uint64_t value) {
  return simt_exchange(what, mask, value, LARGEST);
}

__attribute__((visibility("default"))) void *simt_shared(size_t bytes) {
  if (bytes > block->launch->shared_bytes) {
    fail(*block->current, "takes " + std::to_string(bytes) +
                              " bytes of shared memory; the launch has " +
                              std::to_string(block->launch->shared_bytes));
  }
  return block->shared;
}

// The data arrive at the wait, and not before.
__attribute__((visibility("default"))) void simt_copy_async(void *to, const void *from,
                                                            size_t bytes) {
  block->current->copies.push_back({to, from, bytes});
}

__attribute__((visibility("default"))) void simt_copy_async_wait() {
  for (const CopyAsync &copy : block->current->copies) std::memcpy(copy.to, copy.from, copy.bytes);
  block->current->copies.clear();
}

}  // extern "C"

}  // namespace simt
