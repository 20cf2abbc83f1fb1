// SPDX-License-Identifier: MIT
// Does the harness see what it is for? Small kernels, right and wrong, go through the stand-ins of
// NVRTC and the driver as Kiln's do. Started by run.sh, which says where they are.
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr unsigned GRID = 2, THREADS = 64, VALUES = GRID * THREADS, SHARED_BYTES = THREADS * 4;

// Every kernel reverses the values of each block: out[at + t] = in[at + 63 - t].
const char HEAD[] = R"(
struct Args {
  unsigned *out;
  const unsigned *in;
  unsigned count;  // words that out has
};
struct alignas(16) Vector {
  unsigned v[4];
};
extern "C" __global__ void kernel(const __grid_constant__ Args a) {
  unsigned t = threadIdx.x, at = blockIdx.x * 64;
  unsigned *s = static_cast<unsigned *>(simt::shared_memory(256));
)";

struct Case {
  const char *name;
  const char *fault;  // what the harness must say; null for a right kernel
  unsigned extra;     // words of out behind the values
  const char *body;
};

const char DIFFER[] = "under another schedule";

const Case CASES[] = {
    {"barrier", nullptr, 0, "s[t] = a.in[at + t]; __syncthreads(); a.out[at + t] = s[63 - t];"},
    {"missing barrier", DIFFER, 0, "s[t] = a.in[at + t]; a.out[at + t] = s[63 - t];"},
    {"warp barrier where one of the block is needed", DIFFER, 0,
     "s[t] = a.in[at + t]; __syncwarp(); a.out[at + t] = s[63 - t];"},
    {"write after read", nullptr, 0,
     "s[t] = a.in[at + t]; __syncthreads(); unsigned v = s[63 - t]; __syncthreads();"
     "s[t] = v; __syncthreads(); a.out[at + t] = s[t];"},
    {"write after read without a barrier", DIFFER, 0,
     "s[t] = a.in[at + t]; __syncthreads(); unsigned v = s[63 - t];"
     "s[t] = v; __syncthreads(); a.out[at + t] = s[t];"},
    {"barrier that one thread skips", "waits for ever", 0,
     "s[t] = a.in[at + t]; if (t != 9) __syncthreads(); a.out[at + t] = s[63 - t];"},
    {"barrier after a thread has returned", "waits for ever", 0,
     "s[t] = a.in[at + t]; if (t == 9) return; __syncthreads(); a.out[at + t] = s[63 - t];"},
    {"shuffle", nullptr, 0,
     "a.out[at + (t ^ 32)] = __shfl_xor_sync(0xffffffffu, a.in[at + t], 31);"},
    {"shuffle without the calling lane in the mask", "the calling lane is not in the mask", 0,
     "a.out[at + (t ^ 32)] = __shfl_xor_sync(0x0000ffffu, a.in[at + t], 1);"},
    {"shuffle from a lane not in the mask", "reads lane 31, which is not in the mask", 0,
     "if (t % 32 < 16) a.out[at + (t ^ 32)] = __shfl_xor_sync(0x0000ffffu, a.in[at + t], 31);"},
    {"shuffle to which a lane never comes", "waits for ever", 0,
     "if (t != 5) a.out[at + (t ^ 32)] = __shfl_xor_sync(0xffffffffu, a.in[at + t], 31);"},
    {"lanes in different operations", "waits for ever", 0,
     "if (t % 2) __syncwarp(); else __any_sync(0xffffffffu, 1);"},
    {"whole allocation", nullptr, 1,
     "a.out[at + t] = a.in[at + 63 - t]; if (t == 0 && at == 0) a.out[a.count - 1] = 1;"},
    {"store just behind an allocation", "bytes behind an allocation of 516 were written", 1,
     "a.out[at + t] = a.in[at + 63 - t]; if (t == 0) a.out[a.count] = 1;"},
    {"store at the guard page", "AddressSanitizer", 0,
     "a.out[at + t] = a.in[at + 63 - t]; if (t == 0) a.out[a.count] = 1;"},
    {"read at the guard page", "AddressSanitizer", 0, "a.out[at + t] = a.in[at + 64 + t];"},
    {"misaligned vector", "misaligned address", 8,
     "if (t == 0) *reinterpret_cast<Vector *>(a.out + 1) = Vector{};"},
    {"shared memory that nobody wrote", DIFFER, 0,
     "if (t != 7) s[t] = a.in[at + t]; __syncthreads(); a.out[at + t] = s[63 - t];"},
    {"more shared memory than the launch has", "the launch has 256", 0,
     "a.out[at + t] = static_cast<unsigned *>(simt::shared_memory(260))[t];"},
    {"asynchronous copy", nullptr, 0,
     "simt::copy_async(&s[t], &a.in[at + t], 4); simt::copy_async_wait(); __syncthreads();"
     "a.out[at + t] = s[63 - t];"},
    {"asynchronous copy without a wait", DIFFER, 0,
     "simt::copy_async(&s[t], &a.in[at + t], 4); __syncthreads(); a.out[at + t] = s[63 - t];"},
    {"asynchronous copy awaited after the barrier", DIFFER, 0,
     "simt::copy_async(&s[t], &a.in[at + t], 4); __syncthreads(); simt::copy_async_wait();"
     "a.out[at + t] = s[63 - t];"},
    {"blocks that store to the same place", DIFFER, 1,
     "a.out[at + t] = a.in[at + 63 - t]; if (t == 0) a.out[a.count - 1] = at;"},
};

