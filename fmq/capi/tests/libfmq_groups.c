/* What each group of libfmq's unit tests asks of a queue, said in this interface; tests/README.md has the table. A libfmq
 * MessageQueue is both ends at once: here a producer and a consumer of one queue. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

enum { CAPACITY = 2048 };

typedef struct {
    nnburst_fmq_end *out, *in;
    nnburst_fmq_descriptor descriptor;
    size_t quantum;
} message_queue;

/* With one file, or with the ring in a file of the caller's. */
static message_queue open_queue(uint32_t flavor, size_t capacity, size_t quantum, int two_files, int event_flag) {
    nnburst_fmq_create_options options = {capacity, quantum, flavor, NNBURST_FMQ_PACKED, -1};
    if (two_files) {
        options.ring_fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        CHECK(ftruncate(options.ring_fd, (off_t)(capacity * quantum)) == 0);
        options.flags = NNBURST_FMQ_RING_IN_FILE;
    }
    if (event_flag) options.flags |= NNBURST_FMQ_EVENT_FLAG;
    nnburst_fmq_queue *queue;
    OK(nnburst_fmq_create_with(&options, &queue));
    message_queue made = {0};
    made.quantum = quantum;
    made.descriptor = described(queue);
    if (two_files) close(options.ring_fd);
    made.out = producer_of(queue);
    made.in = consumer_of(attached(&made.descriptor, quantum));
    CHECK(nnburst_fmq_capacity(made.in) == capacity);
    return made;
}

static void close_queue(message_queue *queue) {
    nnburst_fmq_close(queue->out);
    nnburst_fmq_close(queue->in);
    close_files(&queue->descriptor);
}

static void fill(uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)i;
}

/* MemTransaction's copyTo and copyFrom. */
static void copy_to(const nnburst_fmq_region *regions, const uint8_t *data) {
    if (regions[0].bytes) memcpy(regions[0].address, data, regions[0].bytes);
    if (regions[1].bytes) memcpy(regions[1].address, data + regions[0].bytes, regions[1].bytes);
}

static void copy_from(const nnburst_fmq_region *regions, uint8_t *data) {
    if (regions[0].bytes) memcpy(data, regions[0].address, regions[0].bytes);
    if (regions[1].bytes) memcpy(data + regions[0].bytes, regions[1].address, regions[1].bytes);
}

static uint8_t data[2 * CAPACITY], got[2 * CAPACITY];
static nnburst_fmq_region regions[2];

