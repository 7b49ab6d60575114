/*
 * nnburst_fmq.h: a queue between two processes over shared memory, in the layout of Android's libfmq.
 *
 * One process creates a queue and sends its descriptor (plain data and file descriptors, say over a Unix socket with
 * SCM_RIGHTS); the other attaches; each takes one end. Either may be a Rust program or a libfmq program.
 *
 * Every function that can fail returns an nnburst_fmq_status: NNBURST_FMQ_OK (0) or a negative number. Null pointers and
 * ends of the wrong kind give NNBURST_FMQ_INVALID. An end belongs to one thread at a time; nnburst_fmq_cancel,
 * nnburst_fmq_wake, nnburst_fmq_event_flag_word, nnburst_fmq_flag_of, nnburst_fmq_flag_wake and nnburst_fmq_flag_wait may
 * be called from any, as long as the end stays open and keeps its flag.
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
    NNBURST_FMQ_INVALID = -1,       /* a null pointer, an unknown flag, or an end of the wrong kind */
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
    NNBURST_FMQ_SYSTEM = -12,       /* a system call failed */
    NNBURST_FMQ_ITEM_SIZE = -13,    /* the descriptor is for items of another size than the caller's */
    NNBURST_FMQ_LOST = -14          /* unsynchronised: overwritten before it was read; the next read goes on */
};

/* What went wrong last on the calling thread, with the figures that there are; others are 0. */
typedef struct {
    nnburst_fmq_status status; /* NNBURST_FMQ_OK if nothing has failed yet */
    int32_t part;              /* number of the grantor that it is about, or -1 */
    int32_t lie;               /* rule that the peer's counter broke: 1 out of reach, 2 backwards, 3 misaligned */
    int32_t system;            /* errno */
    uint64_t asked;            /* items, or bytes of an item, of a region */
    uint64_t available;        /* items there, room, capacity, or the bytes that there are */
    uint64_t lost;             /* items */
    uint64_t seen;             /* the peer's counter, in bytes */
    uint64_t ours;             /* ours */
    uint64_t ring_bytes;
    char message[192];         /* all of it in English */
} nnburst_fmq_error;

nnburst_fmq_status nnburst_fmq_last_error(nnburst_fmq_error *out);

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
    uint32_t flags;   /* the flavour */
    uint32_t fd_count;
    int32_t fds[NNBURST_FMQ_MAX_FDS];
} nnburst_fmq_descriptor;

/* A queue that has not yet taken a side; one of its ends; a handle that ends waits; an event flag. */
typedef struct nnburst_fmq_queue nnburst_fmq_queue;
typedef struct nnburst_fmq_end nnburst_fmq_end;
typedef struct nnburst_fmq_canceller nnburst_fmq_canceller;
typedef struct nnburst_fmq_flag nnburst_fmq_flag;

/* One reader, which waits and is waited for; or one writer that overwrites the oldest items, and any number of readers. */
enum { NNBURST_FMQ_SYNCHRONIZED = 1, NNBURST_FMQ_UNSYNCHRONIZED = 2 };

/* Flags of creating and attaching. */
enum {
    NNBURST_FMQ_EVENT_FLAG = 1,     /* create: give the queue an event-flag word */
    NNBURST_FMQ_PACKED = 2,         /* create: lay it out byte for byte as libfmq's allocator does */
    NNBURST_FMQ_ALLOW_UNSEALED = 4, /* both: memory that a peer can shorten, which raises SIGBUS here */
    NNBURST_FMQ_RING_IN_FILE = 8,   /* create: the ring lies in a file of the caller's, at its start; the counters where
                                       libfmq has them then, so not with NNBURST_FMQ_PACKED */
    NNBURST_FMQ_RESET_COUNTERS = 16 /* attach: empty the queue first (unsynchronised: when it becomes a writing end). For
                                       its owner, who knows that nobody else is attached. */
};