// What follows runs in a child process, which a sanitizer may end.

[[noreturn]] void give_up(const char *what) {
  std::fprintf(stderr, "selftest: %s\n", what);
  _exit(2);
}

template <class F>
F symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) give_up(name);
  return reinterpret_cast<F>(found);
}
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
// By the name that cuda.h gives it: cuMemAlloc_v2.
#define CALL(library, function, ...)                                              \
  do {                                                                            \
    if (symbol<decltype(&function)>(library, TEXT(function))(__VA_ARGS__) != 0) { \
      give_up(#function);                                                         \
    }                                                                             \
  } while (false)

std::vector<char> compile(void *nvrtc, const Case &test) {
  std::string source = std::string(HEAD) + test.body + "\n}\n";
  nvrtcProgram program;
  CALL(nvrtc, nvrtcCreateProgram, &program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  CALL(nvrtc, nvrtcCompileProgram, program, 0, nullptr);
  size_t bytes = 0;
  CALL(nvrtc, nvrtcGetCUBINSize, program, &bytes);
  std::vector<char> binary(bytes);
  CALL(nvrtc, nvrtcGetCUBIN, program, binary.data());
  CALL(nvrtc, nvrtcDestroyProgram, &program);
  return binary;
}

struct Args {
  CUdeviceptr out, in;
  unsigned count;
};

// 0 if the launch succeeds; out then is what the kernel left.
CUresult launch(void *cuda, const std::vector<char> &binary, const Case &test,
                std::vector<unsigned> &out) {
  std::vector<unsigned> in(VALUES);
  for (unsigned i = 0; i < VALUES; ++i) in[i] = i * 2654435761u;
  Args args = {0, 0, VALUES + test.extra};
  CALL(cuda, cuInit, 0);
  CALL(cuda, cuMemAlloc, &args.out, args.count * sizeof(unsigned));
  CALL(cuda, cuMemAlloc, &args.in, VALUES * sizeof(unsigned));
  CALL(cuda, cuMemcpyHtoD, args.in, in.data(), VALUES * sizeof(unsigned));

  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  CALL(cuda, cuLibraryLoadData, &library, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  CALL(cuda, cuLibraryGetKernel, &kernel, library, "kernel");
  CALL(cuda, cuKernelGetFunction, &function, kernel);
  CUlaunchConfig config = {};
  config.gridDimX = GRID;
  config.blockDimX = THREADS;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = SHARED_BYTES;
  size_t bytes = sizeof args;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUresult code = symbol<decltype(&cuLaunchKernelEx)>(cuda, TEXT(cuLaunchKernelEx))(
      &config, function, nullptr, extra);
  out.resize(VALUES);
  CALL(cuda, cuMemcpyDtoH, out.data(), args.out, VALUES * sizeof(unsigned));
  return code;
}

bool is_reversed(const std::vector<unsigned> &out) {
  for (unsigned i = 0; i < VALUES; ++i) {
    unsigned from = i / THREADS * THREADS + (THREADS - 1 - i % THREADS);
    if (out[i] != from * 2654435761u) return false;
  }
  return true;
}

[[noreturn]] void run_child(const Case &test) {
  const char *path = std::getenv("KILN_NVRTC");
  void *nvrtc = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!nvrtc || !cuda) give_up("start this with run.sh");
  std::vector<unsigned> out;
  if (launch(cuda, compile(nvrtc, test), test, out) != CUDA_SUCCESS) _exit(1);
  if (!is_reversed(out)) give_up("wrong values, and the harness has not noticed");
  _exit(0);
}

// What the child said, and in *status how it ended.
std::string run(const Case &test, int *status) {
  int ends[2];
  if (pipe(ends) != 0) give_up("pipe");
  pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], 2);
    close(ends[1]);
    run_child(test);
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) said.append(part, size_t(n));
  close(ends[0]);
  waitpid(child, status, 0);
  return said;
}

}  // namespace

int main() {
  int failures = 0;
  for (const Case &test : CASES) {
    int status = -1;
    std::string said = run(test, &status);
    bool good =
        test.fault ? status != 0 && said.find(test.fault) != std::string::npos : status == 0;
    std::printf("%s: %s\n", test.name, !good ? "FAILED" : test.fault ? "seen" : "passes");
    if (!good) std::printf("%s\n", said.c_str());
    failures += !good;
  }
  return failures != 0;
}