/* SmallInputTest1-3, MultipleRead, MultipleWrite, LargeInputTest1, ReadWriteWrapAround1-2: both flavours. */
static void reads_and_writes(uint32_t flavor, int two_files) {
    message_queue q = open_queue(flavor, CAPACITY, 1, two_files, 0);
    OK(nnburst_fmq_write(q.out, data, 16));
    OK(nnburst_fmq_read(q.in, got, 16));
    CHECK(memcmp(data, got, 16) == 0);
    OK(nnburst_fmq_begin(q.out, 16, regions));
    CHECK(regions[0].bytes + regions[1].bytes == 16);
    copy_to(regions, data);
    OK(nnburst_fmq_commit(q.out, 16));
    OK(nnburst_fmq_begin(q.in, 16, regions));
    memset(got, 0xee, sizeof got);
    copy_from(regions, got);
    OK(nnburst_fmq_commit(q.in, 16));
    CHECK(memcmp(data, got, 16) == 0);
    for (int in_parts = 0; in_parts < 2; in_parts++) { /* five writes and one read, one write and five reads */
        memset(got, 0xee, sizeof got);
        size_t write = in_parts ? 500 : 100, read = in_parts ? 100 : 500;
        for (size_t at = 0; at < 500; at += write) OK(nnburst_fmq_write(q.out, data + at, write));
        CHECK(available(q.in) == 500);
        for (size_t at = 0; at < 500; at += read) OK(nnburst_fmq_read(q.in, got + at, read));
        CHECK(memcmp(data, got, 500) == 0);
    }
    for (int round = 0; round < 3; round++) { /* exact capacity, then round the end */
        size_t count = round == 1 ? CAPACITY - 1 : CAPACITY;
        memset(got, 0xee, sizeof got);
        OK(nnburst_fmq_write(q.out, data, count));
        OK(nnburst_fmq_read(q.in, got, count));
        CHECK(memcmp(data, got, count) == 0);
    }
    OK(nnburst_fmq_begin(q.out, CAPACITY, regions));
    CHECK(regions[0].bytes + regions[1].bytes == CAPACITY && regions[1].bytes != 0);
    copy_to(regions, data);
    OK(nnburst_fmq_commit(q.out, CAPACITY));
    OK(nnburst_fmq_begin(q.in, CAPACITY, regions));
    memset(got, 0xee, sizeof got);
    copy_from(regions, got);
    OK(nnburst_fmq_commit(q.in, CAPACITY));
    CHECK(memcmp(data, got, CAPACITY) == 0);

    /* ReadWhenEmpty1-2, LargeInputTest2 and 4, ReadMoreThanAvailableToRead, ReadMoreThanNumMessagesMax. */
    CHECK(available(q.in) == 0);
    CHECK(nnburst_fmq_read(q.in, got, 2) == NNBURST_FMQ_EMPTY);
    regions[0].address = regions[1].address = got;
    CHECK(nnburst_fmq_begin(q.in, 2, regions) == NNBURST_FMQ_EMPTY);
    CHECK(regions[0].address == NULL && regions[1].address == NULL);
    CHECK(nnburst_fmq_write(q.out, data, 4096) == NNBURST_FMQ_TOO_LARGE && available(q.in) == 0);
    CHECK(nnburst_fmq_read(q.in, got, CAPACITY) == NNBURST_FMQ_EMPTY && available(q.in) == 0);
    regions[0].address = regions[1].address = got;
    CHECK(nnburst_fmq_begin(q.out, 4096, regions) == NNBURST_FMQ_TOO_LARGE);
    CHECK(regions[0].address == NULL && regions[1].address == NULL);
    OK(nnburst_fmq_write(q.out, data, CAPACITY / 2));
    CHECK(nnburst_fmq_read(q.in, got, CAPACITY / 2 + 1) == NNBURST_FMQ_EMPTY);
    CHECK(nnburst_fmq_read(q.in, got, CAPACITY + 1) == NNBURST_FMQ_TOO_LARGE);
    close_queue(&q);
}

/* WriteWhenFull1-2, LargeInputTest3: a full queue takes no more, and keeps what it has. */
static void full_synchronised(int two_files) {
    message_queue q = open_queue(NNBURST_FMQ_SYNCHRONIZED, CAPACITY, 1, two_files, 0);
    OK(nnburst_fmq_write(q.out, data, CAPACITY));
    CHECK(available(q.out) == 0);
    CHECK(nnburst_fmq_write(q.out, data, 1) == NNBURST_FMQ_FULL);
    regions[0].address = regions[1].address = got;
    CHECK(nnburst_fmq_begin(q.out, 1, regions) == NNBURST_FMQ_FULL);
    CHECK(regions[0].address == NULL && regions[1].address == NULL);
    OK(nnburst_fmq_read(q.in, got, CAPACITY));
    CHECK(memcmp(data, got, CAPACITY) == 0);
    close_queue(&q);
}

