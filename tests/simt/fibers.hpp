// SPDX-License-Identifier: MIT
// One launch of a kernel on the CPU: the threads of a block as fibers, block after block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simt {

enum class Schedule { ASCENDING, DESCENDING, RANDOM };

struct Launch {
  void *function;  // extern "C" void kernel(kiln_args by value)
  std::vector<unsigned char> args;
  unsigned grid, threads, shared_bytes;
};

// Runs every block; false with a sentence in *fault if the kernel deadlocks or misuses a warp
// operation.
bool run(const Launch &launch, Schedule schedule, uint8_t shared_poison, std::string *fault);

}  // namespace simt
