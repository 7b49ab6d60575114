/*
 * nnburst_fmq.h: a queue between two processes over shared memory, in the layout of Android's libfmq.
 *
 * One process creates a queue and sends its descriptor (plain data and file descriptors, say over a Unix socket with
 * SCM_RIGHTS); the other attaches; each takes one end. Either may be a Rust program or a libfmq program.
 *
 * Every function that can fail returns an nnburst_fmq_status: NNBURST_FMQ_OK (0) or a negative number. Null pointers and
 * ends of the wrong kind give NNBURST_FMQ_INVALID. An end belongs to one thread at a time; nnburst_fmq_cancel and
 * nnburst_fmq_wake may be called from any.
 *
 * Link with libnnburst_fmq_c.a (and -lpthread -ldl -lm) or libnnburst_fmq_c.so.
 */
#ifndef NNBURST_FMQ_H
#define NNBURST_FMQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t nnburst_fmq_status;

enum {
    NNBURST_FMQ_OK = 0,
    NNBURST_FMQ_INVALID = -1,       /* a null pointer, or an end of the wrong kind */
    NNBURST_FMQ_EMPTY = -2,         /* fewer items there than asked for */
    NNBURST_FMQ_FULL = -3,          /* less room than asked for */
    NNBURST_FMQ_TOO_LARGE = -4,     /* more items than the capacity, or than were begun */
    NNBURST_FMQ_TIMED_OUT = -5,
    NNBURST_FMQ_CANCELLED = -6,
    NNBURST_FMQ_PEER_DIED = -7,
    NNBURST_FMQ_NO_EVENT_FLAG = -8, /* it would have to sleep, and there is no event flag, or no bit to sleep on */
    NNBURST_FMQ_PEER_LIED = -9,     /* an impossible counter: the queue is poisoned from now on */
    NNBURST_FMQ_POISONED = -10,     /* the peer lied earlier */
    NNBURST_FMQ_BAD_DESCRIPTOR = -11,
    NNBURST_FMQ_SYSTEM = -12        /* a system call failed */
};

/* The bits of the event flag that the ends use unless told otherwise. */
enum { NNBURST_FMQ_NOT_FULL = 1, NNBURST_FMQ_NOT_EMPTY = 2 };

/* How to wait. */
enum {
    NNBURST_FMQ_SPIN = 0,    /* poll: fastest, keeps a core busy, makes no system call */
    NNBURST_FMQ_BLOCK = 1,   /* sleep; needs an event flag */
    NNBURST_FMQ_ADAPTIVE = 2 /* poll for up to poll_us, by what recent waits took, then sleep */
};

typedef struct {
    int32_t strategy;
    uint32_t poll_us;
    int64_t timeout_ns; /* negative: for ever; 0: try once */
} nnburst_fmq_wait_options;

/* libfmq's GrantorDescriptor: where one part of the queue lies. */
typedef struct {
    uint32_t flags;
    uint32_t fd_index;
    uint32_t offset;
    uint64_t extent;
} nnburst_fmq_grantor;

enum { NNBURST_FMQ_MAX_GRANTORS = 4, NNBURST_FMQ_MAX_FDS = 4 };

/* libfmq's MQDescriptor. Grantors: read counter, write counter, ring, and optionally the event flag. */
typedef struct {
    nnburst_fmq_grantor grantors[NNBURST_FMQ_MAX_GRANTORS];
    uint32_t grantor_count;
    uint32_t quantum; /* bytes per item */
    uint32_t flags;   /* 1: synchronised, the only flavour here */
    uint32_t fd_count;
    int32_t fds[NNBURST_FMQ_MAX_FDS];
} nnburst_fmq_descriptor;

/* A queue that has not yet taken a side; one of its ends; a handle that ends waits. */
typedef struct nnburst_fmq_queue nnburst_fmq_queue;
typedef struct nnburst_fmq_end nnburst_fmq_end;
typedef struct nnburst_fmq_canceller nnburst_fmq_canceller;

/* Makes a queue of `capacity` items of `quantum` bytes in sealed memory. */
nnburst_fmq_status nnburst_fmq_create(size_t capacity, size_t quantum, bool event_flag,
                                      nnburst_fmq_queue **out);
