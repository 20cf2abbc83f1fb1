/* SPDX-License-Identifier: MIT */
/*
 * Kiln: CUDA kernels from YAML specs, compiled at run time and cached on disk.
 *
 * The life of a kernel:
 *
 *     kiln_open -> kiln_get -> kiln_launch (as often as wanted) -> kiln_kernel_unref -> kiln_close
 *
 * Things to know first
 *
 *  - One kernel serves every token count, stride and alignment: only what a spec calls a param is
 *    compiled in. Run-time sizes are read from the tensors of each launch.
 *  - kiln_get may read the disk or compile. kiln_launch never compiles, loads, allocates or
 *    synchronises, so it may be captured into a CUDA graph.
 *  - The library prints nothing and sets no signal handler. Faults of the cache never fail a
 *    request; they are counted and reported through the log callback.
 *  - Every function may be called from any thread, on shared objects too, unless it says otherwise.
 *  - Outputs are untouched on failure. Pointers received through an `out_` argument belong to the
 *    caller and have a function that releases them; those functions accept NULL.
 *  - Structs that start with `size` are set by their _init function, so that they can grow.
 */
#ifndef KILN_H
#define KILN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define KILN_API
#else
#define KILN_API __attribute__((visibility("default")))
#endif

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

/* ---- status -------------------------------------------------------------------------------- */

/* X(name, value, what it means). Values are pinned: they never change and are never reused. */
#define KILN_STATUS_TABLE(X)                                                                   \
  X(KILN_OK, 0, "success")                                                                     \
  X(KILN_E_ARGUMENT, -1, "a call's argument is wrong: pointer, tensor, shape, stride, scalar") \
  X(KILN_E_MEMORY, -2, "out of memory")                                                        \
  X(KILN_E_IO, -3, "a file cannot be read or written")                                         \
  X(KILN_E_SPEC, -4, "a spec is malformed; the error has file, line and column")               \
  X(KILN_E_NOT_FOUND, -5, "no such operator, param or target")                                 \
  X(KILN_E_UNSUPPORTED, -6, "the operator, target or device cannot serve this request")        \
  X(KILN_E_COMPILE, -7, "NVRTC is missing or refused the source; the error has its log")       \
  X(KILN_E_CUDA, -8, "no driver, no device, or the CUDA driver reported an error")             \
  X(KILN_E_MISS, -9, "not in the cache, and compiling is off")                                 \
  X(KILN_E_INTERNAL, -10, "a bug in Kiln")

typedef enum kiln_status {
#define KILN_X(name, value, text) name = (value),
  KILN_STATUS_TABLE(KILN_X)
#undef KILN_X
} kiln_status;

/* The name of a status, "KILN_E_SPEC" for instance; "KILN_E_?" for an unknown one. Never NULL. */
KILN_API const char *kiln_status_name(kiln_status status);

/* What went wrong in the last call of this thread that returned a status. */
typedef struct kiln_error {
  kiln_status status;
  const char *message; /* one sentence, fit to print; "" if status is KILN_OK */
  const char *file;    /* spec or template the fault is in, or NULL */
  int line, column;    /* 1-based; 0 where unknown */
  const char *log;     /* compiler log, or NULL */
  int driver_code;     /* CUresult or nvrtcResult, 0 if none took part */
} kiln_error;

/*
 * The last error of the calling thread; never NULL. Cleared on entry to every call that returns a
 * kiln_status, so it is never stale; unref, close, free and getters leave it alone. Valid until the
 * thread's next call that returns a kiln_status.
 */
KILN_API const kiln_error *kiln_last_error(void);

/* "kiln 0.1.0". Never NULL. */
KILN_API const char *kiln_version(void);

/* ---- element types and tensors --------------------------------------------------------------- */

/* X(name, value, bits, spelling in specs). Values are pinned. */
#define KILN_DTYPE_TABLE(X)                                                      \
  X(KILN_F32, 1, 32, "f32")                                                      \
  X(KILN_F16, 2, 16, "f16")                                                      \
  X(KILN_BF16, 3, 16, "bf16")                                                    \
  X(KILN_E4M3, 4, 8, "e4m3")  /* OCP E4M3FN */                                   \
  X(KILN_E5M2, 5, 8, "e5m2")  /* OCP E5M2 */                                     \
  X(KILN_E2M1, 6, 4, "e2m1")  /* two per byte, even channel in the low nibble */ \
  X(KILN_E5M6, 7, 12, "e5m6") /* eight in three little-endian words */           \
  X(KILN_UE8M0, 8, 8, "ue8m0")                                                   \
  X(KILN_I8, 9, 8, "i8")                                                         \
  X(KILN_I32, 10, 32, "i32")                                                     \
  X(KILN_I64, 11, 64, "i64")                                                     \
  X(KILN_U8, 12, 8, "u8")                                                        \
  X(KILN_BOOL, 13, 8, "bool")

