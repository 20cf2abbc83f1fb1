/* SPDX-License-Identifier: MIT */
/* A libnvrtc that takes its process along when it is given a transpose, as one that runs out of
   memory would, and refuses all else with a log. */
#include <nvrtc.h>
#include <signal.h>
#include <string.h>

static const char refusal[] = "kiln/generated(1): error: refused by the test";

nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                               int num_headers, const char *const *headers,
                               const char *const *include_names) {
  (void)name;
  (void)num_headers;
  (void)headers;
  (void)include_names;
  *program = (nvrtcProgram)strstr(source, "transpose_full"); /* NULL for the copy */
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options) {
  (void)num_options;
  (void)options;
  if (program) (void)raise(SIGKILL);
  return NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  *program = NULL;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size) {
  (void)program;
  *size = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  (void)program;
  (void)cubin;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size) {
  (void)program;
  *size = sizeof refusal;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  (void)program;
  memcpy(log, refusal, sizeof refusal);
  return NVRTC_SUCCESS;
}