/* WriteWhenFull1-2, LargeInputTest3, UnsynchronizedOverflowHistoryTest: a full queue forgets the oldest. */
static void full_unsynchronised(int two_files) {
    for (int by_transaction = 0; by_transaction < 2; by_transaction++) {
        message_queue q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, CAPACITY, 1, two_files, 0);
        OK(nnburst_fmq_write(q.out, data, CAPACITY));
        CHECK(CAPACITY - available(q.in) == 0); /* libfmq's availableToWrite */
        if (by_transaction) {
            OK(nnburst_fmq_begin(q.out, 1, regions));
            CHECK(regions[0].bytes == 1);
            copy_to(regions, data);
            OK(nnburst_fmq_commit(q.out, 1));
        } else {
            OK(nnburst_fmq_write(q.out, data, 1));
        }
        CHECK(nnburst_fmq_read(q.in, got, CAPACITY) == NNBURST_FMQ_LOST);
        close_queue(&q);
    }
    static uint16_t wide[CAPACITY], back[CAPACITY];
    for (int i = 0; i < CAPACITY; i++) wide[i] = (uint16_t)i;
    for (int during_a_read = 0; during_a_read < 2; during_a_read++) {
        message_queue q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, CAPACITY, 2, two_files, 0);
        OK(nnburst_fmq_write(q.out, wide, CAPACITY));
        if (during_a_read) {
            OK(nnburst_fmq_begin(q.in, CAPACITY, regions));
            OK(nnburst_fmq_write(q.out, wide, 1));
            CHECK(nnburst_fmq_commit(q.in, CAPACITY) == NNBURST_FMQ_LOST);
        } else {
            OK(nnburst_fmq_write(q.out, wide, 1));
            CHECK(nnburst_fmq_read(q.in, back, 1) == NNBURST_FMQ_LOST);
        }
        CHECK(available(q.in) == CAPACITY / 2);
        OK(nnburst_fmq_read(q.in, back, CAPACITY / 2));
        CHECK(memcmp(back, wide + CAPACITY / 2 + 1, CAPACITY - 2) == 0 && back[CAPACITY / 2 - 1] == wide[0]);
        close_queue(&q);
    }
    message_queue q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, 1, 2, two_files, 0);
    for (int round = 0; round < 2; round++) {
        OK(nnburst_fmq_write(q.out, wide, 1));
        OK(nnburst_fmq_read(q.in, back, 1));
        OK(nnburst_fmq_write(q.out, wide, 1));
        OK(nnburst_fmq_write(q.out, wide, 1));
        CHECK(nnburst_fmq_read(q.in, back, 1) == NNBURST_FMQ_LOST);
    }
    close_queue(&q);
}

/* ReadBetweenBeginWriteAndCommitWrite, ValidateBeginWriteCommitWriteBehavior: of the unsynchronised flavour. */
static void begun_and_committed(int two_files) {
    static uint16_t wide[CAPACITY + 1], back[CAPACITY];
    for (int i = 0; i <= CAPACITY; i++) wide[i] = (uint16_t)i;
    message_queue q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, CAPACITY, 2, two_files, 0);
    OK(nnburst_fmq_write(q.out, wide, CAPACITY));
    OK(nnburst_fmq_begin(q.out, 1, regions));
    CHECK(regions[0].bytes == 2 && regions[1].bytes == 0);
    copy_to(regions, (uint8_t *)(wide + CAPACITY));
    CHECK(available(q.in) == CAPACITY);
    CHECK(nnburst_fmq_read(q.in, back, 1) == NNBURST_FMQ_LOST);
    OK(nnburst_fmq_read(q.in, back, 1));
    CHECK(back[0] == wide[CAPACITY / 2]);
    OK(nnburst_fmq_commit(q.out, 1));
    close_queue(&q);

    q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, CAPACITY, 2, two_files, 0);
    OK(nnburst_fmq_begin(q.out, 1, regions));
    copy_to(regions, (uint8_t *)(wide + 1));
    OK(nnburst_fmq_commit(q.out, 1));
    CHECK(available(q.in) == 1);
    CHECK(nnburst_fmq_commit(q.out, 1) == NNBURST_FMQ_TOO_LARGE);
    OK(nnburst_fmq_commit(q.out, 0));
    OK(nnburst_fmq_begin(q.out, 2, regions));
    CHECK(nnburst_fmq_commit(q.out, 3) == NNBURST_FMQ_TOO_LARGE);
    CHECK(available(q.in) == 1);
    OK(nnburst_fmq_begin(q.out, 3, regions));
    memcpy(regions[0].address, wide + 2, 4);
    OK(nnburst_fmq_commit(q.out, 2));
    OK(nnburst_fmq_read(q.in, back, 3));
    CHECK(memcmp(back, wide + 1, 6) == 0);
    close_queue(&q);
}

typedef struct {
    nnburst_fmq_end *in;
    const nnburst_fmq_flag *flag;
} reader;