typedef enum kiln_dtype {
  KILN_DTYPE_NONE = 0,
#define KILN_X(name, value, bits, text) name = (value),
  KILN_DTYPE_TABLE(KILN_X)
#undef KILN_X
} kiln_dtype;

/* "bf16" for KILN_BF16; "?" for an unknown one. */
KILN_API const char *kiln_dtype_name(kiln_dtype dtype);
/* 16 for KILN_BF16; 0 for an unknown one. */
KILN_API int kiln_dtype_bits(kiln_dtype dtype);

#define KILN_MAX_RANK 4

/*
 * A tensor in device memory. Shapes and strides count logical elements: a packed e2m1 matrix of
 * 7168 channels has shape [T, 7168], though a row is 3584 bytes. A scale-factor tensor has shape
 * [R, C] f32 with strides (C, 1) or, column-major, (1, ld); packed UE8M0 is [R, ceil(C/4)] i32.
 */
typedef struct kiln_tensor {
  void *data; /* device pointer, aligned to the element; may be NULL only if the tensor is empty */
  kiln_dtype dtype;
  int32_t rank;
  int64_t shape[KILN_MAX_RANK];
  int64_t strides[KILN_MAX_RANK]; /* in elements */
  uint64_t size_bytes;            /* bytes behind `data`, checked at launch; 0 = not stated */
} kiln_tensor;

/* A contiguous row-major tensor. `rank` is at most KILN_MAX_RANK. */
static inline kiln_tensor kiln_tensor_make(void *data, kiln_dtype dtype, int32_t rank,
                                           const int64_t *shape) {
  kiln_tensor t;
  int64_t stride = 1;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = dtype;
  t.rank = rank;
  for (int32_t i = rank - 1; i >= 0 && i < KILN_MAX_RANK; --i) {
    t.shape[i] = shape[i];
    t.strides[i] = stride;
    stride *= shape[i];
  }
  return t;
}

/* One named value handed to a launch: a tensor, or a scalar where `is_scalar` is set. */
typedef struct kiln_arg {
  const char *name; /* as in the spec */
  int32_t is_scalar;
  double scalar; /* rounded once to the spec's type (f32, i32 or i64) */
  kiln_tensor tensor;
} kiln_arg;

/* ---- the context ----------------------------------------------------------------------------- */

typedef struct kiln kiln;
typedef struct kiln_kernel kiln_kernel;

/* Called for cache faults, compiles and waits; may be called from any thread, must not call Kiln.
 */
typedef void (*kiln_log_fn)(void *user, const char *message);

typedef enum kiln_option_flags {
  KILN_NO_COMPILE = 1, /* strict: a request that is not cached is KILN_E_MISS; writes nothing */
  KILN_NO_CACHE = 2,   /* neither read nor write the disk cache */
  KILN_NO_DEVICE = 4   /* do not touch the driver: build for `arch`, never load */
} kiln_option_flags;

typedef struct kiln_options {
  size_t size;
  uint32_t flags;        /* kiln_option_flags */
  const char *arch;      /* "sm_90a", ...; NULL: that of `device` */
  int32_t device;        /* CUDA ordinal, 0 by default */
  const char *spec_dirs; /* colon-separated folders or files; NULL: KILN_SPEC_PATH, then built-in */
  const char
      *cache_dirs;   /* colon-separated roots, the first is written, the others only read;
                        NULL: KILN_CACHE_DIR, then $XDG_CACHE_HOME/kiln, then $HOME/.cache/kiln */
  const char *nvrtc; /* path of libnvrtc; NULL: KILN_NVRTC, then the usual places */
  kiln_log_fn log;
  void *log_user;
} kiln_options;

