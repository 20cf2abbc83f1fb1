/* SPDX-License-Identifier: MIT */
#include "cli/device.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define SYMBOLS(X)                                                                          \
  X(Init, "cuInit", (unsigned))                                                             \
  X(GetErrorName, "cuGetErrorName", (CUresult, const char **))                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int *))                                        \
  X(DeviceGet, "cuDeviceGet", (CUdevice *, int))                                            \
  X(DeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                              \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice))      \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                  \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                          \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                          \
  X(CtxSynchronize, "cuCtxSynchronize", (void))                                             \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                    \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                     \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr))                                                 \
  X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))       \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream)) \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream))       \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))  \
  X(StreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                 \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream))                                        \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream))                                   \
  X(EventCreate, "cuEventCreate", (CUevent *, unsigned))                                    \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent))                                           \
  X(EventRecord, "cuEventRecord", (CUevent, CUstream))                                      \
  X(EventSynchronize, "cuEventSynchronize", (CUevent))                                      \
  X(EventElapsedTime, "cuEventElapsedTime", (float *, CUevent, CUevent))                    \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))         \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                          \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, uint64_t))    \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                  \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                  \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph))

struct cli_device {
#define X(member, symbol, arguments) CUresult(*member) arguments;
  SYMBOLS(X)
#undef X
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent begin, end;
  int version, num_sms, sm_khz;
  char name[128];
};

struct cli_graph {
  CUgraphExec exec;
};

/* Whether a driver call went well; prints one line if not. */
static bool ok(const struct cli_device *d, CUresult code, const char *what) {
  const char *name = NULL;
  if (code == CUDA_SUCCESS) return true;
  (void)d->GetErrorName(code, &name);
  (void)fprintf(stderr, "kiln: %s: %s\n", what, name ? name : "unknown CUDA error");
  return false;
}

static bool resolve(struct cli_device *d) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    (void)fprintf(stderr, "kiln: no CUDA driver: %s\n", dlerror());
    return false;
  }
#define X(member, symbol, arguments)                                    \
  *(void **)(&d->member) = dlsym(handle, symbol);                       \
  if (!d->member) {                                                     \
    (void)fprintf(stderr, "kiln: the CUDA driver has no " symbol "\n"); \
    return false;                                                       \
  }
  SYMBOLS(X)
#undef X
  return true;
}

static bool start(struct cli_device *d, int ordinal) {
  if (!ok(d, d->Init(0), "the driver does not start")) return false;
  if (!ok(d, d->DeviceGet(&d->device, ordinal), "there is no such device")) return false;
  (void)d->DriverGetVersion(&d->version);
  (void)d->DeviceGetName(d->name, sizeof d->name, d->device);
  (void)d->DeviceGetAttribute(&d->num_sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->device);
  (void)d->DeviceGetAttribute(&d->sm_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, d->device);
  if (!ok(d, d->PrimaryCtxRetain(&d->context, d->device), "no context")) return false;
  return ok(d, d->CtxSetCurrent(d->context), "the context cannot be made current") &&
         ok(d, d->StreamCreate(&d->stream, CU_STREAM_NON_BLOCKING), "no stream") &&
         ok(d, d->EventCreate(&d->begin, CU_EVENT_DEFAULT), "no event") &&
         ok(d, d->EventCreate(&d->end, CU_EVENT_DEFAULT), "no event");
}

struct cli_device *cli_device_open(int ordinal) {
  struct cli_device *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  if (!resolve(d)) {
    free(d);
    return NULL;
  }
  if (!start(d, ordinal)) {
    cli_device_close(d);
    return NULL;
  }
  return d;
}

void cli_device_close(struct cli_device *d) {
  if (!d) return;
  if (d->begin) (void)d->EventDestroy(d->begin);
  if (d->end) (void)d->EventDestroy(d->end);
  if (d->stream) (void)d->StreamDestroy(d->stream);
  if (d->context) (void)d->PrimaryCtxRelease(d->device);
  free(d);
}

