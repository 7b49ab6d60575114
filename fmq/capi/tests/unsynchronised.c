/* The unsynchronised flavour: in one process, and with a reader and a second writer in others. */
#include "check.h"

static nnburst_fmq_queue *made(size_t capacity, size_t quantum) {
    nnburst_fmq_queue *queue;
    nnburst_fmq_create_options options = {capacity, quantum, NNBURST_FMQ_UNSYNCHRONIZED, NNBURST_FMQ_EVENT_FLAG, 0};
    OK(nnburst_fmq_create_with(&options, &queue));
    return queue;
}

static void every_call(void) {
    nnburst_fmq_queue *queue = made(4, 2);
    nnburst_fmq_descriptor descriptor = described(queue);
    CHECK(descriptor.flags == NNBURST_FMQ_UNSYNCHRONIZED);
    nnburst_fmq_end *out = producer_of(queue);
    nnburst_fmq_end *in = consumer_of(attached(&descriptor, 2)), *late = consumer_of(attached(&descriptor, 2));
    uint16_t items[6] = {0, 1, 2, 3, 4, 5}, got[6];
    CHECK(nnburst_fmq_capacity(out) == 4 && nnburst_fmq_quantum(in) == 2);
    CHECK(available(out) == 4 && available(in) == 0);
    CHECK(nnburst_fmq_read(in, got, 1) == NNBURST_FMQ_EMPTY);
    CHECK(nnburst_fmq_write(out, items, 5) == NNBURST_FMQ_TOO_LARGE);
    OK(nnburst_fmq_write(out, items, 3));
    OK(nnburst_fmq_read(in, got, 3));
    CHECK(memcmp(got, items, 6) == 0);

    nnburst_fmq_region regions[2];
    OK(nnburst_fmq_begin(out, 2, regions));
    CHECK(regions[0].bytes == 2 && regions[1].bytes == 2);
    memcpy(regions[0].address, &items[3], 2);
    memcpy(regions[1].address, &items[4], 2);
    CHECK(nnburst_fmq_commit(out, 3) == NNBURST_FMQ_TOO_LARGE);
    OK(nnburst_fmq_commit(out, 2));
    OK(nnburst_fmq_begin(in, 2, regions));
    memcpy(&got[0], regions[0].address, 2);
    memcpy(&got[1], regions[1].address, 2);
    OK(nnburst_fmq_commit(in, 1));
    CHECK(got[0] == 3 && got[1] == 4 && available(in) == 1);
    OK(nnburst_fmq_begin(in, 1, regions));
    OK(nnburst_fmq_write(out, items, 4)); /* over what was begun */
    CHECK(nnburst_fmq_commit(in, 1) == NNBURST_FMQ_LOST);
    nnburst_fmq_error error;
    OK(nnburst_fmq_last_error(&error));
    CHECK(error.status == NNBURST_FMQ_LOST && error.lost == 3 && available(in) == 2);
    CHECK(nnburst_fmq_read(late, got, 1) == NNBURST_FMQ_LOST);
    OK(nnburst_fmq_read(late, got, 2));
    CHECK(got[0] == 2 && got[1] == 3);

    /* What only the other flavour has. */
    uint32_t bits;
    CHECK(nnburst_fmq_write_blocking(out, items, 1, NULL) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_read_blocking(in, got, 1, NULL) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_wait_ready(in, 1, NULL) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_set_bits(out, 1, 2) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_watch_process(in, (uint32_t)getpid()) == NNBURST_FMQ_INVALID);
    OK(nnburst_fmq_wake(out, 4));
    CHECK(nnburst_fmq_wait(out, 4, 0, &bits) == NNBURST_FMQ_OK && bits == 4);
    CHECK(nnburst_fmq_wake(in, 4) == NNBURST_FMQ_NO_EVENT_FLAG);
    CHECK(nnburst_fmq_event_flag_word(in) == NULL && nnburst_fmq_event_flag_word(out) != NULL);

    CHECK(nnburst_fmq_seal_future_writes(in) == NNBURST_FMQ_INVALID);
    OK(nnburst_fmq_seal_future_writes(out));
    nnburst_fmq_end *refused;
    CHECK(nnburst_fmq_producer(attached(&descriptor, 2), &refused) == NNBURST_FMQ_SYSTEM);
    nnburst_fmq_close(consumer_of(attached(&descriptor, 2)));
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    nnburst_fmq_close(late);
    close_files(&descriptor);
}

enum { LAST = 200000 };

/* Reads pairs of equal numbers that only ever grow. */
static void read_on(const nnburst_fmq_descriptor *descriptor, int by_transaction) {
    nnburst_fmq_end *in = consumer_of(attached(descriptor, 16));
    uint64_t seen = 0;
    while (seen < LAST) {
        uint64_t item[2] = {0, 0};
        nnburst_fmq_status status;
        if (by_transaction) {
            nnburst_fmq_region regions[2];
            status = nnburst_fmq_begin(in, 1, regions);
            if (status == NNBURST_FMQ_OK) {
                memcpy(item, regions[0].address, 16);
                status = nnburst_fmq_commit(in, 1);
            }
        } else {
            status = nnburst_fmq_read(in, item, 1);
        }
        if (status == NNBURST_FMQ_OK) {
            CHECK(item[0] == item[1] && item[0] > seen);
            seen = item[0];
        } else {
            CHECK(status == NNBURST_FMQ_EMPTY || status == NNBURST_FMQ_LOST);
        }
    }
    _exit(0);
}

static void between_processes(void) {
    nnburst_fmq_queue *queue = made(8, 16);
    nnburst_fmq_descriptor descriptor = described(queue);
    nnburst_fmq_free(queue);
    pid_t readers[2];
    for (int i = 0; i < 2; i++) {
        readers[i] = fork();
        if (readers[i] == 0) read_on(&descriptor, i);
    }
    /* A first writer that begins a batch and never publishes it; then a second one. */
    pid_t first = fork();
    if (first == 0) {
        nnburst_fmq_end *out = producer_of(attached(&descriptor, 16));
        for (uint64_t i = 1; i <= LAST / 2; i++) {
            uint64_t item[2] = {i, i};
            OK(nnburst_fmq_write(out, item, 1));
        }
        nnburst_fmq_region regions[2];
        OK(nnburst_fmq_begin(out, 6, regions));
        memset(regions[0].address, 0xff, regions[0].bytes);
        memset(regions[1].address, 0xff, regions[1].bytes);
        _exit(0);
    }
    CHECK(ended_well(first));
    nnburst_fmq_end *out = producer_of(attached(&descriptor, 16));
    for (uint64_t i = LAST / 2 + 1; i <= LAST; i++) {
        uint64_t item[2] = {i, i};
        OK(nnburst_fmq_write(out, item, 1));
    }
    CHECK(ended_well(readers[0]) && ended_well(readers[1]));
    nnburst_fmq_close(out);
    close_files(&descriptor);
}

int main(void) {
    every_call();
    between_processes();
    return 0;
}