static inline void kiln_options_init(kiln_options *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/*
 * Opens a context: finds the specs and the target. Loads neither NVRTC (first miss) nor, with
 * KILN_NO_DEVICE, the driver. Without a driver a context still builds for `arch` if one is given.
 *
 * Errors: KILN_E_ARGUMENT     options malformed
 *         KILN_E_IO           a spec folder cannot be read
 *         KILN_E_SPEC         a spec is malformed
 *         KILN_E_CUDA         no `arch` given, and no driver or no such device
 *         KILN_E_UNSUPPORTED  the device's compute capability has no target; the message has its
 *                             name, its capability and what is supported
 */
KILN_API kiln_status kiln_open(const kiln_options *options, kiln **out);

/* Releases a context. Kernels still referenced stay valid. NULL is accepted. */
KILN_API void kiln_close(kiln *k);

/* The target the context builds for, "sm_90a" for instance. */
KILN_API const char *kiln_arch(const kiln *k);

/* ---- requests -------------------------------------------------------------------------------- */

/* `value` as text, as on the command line: "7168", "bf16", "true". A name `tile.threads`
   overrides an entry of the spec's tile. `present.NAME=true` asks for an optional tensor or
   scalar, which is otherwise taken as absent by kiln_get and read off the arguments by
   kiln_get_by_tensors. */
typedef struct kiln_param {
  const char *name;
  const char *value;
} kiln_param;

typedef struct kiln_request {
  size_t size;
  const char *op; /* operator name */
  const kiln_param *params;
  size_t num_params;
} kiln_request;

static inline void kiln_request_init(kiln_request *r) {
  memset(r, 0, sizeof *r);
  r->size = sizeof *r;
}

/* Where a kernel came from. */
typedef enum kiln_origin {
  KILN_FROM_MEMORY = 0,
  KILN_FROM_DISK = 1,
  KILN_FROM_COMPILER = 2
} kiln_origin;

/*
 * Returns the kernel that serves `request`, building it if need be. Where the context has a device
 * the kernel is loaded completely; otherwise it can be described but not launched.
 *
 * On success the caller owns one reference to `*out` (kiln_kernel_unref).
 *
 * Errors: KILN_E_NOT_FOUND    no such operator, or no such param
 *         KILN_E_ARGUMENT     a param's value is malformed
 *         KILN_E_UNSUPPORTED  the spec cannot serve these params; the message says which
 *         KILN_E_COMPILE      no NVRTC, or it refused the source; kiln_last_error() has the log
 *         KILN_E_MISS         KILN_NO_COMPILE is set and the cache has no entry
 *         KILN_E_CUDA         loading failed
 */
KILN_API kiln_status kiln_get(kiln *k, const kiln_request *request, kiln_kernel **out);

/*
 * As kiln_get, with params solved from the arguments of a launch: a dimension that is a param, or
 * linear in one, gives its value, a dtype gives a dtype param, and an optional argument that is
 * there is present. `request` holds what cannot be solved (flags, for instance).
 */
KILN_API kiln_status kiln_get_by_tensors(kiln *k, const kiln_request *request, const kiln_arg *args,
                                         size_t num_args, kiln_kernel **out);

/* Builds, and where there is a device loads, each of `requests`; stops at the first failure.
   Afterwards kiln_get of each is answered from memory as long as `k` is open. */
KILN_API kiln_status kiln_preload(kiln *k, const kiln_request *requests, size_t num_requests);

/* Emits the CUDA source for `request` without compiling. `*out_source` is released by kiln_free. */
KILN_API kiln_status kiln_emit(kiln *k, const kiln_request *request, char **out_source);

/* The labelled text whose hash names the cache entry of `request`; released by kiln_free. */
KILN_API kiln_status kiln_key_text(kiln *k, const kiln_request *request, char **out_text);

/* Releases text that came through an `out_` argument. NULL is accepted. */
KILN_API void kiln_free(void *text);

KILN_API kiln_kernel *kiln_kernel_ref(kiln_kernel *kernel);
KILN_API void kiln_kernel_unref(kiln_kernel *kernel);

/* ---- launching ------------------------------------------------------------------------------- */

typedef struct kiln_launch_options {
  size_t size;
  void *workspace; /* 256-byte aligned device memory of kiln_workspace_bytes, any contents */
  uint64_t workspace_bytes;
  int32_t num_sms; /* caps the grid of persistent kernels; 0 = all */
  int32_t use_pdl; /* programmatic dependent launch */
} kiln_launch_options;

static inline void kiln_launch_options_init(kiln_launch_options *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/*
 * Launches `kernel` on `stream`, a CUstream or cudaStream_t of the device's primary context; NULL
 * is its legacy default stream. `args` holds the spec's tensors and scalars by name, in any order.
 * `options` may be NULL. Everything is checked first: names, dtypes, ranks, shapes, strides,
 * element alignment, sizes. Asynchronous, allocates nothing, safe in stream capture; launches
 * nothing if all outputs are empty. The caller's current CUDA context is left as it was.
 *
 * Errors: KILN_E_ARGUMENT (nothing was launched or written), KILN_E_CUDA.
 */
KILN_API kiln_status kiln_launch(const kiln_kernel *kernel, const kiln_arg *args, size_t num_args,
                                 const kiln_launch_options *options, void *stream);

/* Scratch memory that a launch with these arguments needs, in bytes. */
KILN_API kiln_status kiln_workspace_bytes(const kiln_kernel *kernel, const kiln_arg *args,
                                          size_t num_args, const kiln_launch_options *options,
                                          uint64_t *out_bytes);

/* ---- describing ------------------------------------------------------------------------------ */

/* Number of operators that are loaded, and the name of each in alphabetical order. */
KILN_API size_t kiln_num_operators(const kiln *k);
KILN_API const char *kiln_operator_name(const kiln *k, size_t index);

/* What can be asked of an operator or a kernel as text. */
typedef enum kiln_text {
  KILN_TEXT_SPEC = 1,    /* the operator as JSON: params, scalars, tensors, require, chain or
                            template, tile, tune, examples, file */
  KILN_TEXT_KERNEL = 2,  /* the kernel as JSON: target, key, origin, compile_ms, params, functions
                            with registers, spills, shared memory, steps and variants;
                            row_held tells where a chain that needs a whole row keeps it */
  KILN_TEXT_CHAIN = 3,   /* one resolved stage a line; empty where the operator is no chain */
  KILN_TEXT_CONTEXT = 4, /* the context as JSON: target, device, nvrtc, cache_root; null for what
                            there is not, with the reason in device_error or nvrtc_error */
  KILN_TEXT_CACHE = 5    /* the cache's entries as JSON, each with path, target, key, nvrtc_id,
                            bytes, valid, key_text and facts */
} kiln_text;

/* KILN_TEXT_SPEC of operator `op`; released by kiln_free. */
KILN_API kiln_status kiln_operator_text(const kiln *k, const char *op, kiln_text what,
                                        char **out_text);
/* KILN_TEXT_KERNEL or KILN_TEXT_CHAIN of `kernel`; released by kiln_free. */
KILN_API kiln_status kiln_kernel_text(const kiln_kernel *kernel, kiln_text what, char **out_text);

/* KILN_TEXT_CONTEXT or KILN_TEXT_CACHE of `k`; released by kiln_free. The former looks for NVRTC,
   the latter reads every entry, so both take a while. KILN_E_IO where a cache root cannot be read.
 */
KILN_API kiln_status kiln_context_text(kiln *k, kiln_text what, char **out_text);

/* How often a context has done what. */
typedef struct kiln_stats {
  size_t size;
  uint64_t memory_hits, disk_hits, misses, compiles, compile_us;
  uint64_t corrupt_entries, store_failures, rejected_roots;
} kiln_stats;

static inline void kiln_stats_init(kiln_stats *s) {
  memset(s, 0, sizeof *s);
  s->size = sizeof *s;
}
KILN_API kiln_status kiln_get_stats(const kiln *k, kiln_stats *stats);

typedef enum kiln_role { KILN_IN = 1, KILN_OUT = 2, KILN_INOUT = 3 } kiln_role;

/* One argument of a kernel as a launch expects it. Names stay valid as long as the kernel. */
typedef struct kiln_arg_info {
  size_t size;
  const char *name;
  int32_t is_scalar;
  int32_t is_present; /* 0: optional, and this kernel was built without it */
  kiln_role role;     /* tensors only */
  kiln_dtype dtype;
  int32_t rank;
  int64_t shape[KILN_MAX_RANK];   /* for the sizes given */
  int64_t strides[KILN_MAX_RANK]; /* contiguous, or for scale factors the layout's default */
  int32_t stride_is_free[KILN_MAX_RANK];
  uint64_t size_bytes; /* of such a tensor, padding included */
  int32_t has_range;   /* scalars: values from low to high are allowed; tensors: elements are */
  int64_t low, high;   /* indices from low (0) to high, and any other means none */
} kiln_arg_info;

static inline void kiln_arg_info_init(kiln_arg_info *i) {
  memset(i, 0, sizeof *i);
  i->size = sizeof *i;
}

/* A run-time size, `num_tokens` for instance. */
typedef struct kiln_dim {
  const char *name;
  int64_t value;
} kiln_dim;

/* Number of arguments of `kernel`, in spec order, absent ones included. */
KILN_API size_t kiln_kernel_num_args(const kiln_kernel *kernel);
/* Number and names of the run-time sizes that the shapes depend on. */
KILN_API size_t kiln_kernel_num_dims(const kiln_kernel *kernel);
KILN_API const char *kiln_kernel_dim_name(const kiln_kernel *kernel, size_t index);
/* Describes argument `index` for given run-time sizes; every dim the kernel has must be given.
   Values of integer scalars may be given with them: ranges that depend on others are told only
   then. */
KILN_API kiln_status kiln_kernel_arg_info(const kiln_kernel *kernel, size_t index,
                                          const kiln_dim *dims, size_t num_dims,
                                          kiln_arg_info *info);
/* The spec's `bytes`: what a launch of these sizes must move at least. KILN_E_ARGUMENT for sizes
   that the operator does not serve. */
KILN_API kiln_status kiln_kernel_bytes(const kiln_kernel *kernel, const kiln_dim *dims,
                                       size_t num_dims, uint64_t *out_bytes);

#ifdef __cplusplus
}
#endif

#endif