/* Maps a queue, trusting nothing in the descriptor. Its files are duplicated and stay the caller's. */
nnburst_fmq_status nnburst_fmq_attach(const nnburst_fmq_descriptor *descriptor, nnburst_fmq_queue **out);
/* Describes the queue. The files in `out` are the caller's to close. */
nnburst_fmq_status nnburst_fmq_describe(const nnburst_fmq_queue *queue, nnburst_fmq_descriptor *out);
/* Frees a queue that took no side. Null is ignored. */
void nnburst_fmq_free(nnburst_fmq_queue *queue);

/* Turns the queue into its writing or reading end. The queue is gone, also if that fails. */
nnburst_fmq_status nnburst_fmq_producer(nnburst_fmq_queue *queue, nnburst_fmq_end **out);
nnburst_fmq_status nnburst_fmq_consumer(nnburst_fmq_queue *queue, nnburst_fmq_end **out);
/* Unmaps the queue. Null is ignored. */
void nnburst_fmq_close(nnburst_fmq_end *end);

size_t nnburst_fmq_capacity(const nnburst_fmq_end *end);
size_t nnburst_fmq_quantum(const nnburst_fmq_end *end);
/* Items that this end can write or read now; never more than the capacity. */
nnburst_fmq_status nnburst_fmq_available(nnburst_fmq_end *end, size_t *out);

/* Writes or reads `count` items, or none. */
nnburst_fmq_status nnburst_fmq_write(nnburst_fmq_end *producer, const void *items, size_t count);
nnburst_fmq_status nnburst_fmq_read(nnburst_fmq_end *consumer, void *items, size_t count);
/* The same, waiting for room or items. `options` null: adaptive, 50 us, for ever. */
nnburst_fmq_status nnburst_fmq_write_blocking(nnburst_fmq_end *producer, const void *items, size_t count,
                                              const nnburst_fmq_wait_options *options);
nnburst_fmq_status nnburst_fmq_read_blocking(nnburst_fmq_end *consumer, void *items, size_t count,
                                             const nnburst_fmq_wait_options *options);

/* A run of slots in the ring: up to its end, and from its start. `bytes` is 0 for none. */
typedef struct {
    void *address;
    size_t bytes;
} nnburst_fmq_region;

/* Begins to write or read `count` items in place. The peer may be writing them too, if it is hostile: copy, then
 * validate the copy. Nothing is published before the commit, of at most as many items as were begun. */
nnburst_fmq_status nnburst_fmq_begin(nnburst_fmq_end *end, size_t count, nnburst_fmq_region regions[2]);
nnburst_fmq_status nnburst_fmq_commit(nnburst_fmq_end *end, size_t count);

/* The event flag: sets bits and wakes who waits for them; waits for bits, clears and returns those that were set. */
nnburst_fmq_status nnburst_fmq_wake(const nnburst_fmq_end *end, uint32_t bits);
nnburst_fmq_status nnburst_fmq_wait(const nnburst_fmq_end *end, uint32_t bits, int64_t timeout_ns,
                                    uint32_t *out);
/* The bits that this end waits for and sets after each publication; 0 for none. */
nnburst_fmq_status nnburst_fmq_set_bits(nnburst_fmq_end *end, uint32_t wait, uint32_t wake);

/* Makes the death of process `pid` end the waits of this end. */
nnburst_fmq_status nnburst_fmq_watch_process(nnburst_fmq_end *end, uint32_t pid);
/* Makes the hang-up of a socket or pipe end them. The file is duplicated. */
nnburst_fmq_status nnburst_fmq_watch_connection(nnburst_fmq_end *end, int fd);

/* A handle that ends the waits of the ends it is set on, from any thread. */
nnburst_fmq_canceller *nnburst_fmq_canceller_new(void);
void nnburst_fmq_canceller_free(nnburst_fmq_canceller *canceller);
nnburst_fmq_status nnburst_fmq_set_canceller(nnburst_fmq_end *end, const nnburst_fmq_canceller *canceller);
nnburst_fmq_status nnburst_fmq_cancel(const nnburst_fmq_canceller *canceller);

/* What a status means, in English. */
const char *nnburst_fmq_strerror(nnburst_fmq_status status);

#ifdef __cplusplus
}
#endif

#endif
