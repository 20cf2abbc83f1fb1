/* SPDX-License-Identifier: MIT */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

/* Process-wide, since the driver is. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct kn_driver driver;
static bool ready;

static kiln_status load_locked(void) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return kn_fail(KILN_E_CUDA, "no CUDA driver: %s", dlerror());
#define X(member, symbol, arguments)                                            \
  *(void **)(&driver.member) = dlsym(handle, symbol);                           \
  if (!driver.member) {                                                         \
    (void)dlclose(handle);                                                      \
    return kn_fail(KILN_E_CUDA, "the CUDA driver is too old: it has no " symbol \
                                " (CUDA 12.4 or newer is needed)");             \
  }
  KN_DRIVER_SYMBOLS(X)
#undef X
  CUresult code = driver.Init(0);
  if (code == CUDA_SUCCESS) {
    ready = true;
    return KILN_OK;
  }
  kiln_status status = kn_driver_fail(&driver, code, "the CUDA driver does not start");
  (void)dlclose(handle);
  return status;
}

kiln_status kn_driver_get(const struct kn_driver **out) {
  (void)pthread_mutex_lock(&mutex);
  kiln_status status = ready ? KILN_OK : load_locked();
  (void)pthread_mutex_unlock(&mutex);
  if (status == KILN_OK) *out = &driver;
  return status;
}

kiln_status kn_driver_fail(const struct kn_driver *d, CUresult code, const char *what) {
  const char *name = NULL, *text = NULL;
  (void)d->GetErrorName(code, &name);
  (void)d->GetErrorString(code, &text);
  kiln_status status =
      kn_fail(KILN_E_CUDA, "%s: %s (%s)", what, name ? name : "unknown error", text ? text : "?");
  kn_error_set_driver_code((int)code);
  return status;
}