/* ReaderThreadBlocking: waits for the bit, then reads. */
static void *waits_then_reads(void *context) {
    reader *r = context;
    for (;;) {
        uint32_t bits = 0;
        OK(nnburst_fmq_flag_wait(r->flag, NNBURST_FMQ_NOT_EMPTY, 60000000000, &bits));
        if ((bits & NNBURST_FMQ_NOT_EMPTY) && nnburst_fmq_read(r->in, got, 64) == NNBURST_FMQ_OK) break;
    }
    OK(nnburst_fmq_flag_wake(r->flag, NNBURST_FMQ_NOT_FULL));
    return NULL;
}

/* ReaderThreadBlocking2: readBlocking with a flag of the caller's. */
static void *reads_blocking(void *context) {
    reader *r = context;
    nnburst_fmq_wait_options options = {NNBURST_FMQ_BLOCK, 0, 60000000000};
    OK(nnburst_fmq_read_blocking(r->in, got, 64, &options));
    return NULL;
}

/* BlockingReadWrites: a queue without a flag of its own, and flags over words of the process's. */
static void blocking(int two_files) {
    for (int long_form = 0; long_form < 2; long_form++) {
        message_queue q = open_queue(NNBURST_FMQ_SYNCHRONIZED, CAPACITY, 1, two_files, 0);
        uint32_t word = NNBURST_FMQ_NOT_FULL, bits;
        nnburst_fmq_flag *flag;
        OK(nnburst_fmq_flag_over(&word, &flag));
        if (long_form) {
            OK(nnburst_fmq_set_flag(q.in, flag));
            OK(nnburst_fmq_set_flag(q.out, flag));
        }
        reader r = {q.in, flag};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, long_form ? reads_blocking : waits_then_reads, &r) == 0);
        usleep(10000);
        nnburst_fmq_wait_options options = {NNBURST_FMQ_BLOCK, 0, 60000000000};
        if (long_form) {
            OK(nnburst_fmq_write_blocking(q.out, data, 64, &options));
        } else {
            OK(nnburst_fmq_write(q.out, data, 64));
            OK(nnburst_fmq_flag_wake(flag, NNBURST_FMQ_NOT_EMPTY));
        }
        pthread_join(thread, NULL);

        CHECK(nnburst_fmq_flag_wait(flag, 1u << 9, 1000000, &bits) == NNBURST_FMQ_TIMED_OUT);
        OK(nnburst_fmq_flag_wake(flag, 1u << 9));
        OK(nnburst_fmq_flag_wait(flag, 1u << 9, 1, &bits));
        CHECK(nnburst_fmq_flag_wait(flag, 1u << 9, 1, &bits) == NNBURST_FMQ_TIMED_OUT);
        OK(nnburst_fmq_write(q.out, data, 16));
        OK(nnburst_fmq_set_flag(q.in, flag));
        options.timeout_ns = 1;
        OK(nnburst_fmq_read_blocking(q.in, got, 16, &options));
        CHECK(memcmp(data, got, 16) == 0);
        close_queue(&q);
        nnburst_fmq_flag_free(flag);
    }
    /* QueueSizeOdd.EventFlagTest */
    message_queue q = open_queue(NNBURST_FMQ_SYNCHRONIZED, CAPACITY + 1, 1, two_files, 1);
    uint32_t *word = nnburst_fmq_event_flag_word(q.out);
    CHECK(word != NULL && (uintptr_t)word % 4 == 0);
    __atomic_store_n(word, NNBURST_FMQ_NOT_FULL, __ATOMIC_SEQ_CST);
    nnburst_fmq_wait_options options = {NNBURST_FMQ_BLOCK, 0, 60000000000};
    OK(nnburst_fmq_write_blocking(q.out, data, 64, &options));
    close_queue(&q);
}

static int open_files(void) {
    int count = 0;
    DIR *fds = opendir("/proc/self/fd");
    CHECK(fds != NULL);
    while (readdir(fds)) count++;
    closedir(fds);
    return count;
}

/* Hidl2AidlOperation: a descriptor that was handed on makes a queue of the same memory, of the unsynchronised flavour as
 * many as one likes; one whose parts lie in the second of two files is handed on as it is. */
