// SPDX-License-Identifier: MIT
// A stand-in for the CUDA driver (libcuda.so.1): device memory is guarded host memory, modules are
// shared objects, and a launch runs on fibers under several schedules that must agree. See
// README.md.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fibers.hpp"

struct CUctx_st {};
struct CUstream_st {
  std::vector<simt::Launch> *capture = nullptr;
};
struct CUevent_st {};
struct CUgraph_st {
  std::vector<simt::Launch> launches;
};
struct CUgraphExec_st {
  std::vector<simt::Launch> launches;
};
struct CUlib_st {
  void *handle;
  std::map<std::string, struct CUfunc_st *> functions;
};
struct CUfunc_st {
  void *entry;
  int max_dynamic_shared;
};

namespace {

constexpr size_t PAGE = 4096, ALIGNMENT = 256;
constexpr unsigned char NEW_MEMORY = 0xCB, SLACK = 0x5A;
constexpr int NUM_SMS = 4, DEFAULT_SHARED = 49152;

// Held by a launch from its first schedule to its last: nobody changes memory in between.
std::recursive_mutex mutex;
CUctx_st primary;
thread_local std::vector<CUcontext> context_stack;

// An allocation: its end lies at a page nobody may touch if its size is a multiple of 256; else the
// bytes up to there are slack that no kernel may change.
struct Allocation {
  unsigned char *map, *data;
  size_t map_bytes, bytes, slack;
};
std::map<CUdeviceptr, Allocation> allocations;

CUstream_st legacy_stream;
CUstream_st &stream_of(CUstream stream) {
  return stream ? *stream : legacy_stream;
}

bool slack_is_whole(const Allocation &a) {
  return std::all_of(a.data + a.bytes, a.data + a.bytes + a.slack,
                     [](unsigned char c) { return c == SLACK; });
}

// 90, or what a test of refusals or of SM100 wants.
int compute_capability() {
  const char* wanted = std::getenv("KILN_SIMT_COMPUTE");
  return wanted ? std::atoi(wanted) : 90;
}

// ---- launching ----

struct Snapshot {
  std::vector<std::vector<unsigned char>> memory;
  void take() {
    memory.clear();
    for (const auto &[key, a] : allocations) memory.emplace_back(a.data, a.data + a.bytes);
  }
  void restore() const {
    size_t i = 0;
    for (const auto &[key, a] : allocations) std::memcpy(a.data, memory[i++].data(), a.bytes);
  }
};

bool complain(const std::string &text) {
  std::fprintf(stderr, "simt: %s\n", text.c_str());
  return false;
}

bool same_as(const Snapshot &expected, const char *what) {
  size_t i = 0;
  for (const auto &[key, a] : allocations) {
    const std::vector<unsigned char> &want = expected.memory[i++];
    if (std::memcmp(a.data, want.data(), a.bytes) == 0) continue;
    size_t at = size_t(std::mismatch(want.begin(), want.end(), a.data).first - want.begin());
    char text[256];
    std::snprintf(text, sizeof text,
                  "%s: byte %zu of an allocation of %zu is 0x%02x, under another schedule 0x%02x",
                  what, at, a.bytes, a.data[at], want[at]);
    return complain(text);
  }
  return true;
}

bool check_slack() {
  for (const auto &[key, a] : allocations) {
    if (!slack_is_whole(a)) {
      return complain("bytes behind an allocation of " + std::to_string(a.bytes) + " were written");
    }
  }
  return true;
}

// Every schedule starts from the same memory; all must leave the same behind.
bool run_all_schedules(const simt::Launch &launch) {
  static const struct {
    simt::Schedule schedule;
    uint8_t poison;
    const char *name;
  } runs[] = {{simt::Schedule::ASCENDING, 0x00, "ascending threads"},
              {simt::Schedule::DESCENDING, 0xFF, "descending threads, shared memory of 0xff"},
              {simt::Schedule::RANDOM, 0x7F, "random threads, shared memory of 0x7f"}};
  Snapshot before, first;
  std::string fault;
  before.take();
  for (size_t i = 0; i < sizeof runs / sizeof *runs; ++i) {
    if (i > 0) before.restore();
    if (!simt::run(launch, runs[i].schedule, runs[i].poison, &fault)) return complain(fault);
    if (!check_slack()) return false;
    if (i == 0) {
      first.take();
    } else if (!same_as(first, runs[i].name)) {
      return false;
    }
  }
  return true;
}

// The driver reports a fault at the next call that waits; this one at once.
CUresult launch(const simt::Launch &launch) {
  return run_all_schedules(launch) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

CUdeviceptr address(const void *p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

}  // namespace

extern "C" {

// ---- set-up ----

CUresult cuInit(unsigned) {
  // Kernels find the harness's functions only in a library that is loaded globally.
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&cuInit), &info)) {
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *out) {
  *out = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult code, const char **out) {
  *out = code == CUDA_SUCCESS               ? "CUDA_SUCCESS"
         : code == CUDA_ERROR_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
         : code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                            : "CUDA_ERROR_INVALID_VALUE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult code, const char **out) {
  return cuGetErrorName(code, out);
}
CUresult cuDeviceGetCount(int *out) {
  *out = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *out, int) {
  *out = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *out, int length, CUdevice) {
  std::snprintf(out, size_t(length), "SIMT harness");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *out = compute_capability() / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *out = compute_capability() % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *out = NUM_SMS;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *out = DEFAULT_SHARED;
      break;
    default:
      *out = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice) {
  *out = &primary;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *out) {
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *out = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context_stack.empty()) {
    context_stack.push_back(context);
  } else {
    context_stack.back() = context;
  }
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *out) {
  *out = context_stack.empty() ? nullptr : context_stack.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) {
  return CUDA_SUCCESS;
}

