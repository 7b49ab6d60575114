/* Layouts, files of the caller's, item sizes, counters, and the figures of what goes wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "check.h"

_Static_assert(sizeof(nnburst_fmq_error) == 256, "the Rust side's size");

static nnburst_fmq_error last(void) {
    nnburst_fmq_error error;
    OK(nnburst_fmq_last_error(&error));
    return error;
}

static void item_sizes(void) {
    nnburst_fmq_queue *queue, *other = NULL;
    OK(nnburst_fmq_create(4, 4096, false, &queue));
    nnburst_fmq_descriptor descriptor = described(queue);
    /* The peer says 4,096 bytes an item where the caller has 8. */
    CHECK(nnburst_fmq_attach(&descriptor, 8, &other) == NNBURST_FMQ_ITEM_SIZE && other == NULL);
    nnburst_fmq_error error = last();
    CHECK(error.status == NNBURST_FMQ_ITEM_SIZE && error.asked == 8 && error.available == 4096);
    CHECK(strstr(error.message, "4096") != NULL && error.part == -1);
    CHECK(nnburst_fmq_attach(&descriptor, 0, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    descriptor.flags = NNBURST_FMQ_UNSYNCHRONIZED;
    CHECK(nnburst_fmq_attach(&descriptor, 8, &other) == NNBURST_FMQ_ITEM_SIZE);
    descriptor.flags = 3;
    CHECK(nnburst_fmq_attach(&descriptor, 4096, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    close_files(&descriptor);
    nnburst_fmq_free(queue);
}

static void layouts(uint32_t flavor) {
    nnburst_fmq_queue *queue;
    nnburst_fmq_create_options options = {7, 24, flavor, NNBURST_FMQ_PACKED | NNBURST_FMQ_EVENT_FLAG, 0};
    OK(nnburst_fmq_create_with(&options, &queue));
    nnburst_fmq_descriptor packed = described(queue);
    CHECK(packed.flags == flavor && packed.grantor_count == 4 && packed.fd_count == 1);
    CHECK(packed.grantors[1].offset == 8 && packed.grantors[2].offset == 16);
    CHECK(packed.grantors[3].offset == 16 + 7 * 24);
    close_files(&packed);
    nnburst_fmq_free(queue);

    int sealable = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int unsealable = memfd_create("ring", MFD_CLOEXEC);
    CHECK(ftruncate(sealable, 7 * 24) == 0 && ftruncate(unsealable, 7 * 24 + 8) == 0);
    options.flags = NNBURST_FMQ_RING_IN_FILE | NNBURST_FMQ_EVENT_FLAG;
    options.ring_fd = sealable;
    OK(nnburst_fmq_create_with(&options, &queue));
    nnburst_fmq_descriptor two = described(queue);
    CHECK(two.fd_count == 2 && two.grantors[2].fd_index == 1 && two.grantors[2].offset == 0);
    nnburst_fmq_end *out = producer_of(queue), *in = consumer_of(attached(&two, 24));
    char item[24] = "in the caller's file", got[24], seen[24];
    OK(nnburst_fmq_write(out, item, 1));
    CHECK(pread(sealable, seen, 24, 0) == 24 && memcmp(seen, item, 24) == 0);
    OK(nnburst_fmq_read(in, got, 1));
    CHECK(memcmp(got, item, 24) == 0);
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    close_files(&two);

    options.ring_fd = unsealable;
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
    nnburst_fmq_error error = last();
    CHECK(error.part == 2 && error.system == EPERM && strstr(error.message, "ring") != NULL);
    options.flags |= NNBURST_FMQ_ALLOW_UNSEALED;
    OK(nnburst_fmq_create_with(&options, &queue));
    two = described(queue);
    nnburst_fmq_queue *other;
    CHECK(nnburst_fmq_attach(&two, 24, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    OK(nnburst_fmq_attach_with(&two, 24, NNBURST_FMQ_ALLOW_UNSEALED, &other));
    nnburst_fmq_close(consumer_of(other));
    nnburst_fmq_free(queue);
    close_files(&two);

    options.capacity = 8; /* more than the file holds */
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
    error = last();
    CHECK(error.part == 2 && error.asked == 8 * 24 && error.available == 7 * 24 + 8);
    options.ring_fd = -1;
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_INVALID);
    options.flags |= NNBURST_FMQ_PACKED;
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_create_with(NULL, &queue) == NNBURST_FMQ_INVALID);
    options.flags = 1u << 30;
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_INVALID);
    options.flags = 0;
    options.flavor = 3;
    CHECK(nnburst_fmq_create_with(&options, &queue) == NNBURST_FMQ_INVALID);
    close(sealable);
    close(unsealable);
}

static void counters(void) {
    nnburst_fmq_queue *queue, *other;
    OK(nnburst_fmq_create(4, 8, true, &queue));
    nnburst_fmq_descriptor descriptor = described(queue);
    nnburst_fmq_end *out = producer_of(queue), *in = consumer_of(attached(&descriptor, 8));
    uint64_t items[4] = {1, 2, 3, 4}, got[4];
    OK(nnburst_fmq_write(out, items, 3));
    OK(nnburst_fmq_read(in, got, 1));
    CHECK(nnburst_fmq_read(in, got, 3) == NNBURST_FMQ_EMPTY);
    nnburst_fmq_error error = last();
    CHECK(error.status == NNBURST_FMQ_EMPTY && error.asked == 3 && error.available == 2);
    /* A lie: the write counter one byte on. */
    uint64_t *written = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.fds[0], 0);
    CHECK(written != MAP_FAILED);
    written += descriptor.grantors[1].offset / 8;
    __atomic_store_n(written, 25, __ATOMIC_RELEASE);
    CHECK(nnburst_fmq_read(in, got, 3) == NNBURST_FMQ_PEER_LIED);
    error = last();
    CHECK(error.lie == 3 && error.seen == 25 && error.ours == 8 && error.ring_bytes == 32);
    CHECK(nnburst_fmq_read(in, got, 1) == NNBURST_FMQ_POISONED && last().seen == 25);
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    CHECK(nnburst_fmq_attach(&descriptor, 8, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    error = last();
    CHECK(error.seen == 25 && error.ours == 8);
    /* The owner empties it. */
    OK(nnburst_fmq_attach_with(&descriptor, 8, NNBURST_FMQ_RESET_COUNTERS, &other));
    out = producer_of(other);
    in = consumer_of(attached(&descriptor, 8));
    CHECK(available(in) == 0 && available(out) == 4);
    OK(nnburst_fmq_write(out, items, 4));
    OK(nnburst_fmq_read(in, got, 4));
    CHECK(memcmp(got, items, sizeof items) == 0);
    CHECK(nnburst_fmq_attach_with(&descriptor, 8, 1, &other) == NNBURST_FMQ_INVALID);
    CHECK(last().status == NNBURST_FMQ_INVALID);
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    close_files(&descriptor);
}

int main(void) {
    CHECK(last().status == NNBURST_FMQ_OK && last().message[0] == 0);
    CHECK(nnburst_fmq_last_error(NULL) == NNBURST_FMQ_INVALID);
    item_sizes();
    layouts(NNBURST_FMQ_SYNCHRONIZED);
    layouts(NNBURST_FMQ_UNSYNCHRONIZED);
    counters();
    return 0;
}