static void handed_on(int two_files) {
    message_queue q = open_queue(NNBURST_FMQ_SYNCHRONIZED, 64, 1, two_files, 0);
    OK(nnburst_fmq_write(q.out, data, 4));
    OK(nnburst_fmq_read(q.in, got, 4));
    CHECK(memcmp(data, got, 4) == 0);
    close_queue(&q);
    q = open_queue(NNBURST_FMQ_UNSYNCHRONIZED, 64, 1, two_files, 0);
    CHECK(q.descriptor.fd_count == (two_files ? 2 : 1));
    nnburst_fmq_queue *copy = attached(&q.descriptor, 1);
    nnburst_fmq_descriptor again = described(copy);
    CHECK(again.fd_count == q.descriptor.fd_count && again.grantor_count == q.descriptor.grantor_count);
    for (uint32_t i = 0; i < again.grantor_count; i++) {
        nnburst_fmq_grantor a = again.grantors[i], b = q.descriptor.grantors[i];
        CHECK(a.fd_index == b.fd_index && a.offset == b.offset && a.extent == b.extent);
    }
    nnburst_fmq_end *second = consumer_of(copy);
    OK(nnburst_fmq_write(q.out, data, 4));
    nnburst_fmq_end *readers[] = {q.in, second};
    for (int i = 0; i < 2; i++) {
        memset(got, 0xee, 4);
        OK(nnburst_fmq_read(readers[i], got, 4));
        CHECK(memcmp(data, got, 4) == 0);
    }
    nnburst_fmq_close(second);
    close_files(&again);
    close_queue(&q);
}

/* BadQueueConfig, HidlOnly.., AidlOnly.., DoubleFdFailures. */
static void bad_configurations(void) {
    nnburst_fmq_queue *queue;
    int before = open_files();
    for (int i = 0; i < 100; i++) {
        CHECK(nnburst_fmq_create(SIZE_MAX / 2 + 1, 2, false, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
        CHECK(nnburst_fmq_create(SIZE_MAX / 4 - 4097, 4, false, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
    }
    OK(nnburst_fmq_create(64, 2, false, &queue));
    nnburst_fmq_descriptor good = described(queue), bad = good;
    nnburst_fmq_queue *other;
    bad.grantors[0].fd_index = 5;
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    bad = good;
    bad.grantors[0].extent = 0xfffff041;
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    bad = good;
    bad.quantum = 8;
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_ITEM_SIZE);
    bad.quantum = (uint32_t)-10;
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_ITEM_SIZE);
    bad = good;
    bad.grantors[2].extent = (uint64_t)-10;
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    bad = good; /* SanityCheck: all parts in one place, which is refused here */
    bad.grantors[1] = bad.grantors[2] = bad.grantors[0] = (nnburst_fmq_grantor){0, 0, 0, 4096};
    CHECK(nnburst_fmq_attach(&bad, 2, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    nnburst_fmq_free(attached(&good, 2));
    nnburst_fmq_free(queue);
    close_files(&good);
    nnburst_fmq_create_options options = {64, 1, NNBURST_FMQ_SYNCHRONIZED, NNBURST_FMQ_RING_IN_FILE, 3000};
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_INVALID);
    options.ring_fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(options.ring_fd, 56) == 0);
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
    close(options.ring_fd);
    options.ring_fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(options.ring_fd, 72) == 0);
    OK(nnburst_fmq_create_with(&options, &queue));
    nnburst_fmq_free(queue);
    close(options.ring_fd);
    CHECK(open_files() == before);
}

int main(void) {
    fill(data, sizeof data);
    for (int two_files = 0; two_files < 2; two_files++) {
        reads_and_writes(NNBURST_FMQ_SYNCHRONIZED, two_files);
        reads_and_writes(NNBURST_FMQ_UNSYNCHRONIZED, two_files);
        full_synchronised(two_files);
        full_unsynchronised(two_files);
        begun_and_committed(two_files);
        blocking(two_files);
        handed_on(two_files);
    }
    bad_configurations();
    return 0;
}