typedef struct {
    size_t capacity;
    size_t quantum;  /* bytes per item */
    uint32_t flavor; /* NNBURST_FMQ_SYNCHRONIZED or NNBURST_FMQ_UNSYNCHRONIZED */
    uint32_t flags;
    int ring_fd;     /* with NNBURST_FMQ_RING_IN_FILE; duplicated, and stays the caller's */
} nnburst_fmq_create_options;

/* Makes a queue of `capacity` items of `quantum` bytes in sealed memory. */
nnburst_fmq_status nnburst_fmq_create(size_t capacity, size_t quantum, bool event_flag, nnburst_fmq_queue **out);
nnburst_fmq_status nnburst_fmq_create_with(const nnburst_fmq_create_options *options, nnburst_fmq_queue **out);
/* Maps the queue that `descriptor` describes, trusting nothing in it. `quantum` is the size of the caller's items: a queue
 * of others gives NNBURST_FMQ_ITEM_SIZE, so that the peer doesn't decide how many bytes an item copies. The files are
 * duplicated and stay the caller's. */
nnburst_fmq_status nnburst_fmq_attach(const nnburst_fmq_descriptor *descriptor, size_t quantum,
                                      nnburst_fmq_queue **out);
nnburst_fmq_status nnburst_fmq_attach_with(const nnburst_fmq_descriptor *descriptor, size_t quantum, uint32_t flags,
                                           nnburst_fmq_queue **out);
/* Describes the queue. The files in `out` are the caller's to close. */
nnburst_fmq_status nnburst_fmq_describe(const nnburst_fmq_queue *queue, nnburst_fmq_descriptor *out);
/* Frees a queue that took no side. Null is ignored. */
void nnburst_fmq_free(nnburst_fmq_queue *queue);

/* Turns the queue into its writing or a reading end. The queue is gone, also if that fails. Ends of an unsynchronised queue
 * never wait: blocking calls, bits, watches and cancellers are for the others. */
nnburst_fmq_status nnburst_fmq_producer(nnburst_fmq_queue *queue, nnburst_fmq_end **out);
nnburst_fmq_status nnburst_fmq_consumer(nnburst_fmq_queue *queue, nnburst_fmq_end **out);
/* Unmaps the queue. Null is ignored. */
void nnburst_fmq_close(nnburst_fmq_end *end);

size_t nnburst_fmq_capacity(const nnburst_fmq_end *end);
size_t nnburst_fmq_quantum(const nnburst_fmq_end *end);
/* Items that this end can write or read now; never more than the capacity. An unsynchronised writer can always write as
 * many as that. */
nnburst_fmq_status nnburst_fmq_available(nnburst_fmq_end *end, size_t *out);

/* Writes or reads `count` items, or none. */
nnburst_fmq_status nnburst_fmq_write(nnburst_fmq_end *producer, const void *items, size_t count);
nnburst_fmq_status nnburst_fmq_read(nnburst_fmq_end *consumer, void *items, size_t count);
/* The same, waiting for room or items. `options` null: adaptive, 50 us, for ever. */
nnburst_fmq_status nnburst_fmq_write_blocking(nnburst_fmq_end *producer, const void *items, size_t count,
                                              const nnburst_fmq_wait_options *options);
nnburst_fmq_status nnburst_fmq_read_blocking(nnburst_fmq_end *consumer, void *items, size_t count,
                                             const nnburst_fmq_wait_options *options);

/* Waits until `count` items can be written or read, for a transaction say. */
nnburst_fmq_status nnburst_fmq_wait_ready(nnburst_fmq_end *end, size_t count, const nnburst_fmq_wait_options *options);

/* A run of slots in the ring: up to its end, and from its start. Null and 0 for none. */
typedef struct {
    void *address;
    size_t bytes;
} nnburst_fmq_region;

/* Begins to write or read `count` items in place. The peer may be writing them too, if it is hostile: copy, then
 * validate the copy. Nothing is published before the commit, of at most as many items as were begun.
 * Unsynchronised: what is begun to be written can't be read any more from here on; what was copied while reading counts
 * only if the commit gives NNBURST_FMQ_OK (NNBURST_FMQ_LOST: the writer has overwritten it); slots of readers can't be
 * written. */
