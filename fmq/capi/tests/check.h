/* What the C tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nnburst_fmq.h"

/* Ends the process with the line (modulo 255) of what is not so. */
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            _exit(__LINE__ % 255 ? __LINE__ % 255 : 1);                        \
        }                                                                      \
    } while (0)
#define OK(call) CHECK((call) == NNBURST_FMQ_OK)

static inline nnburst_fmq_queue *attached(const nnburst_fmq_descriptor *descriptor, size_t quantum) {
    nnburst_fmq_queue *queue;
    OK(nnburst_fmq_attach(descriptor, quantum, &queue));
    return queue;
}

static inline nnburst_fmq_end *producer_of(nnburst_fmq_queue *queue) {
    nnburst_fmq_end *end;
    OK(nnburst_fmq_producer(queue, &end));
    return end;
}

static inline nnburst_fmq_end *consumer_of(nnburst_fmq_queue *queue) {
    nnburst_fmq_end *end;
    OK(nnburst_fmq_consumer(queue, &end));
    return end;
}

static inline nnburst_fmq_descriptor described(const nnburst_fmq_queue *queue) {
    nnburst_fmq_descriptor descriptor;
    OK(nnburst_fmq_describe(queue, &descriptor));
    return descriptor;
}

static inline size_t available(nnburst_fmq_end *end) {
    size_t items;
    OK(nnburst_fmq_available(end, &items));
    return items;
}

static inline void close_files(const nnburst_fmq_descriptor *descriptor) {
    for (uint32_t i = 0; i < descriptor->fd_count; i++) close(descriptor->fds[i]);
}

/* Whether the child ended with 0. */
static inline int ended_well(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

#endif
