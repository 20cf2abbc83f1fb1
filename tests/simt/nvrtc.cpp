// SPDX-License-Identifier: MIT
// A stand-in for NVRTC: "compiles" emitted CUDA with g++ into a shared object, which the stand-in
// for the driver loads. See README.md.
#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern char **environ;

// A digest of device.hpp, which CMake defines, makes a changed header another compiler.
extern "C" const char simt_device_digest[] = SIMT_DEVICE_DIGEST;

struct _nvrtcProgram {
  std::string source, log, binary;
  int arch = 900; /* __CUDA_ARCH__ */
};

namespace {

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int run(const std::vector<std::string> &words, const std::string &log) {
  std::vector<char *> argv;
  for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  // The sanitizer that is preloaded for the kernels has no business in the compiler.
  std::vector<char *> environment;
  for (char **e = environ; *e; ++e) {
    if (std::strncmp(*e, "LD_PRELOAD=", 11) != 0) environment.push_back(*e);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int status = -1;
  if (posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment.data()) == 0) {
    waitpid(child, &status, 0);
  }
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

nvrtcResult compile(nvrtcProgram program) {
  char folder[] = "/tmp/kiln-simt-XXXXXX";
  if (!mkdtemp(folder)) return NVRTC_ERROR_INTERNAL_ERROR;
  const std::string base(folder), source = base + "/kiln.cpp", object = base + "/kiln.so",
                                  log = base + "/log";
  std::ofstream(source) << program->source;
  std::vector<std::string> words = {"g++",
                                    "-std=c++17",
                                    "-O1",
                                    "-g1",
                                    "-x",
                                    "c++",
                                    "-fPIC",
                                    "-shared",
                                    "-DKILN_SIMT",
                                    "-D__CUDA_ARCH__=" + std::to_string(program->arch),
                                    "-ffp-contract=off",
                                    "-fno-strict-aliasing",
                                    "-w",
                                    "-include",
                                    SIMT_DEVICE_HEADER};
  if (!std::getenv("KILN_SIMT_PLAIN")) {
    words.insert(words.end(), {"-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                               "-fno-sanitize=vptr"});
  }
  words.insert(words.end(), {source, "-o", object});
  int status = run(words, log);
  program->log = read_file(log);
  program->binary = status == 0 ? read_file(object) : "";
  for (const std::string &path : {source, object, log}) unlink(path.c_str());
  rmdir(folder);
  return status == 0 ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *, int,
                               const char *const *, const char *const *) {
  *out = new _nvrtcProgram{source, "", ""};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options) {
  for (int i = 0; i < num_options; ++i) {
    int compute = 0;
    if (std::sscanf(options[i], "--gpu-architecture=sm_%d", &compute) == 1) {
      program->arch = compute * 10;
    }
  }
  return compile(program);
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *out) {
  *out = program->binary.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *out) {
  std::memcpy(out, program->binary.data(), program->binary.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *out) {
  *out = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *out) {
  std::memcpy(out, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
const char *nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}

}  // extern "C"