// ---- memory ----

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *free_bytes = *total = size_t(4) << 30;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  size_t slack = (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
  Allocation a;
  a.bytes = bytes;
  a.slack = slack;
  a.map_bytes = (bytes + slack + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
  void *map =
      mmap(nullptr, a.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  a.map = static_cast<unsigned char *>(map);
  unsigned char *end = a.map + a.map_bytes - PAGE;
  a.data = end - slack - bytes;
  std::memset(a.map + PAGE, NEW_MEMORY, a.map_bytes - 2 * PAGE);
  std::memset(end - slack, SLACK, slack);
  mprotect(a.map, PAGE, PROT_NONE);
  mprotect(end, PAGE, PROT_NONE);
  allocations[address(a.data)] = a;
  *out = address(a.data);
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr memory) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  auto found = allocations.find(memory);
  if (found == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(found->second.map, found->second.map_bytes);
  allocations.erase(found);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  std::memset(reinterpret_cast<void *>(to), byte, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char byte, size_t bytes) {
  return cuMemsetD8Async(to, byte, bytes, nullptr);
}

// ---- streams, events, graphs ----

CUresult cuStreamCreate(CUstream *out, unsigned) {
  *out = new CUstream_st;
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *out, unsigned) {
  *out = new CUevent_st;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent) {
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime  // the name that drivers of all versions have
CUresult cuEventElapsedTime(float *out, CUevent, CUevent) {
  *out = 1;  // fibers have no speed worth telling
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  stream_of(stream).capture = new std::vector<simt::Launch>;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *out) {
  CUstream_st &s = stream_of(stream);
  if (!s.capture) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUgraph_st{*s.capture};
  delete s.capture;
  s.capture = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long) {
  *out = new CUgraphExec_st{graph->launches};
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  for (const simt::Launch &l : exec->launches) {
    CUresult code = launch(l);
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

// ---- modules ----

// The ELF header tells how long an image is: its section table comes last.
static size_t image_bytes(const void *image) {
  const unsigned char *p = static_cast<const unsigned char *>(image);
  uint64_t table;
  uint16_t size, count;
  std::memcpy(&table, p + 40, sizeof table);
  std::memcpy(&size, p + 58, sizeof size);
  std::memcpy(&count, p + 60, sizeof count);
  return table + size_t(size) * count;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  char path[] = "/tmp/kiln-simt-module-XXXXXX";
  int fd = mkstemp(path);
  size_t bytes = image_bytes(image);
  if (fd < 0 || write(fd, image, bytes) != ssize_t(bytes)) return CUDA_ERROR_INVALID_IMAGE;
  close(fd);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) complain(dlerror());
  unlink(path);
  if (!handle) return CUDA_ERROR_INVALID_IMAGE;
  *out = new CUlib_st{handle, {}};
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) {
  for (auto &[name, function] : library->functions) delete function;
  dlclose(library->handle);
  delete library;
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
  void *entry = dlsym(library->handle, name);
  if (!entry) return CUDA_ERROR_NOT_FOUND;
  CUfunc_st *&function = library->functions[name];
  if (!function) function = new CUfunc_st{entry, DEFAULT_SHARED};
  *out = reinterpret_cast<CUkernel>(function);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction) {
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction function) {
  *out = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? function->max_dynamic_shared
                                                                      : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    function->max_dynamic_shared = value;
  }
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **,
                          void **extra) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (!extra || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER ||
      extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE || config->gridDimX == 0 ||
      int(config->sharedMemBytes) > function->max_dynamic_shared) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned char *args = static_cast<const unsigned char *>(extra[1]);
  simt::Launch l{function->entry,
                 {args, args + *static_cast<size_t *>(extra[3])},
                 config->gridDimX,
                 config->blockDimX,
                 config->sharedMemBytes};
  CUstream_st &stream = stream_of(config->hStream);
  if (stream.capture) {
    stream.capture->push_back(l);
    return CUDA_SUCCESS;
  }
  return launch(l);
}

}  // extern "C"