nnburst_fmq_status nnburst_fmq_begin(nnburst_fmq_end *end, size_t count, nnburst_fmq_region regions[2]);
nnburst_fmq_status nnburst_fmq_commit(nnburst_fmq_end *end, size_t count);

/* Unsynchronised writer: forbids everyone to map the memory for writing from now on. */
nnburst_fmq_status nnburst_fmq_seal_future_writes(nnburst_fmq_end *writer);

/* The event flag: sets bits and wakes who waits for them; waits for bits, clears and returns those that were set. The wait
 * ends by what is attached to the end too: NNBURST_FMQ_PEER_DIED, NNBURST_FMQ_CANCELLED. */
nnburst_fmq_status nnburst_fmq_wake(const nnburst_fmq_end *end, uint32_t bits);
nnburst_fmq_status nnburst_fmq_wait(nnburst_fmq_end *end, uint32_t bits, int64_t timeout_ns, uint32_t *out);
/* The flag's word, or null; valid while the end is open. Others change it: access it atomically. */
uint32_t *nnburst_fmq_event_flag_word(const nnburst_fmq_end *end);
/* The bits that this end waits for and sets after each publication; 0 for none. */
nnburst_fmq_status nnburst_fmq_set_bits(nnburst_fmq_end *end, uint32_t wait, uint32_t wake);

/* An event flag by itself, for any number of threads: an end's, which stays mapped, or one over a word of the caller's,
 * aligned to 4, accessed atomically only, and not freed before the flag and the ends that were given it. */
nnburst_fmq_status nnburst_fmq_flag_of(const nnburst_fmq_end *end, nnburst_fmq_flag **out);
nnburst_fmq_status nnburst_fmq_flag_over(uint32_t *word, nnburst_fmq_flag **out);
void nnburst_fmq_flag_free(nnburst_fmq_flag *flag);
uint32_t *nnburst_fmq_flag_word(const nnburst_fmq_flag *flag);
nnburst_fmq_status nnburst_fmq_flag_wake(const nnburst_fmq_flag *flag, uint32_t bits);
nnburst_fmq_status nnburst_fmq_flag_wait(const nnburst_fmq_flag *flag, uint32_t bits, int64_t timeout_ns,
                                         uint32_t *out);
/* Makes an end sleep and announce on another flag than its queue's, before any other thread uses the end; the peer has to
 * do so too. */
nnburst_fmq_status nnburst_fmq_set_flag(nnburst_fmq_end *end, const nnburst_fmq_flag *flag);

/* Makes the death of process `pid` end the waits of this end. */
nnburst_fmq_status nnburst_fmq_watch_process(nnburst_fmq_end *end, uint32_t pid);
/* Makes the hang-up of a socket or pipe end them. The file is duplicated. */
nnburst_fmq_status nnburst_fmq_watch_connection(nnburst_fmq_end *end, int fd);
/* The same for the waits of a flag, before any other thread uses it. */
nnburst_fmq_status nnburst_fmq_flag_watch_process(nnburst_fmq_flag *flag, uint32_t pid);
nnburst_fmq_status nnburst_fmq_flag_watch_connection(nnburst_fmq_flag *flag, int fd);

/* A handle that ends the waits of the ends it is set on, from any thread. */
nnburst_fmq_canceller *nnburst_fmq_canceller_new(void);
void nnburst_fmq_canceller_free(nnburst_fmq_canceller *canceller);
nnburst_fmq_status nnburst_fmq_set_canceller(nnburst_fmq_end *end, const nnburst_fmq_canceller *canceller);
nnburst_fmq_status nnburst_fmq_flag_set_canceller(nnburst_fmq_flag *flag, const nnburst_fmq_canceller *canceller);
/* Allows waits again. */
nnburst_fmq_status nnburst_fmq_canceller_reset(const nnburst_fmq_canceller *canceller);
nnburst_fmq_status nnburst_fmq_cancel(const nnburst_fmq_canceller *canceller);

/* What a status means, in English. */
const char *nnburst_fmq_strerror(nnburst_fmq_status status);

#ifdef __cplusplus
}
#endif

#endif
