/* SPDX-License-Identifier: MIT */
/*
 * Device memory, streams, events and graphs for `kiln run` and `kiln bench`, through dlopen of the
 * driver. Every call that fails prints one line and returns false.
 */
#ifndef KILN_CLI_DEVICE_H
#define KILN_CLI_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_device;
typedef struct cli_graph cli_graph;

/* Opens device `ordinal` and makes its primary context current on this thread. NULL on failure. */
struct cli_device *cli_device_open(int ordinal);
void cli_device_close(struct cli_device *d);

const char *cli_device_name(const struct cli_device *d);
int cli_device_driver_version(const struct cli_device *d); /* 13000 for 13.0 */
int cli_device_num_sms(const struct cli_device *d);
/* Current or, where that is not known, maximal clocks. */
int cli_device_sm_mhz(const struct cli_device *d);
uint64_t cli_device_free_bytes(const struct cli_device *d);
void *cli_device_stream(struct cli_device *d);

/* Memory of at least `bytes` (0 is allowed), aligned to 256; NULL on failure. */
void *cli_device_alloc(struct cli_device *d, uint64_t bytes);
void cli_device_free(struct cli_device *d, void *memory);
bool cli_device_fill(struct cli_device *d, void *memory, uint8_t byte, uint64_t bytes);
bool cli_device_upload(struct cli_device *d, void *memory, const void *host, uint64_t bytes);
bool cli_device_download(struct cli_device *d, void *host, const void *memory, uint64_t bytes);
bool cli_device_copy(struct cli_device *d, void *to, const void *from, uint64_t bytes);

/* Waits for all work. */
bool cli_device_wait(struct cli_device *d);

/* Time of what `launch` enqueues on the stream, by events, in microseconds; negative on failure. */
double cli_device_time_us(struct cli_device *d, bool (*launch)(void *user), void *user);

/* Captures what `launch` enqueues into a graph; NULL on failure. */
cli_graph *cli_graph_capture(struct cli_device *d, bool (*launch)(void *user), void *user);
bool cli_graph_launch(struct cli_device *d, cli_graph *graph);
void cli_graph_free(struct cli_device *d, cli_graph *graph);

#endif
