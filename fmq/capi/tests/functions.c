/* Calls every function of the header once or more; exits with the line of the first that answered wrongly. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nnburst_fmq.h"

#define CHECK(condition) do { if (!(condition)) return __LINE__ % 255 ? __LINE__ % 255 : 1; } while (0)

_Static_assert(sizeof(nnburst_fmq_grantor) == 24, "libfmq's size");
_Static_assert(sizeof(nnburst_fmq_descriptor) == 128, "the Rust side's size");
_Static_assert(sizeof(nnburst_fmq_wait_options) == 16, "the Rust side's size");
_Static_assert(sizeof(nnburst_fmq_region) == 2 * sizeof(void *), "the Rust side's size");

static void *cancel_soon(void *canceller) {
    usleep(20000);
    nnburst_fmq_cancel(canceller);
    return NULL;
}

int main(void) {
    nnburst_fmq_queue *queue, *other;
    nnburst_fmq_descriptor descriptor;
    CHECK(nnburst_fmq_create(0, 4, false, &queue) == NNBURST_FMQ_BAD_DESCRIPTOR);
    CHECK(nnburst_fmq_create(4, 3, true, NULL) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_create(4, 3, true, &queue) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_describe(queue, &descriptor) == NNBURST_FMQ_OK);
    CHECK(descriptor.quantum == 3 && descriptor.flags == 1 && descriptor.grantor_count == 4);
    CHECK(descriptor.grantors[2].extent == 12 && descriptor.fd_count == 1);
    CHECK(nnburst_fmq_attach(NULL, 3, &other) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_attach(&descriptor, 3, &other) == NNBURST_FMQ_OK);
    nnburst_fmq_free(other);
    nnburst_fmq_free(NULL);
    descriptor.quantum = 5;
    CHECK(nnburst_fmq_attach(&descriptor, 5, &other) == NNBURST_FMQ_BAD_DESCRIPTOR);
    descriptor.quantum = 3;
    CHECK(nnburst_fmq_attach(&descriptor, 3, &other) == NNBURST_FMQ_OK);
    nnburst_fmq_end *out, *in;
    CHECK(nnburst_fmq_producer(queue, &out) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_consumer(other, &in) == NNBURST_FMQ_OK);
    close(descriptor.fds[0]);

    CHECK(nnburst_fmq_capacity(out) == 4 && nnburst_fmq_quantum(in) == 3);
    CHECK(nnburst_fmq_capacity(NULL) == 0 && nnburst_fmq_quantum(NULL) == 0);
    size_t available = 99;
    CHECK(nnburst_fmq_available(out, &available) == NNBURST_FMQ_OK && available == 4);
    CHECK(nnburst_fmq_available(in, &available) == NNBURST_FMQ_OK && available == 0);

    char items[16] = "abcdefghi", got[16] = "untouched";
    CHECK(nnburst_fmq_write(in, items, 1) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_write(out, NULL, 1) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_write(out, NULL, 0) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_write(out, items, 5) == NNBURST_FMQ_TOO_LARGE);
    CHECK(nnburst_fmq_write(out, items, 3) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_write(out, items, 2) == NNBURST_FMQ_FULL);
    CHECK(nnburst_fmq_read(in, got, 4) == NNBURST_FMQ_EMPTY && strcmp(got, "untouched") == 0);
    CHECK(nnburst_fmq_read(in, got, SIZE_MAX) == NNBURST_FMQ_TOO_LARGE);
    CHECK(nnburst_fmq_read(in, got, 3) == NNBURST_FMQ_OK && memcmp(got, items, 9) == 0);

    nnburst_fmq_region regions[2];
    CHECK(nnburst_fmq_begin(out, 2, regions) == NNBURST_FMQ_OK);
    CHECK(regions[0].bytes == 3 && regions[1].bytes == 3);
    memcpy(regions[0].address, "uvw", 3);
    memcpy(regions[1].address, "xyz", 3);
    CHECK(nnburst_fmq_commit(out, 3) == NNBURST_FMQ_TOO_LARGE);
    CHECK(nnburst_fmq_commit(out, 2) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_commit(out, 1) == NNBURST_FMQ_TOO_LARGE);
    CHECK(nnburst_fmq_begin(in, 2, regions) == NNBURST_FMQ_OK);
    CHECK(memcmp(regions[0].address, "uvw", 3) == 0 && memcmp(regions[1].address, "xyz", 3) == 0);
    CHECK(nnburst_fmq_commit(in, 2) == NNBURST_FMQ_OK);

    uint32_t bits = 0;
    CHECK(nnburst_fmq_wake(out, 0x30) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_wait(in, 0x10, -1, &bits) == NNBURST_FMQ_OK && bits == 0x10);
    CHECK(nnburst_fmq_wait(in, 0x10, 0, &bits) == NNBURST_FMQ_TIMED_OUT);
    CHECK(nnburst_fmq_wait(in, 0, 0, &bits) == NNBURST_FMQ_NO_EVENT_FLAG);

    nnburst_fmq_wait_options options = {NNBURST_FMQ_BLOCK, 0, 1000000};
    CHECK(nnburst_fmq_read_blocking(in, got, 1, &options) == NNBURST_FMQ_TIMED_OUT);
    options.strategy = 7;
    CHECK(nnburst_fmq_read_blocking(in, got, 1, &options) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_write_blocking(out, items, 1, NULL) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_read_blocking(in, got, 1, NULL) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_set_bits(in, 0, 0) == NNBURST_FMQ_OK);
    options.strategy = NNBURST_FMQ_BLOCK;
    CHECK(nnburst_fmq_read_blocking(in, got, 1, &options) == NNBURST_FMQ_NO_EVENT_FLAG);
    CHECK(nnburst_fmq_set_bits(in, NNBURST_FMQ_NOT_EMPTY, NNBURST_FMQ_NOT_FULL) == NNBURST_FMQ_OK);

    nnburst_fmq_canceller *canceller = nnburst_fmq_canceller_new();
    CHECK(nnburst_fmq_set_canceller(in, canceller) == NNBURST_FMQ_OK);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, cancel_soon, canceller) == 0);
    CHECK(nnburst_fmq_read_blocking(in, got, 1, NULL) == NNBURST_FMQ_CANCELLED);
    pthread_join(thread, NULL);
    CHECK(nnburst_fmq_wait(in, 0x40, -1, &bits) == NNBURST_FMQ_CANCELLED);
    CHECK(nnburst_fmq_canceller_reset(canceller) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_wait(in, 0x40, 0, &bits) == NNBURST_FMQ_TIMED_OUT);
    nnburst_fmq_canceller_free(canceller);

    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(nnburst_fmq_watch_process(out, 0) == NNBURST_FMQ_SYSTEM);
    CHECK(nnburst_fmq_watch_connection(out, sockets[0]) == NNBURST_FMQ_OK);
    CHECK(nnburst_fmq_write(out, items, 4) == NNBURST_FMQ_OK);
    close(sockets[1]);
    CHECK(nnburst_fmq_write_blocking(out, items, 1, NULL) == NNBURST_FMQ_PEER_DIED);
    CHECK(nnburst_fmq_wait(out, 0x40, -1, &bits) == NNBURST_FMQ_PEER_DIED);
    CHECK(nnburst_fmq_wait_ready(in, 4, NULL) == NNBURST_FMQ_OK);
    CHECK(strstr(nnburst_fmq_strerror(NNBURST_FMQ_PEER_DIED), "gone") != NULL);
    CHECK(nnburst_fmq_strerror(12345) != NULL);
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    nnburst_fmq_close(NULL);
    return 0;
}