const char *cli_device_name(const struct cli_device *d) {
  return d->name;
}
int cli_device_driver_version(const struct cli_device *d) {
  return d->version;
}
int cli_device_num_sms(const struct cli_device *d) {
  return d->num_sms;
}
int cli_device_sm_mhz(const struct cli_device *d) {
  return d->sm_khz / 1000;
}
void *cli_device_stream(struct cli_device *d) {
  return d->stream;
}

uint64_t cli_device_free_bytes(const struct cli_device *d) {
  size_t free_bytes = 0, total = 0;
  (void)d->MemGetInfo(&free_bytes, &total);
  return free_bytes;
}

void *cli_device_alloc(struct cli_device *d, uint64_t bytes) {
  CUdeviceptr memory = 0;
  if (!ok(d, d->MemAlloc(&memory, bytes ? bytes : 1), "device memory")) return NULL;
  return (void *)(uintptr_t)memory;
}

void cli_device_free(struct cli_device *d, void *memory) {
  if (memory) (void)d->MemFree((CUdeviceptr)(uintptr_t)memory);
}

bool cli_device_fill(struct cli_device *d, void *memory, uint8_t byte, uint64_t bytes) {
  if (!bytes) return true;
  return ok(d, d->MemsetD8Async((CUdeviceptr)(uintptr_t)memory, byte, bytes, d->stream), "memset");
}

bool cli_device_upload(struct cli_device *d, void *memory, const void *host, uint64_t bytes) {
  if (!bytes) return true;
  return ok(d, d->MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)memory, host, bytes, d->stream),
            "copy to the device") &&
         cli_device_wait(d);
}

bool cli_device_download(struct cli_device *d, void *host, const void *memory, uint64_t bytes) {
  if (!bytes) return true;
  return ok(d, d->MemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)memory, bytes, d->stream),
            "copy from the device") &&
         cli_device_wait(d);
}

bool cli_device_copy(struct cli_device *d, void *to, const void *from, uint64_t bytes) {
  if (!bytes) return true;
  return ok(d,
            d->MemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                               d->stream),
            "copy on the device");
}

bool cli_device_wait(struct cli_device *d) {
  return ok(d, d->StreamSynchronize(d->stream), "the device reports a fault");
}

double cli_device_time_us(struct cli_device *d, bool (*launch)(void *user), void *user) {
  float ms = 0;
  if (!ok(d, d->EventRecord(d->begin, d->stream), "event") || !launch(user) ||
      !ok(d, d->EventRecord(d->end, d->stream), "event") ||
      !ok(d, d->EventSynchronize(d->end), "the device reports a fault") ||
      !ok(d, d->EventElapsedTime(&ms, d->begin, d->end), "event"))
    return -1;
  return (double)ms * 1000;
}

cli_graph *cli_graph_capture(struct cli_device *d, bool (*launch)(void *user), void *user) {
  CUgraph graph = NULL;
  struct cli_graph *out = calloc(1, sizeof *out);
  if (!out) return NULL;
  bool good = ok(d, d->StreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "capture cannot begin");
  bool launched = good && launch(user);
  if (good) good = ok(d, d->StreamEndCapture(d->stream, &graph), "capture cannot end") && launched;
  if (good) good = ok(d, d->GraphInstantiate(&out->exec, graph, 0), "the graph");
  if (graph) (void)d->GraphDestroy(graph);
  if (!good) {
    free(out);
    return NULL;
  }
  return out;
}

bool cli_graph_launch(struct cli_device *d, cli_graph *graph) {
  return ok(d, d->GraphLaunch(graph->exec, d->stream), "the graph");
}

void cli_graph_free(struct cli_device *d, cli_graph *graph) {
  if (!graph) return;
  (void)d->GraphExecDestroy(graph->exec);
  free(graph);
}
