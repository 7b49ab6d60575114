/* Event flags: over words of the caller's, from other threads, between processes; what ends their waits. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "check.h"

enum { ROUNDS = 2000 };

/* Wakes by an end that another thread is using. */
static void *wake_on_and_on(void *end) {
    for (int i = 0; i < ROUNDS; i++) OK(nnburst_fmq_wake(end, 0x100));
    return NULL;
}

static void from_another_thread(void) {
    nnburst_fmq_queue *queue;
    OK(nnburst_fmq_create(4, 4, true, &queue));
    nnburst_fmq_end *out = producer_of(queue);
    pthread_t waker;
    CHECK(pthread_create(&waker, NULL, wake_on_and_on, out) == 0);
    uint32_t bits, item = 7;
    OK(nnburst_fmq_wait(out, 0x100, -1, &bits));
    for (int i = 0; i < 4; i++) OK(nnburst_fmq_write(out, &item, 1));
    CHECK(nnburst_fmq_write(out, &item, 1) == NNBURST_FMQ_FULL);
    pthread_join(waker, NULL);

    uint32_t *word = nnburst_fmq_event_flag_word(out);
    CHECK(word != NULL && (__atomic_load_n(word, __ATOMIC_RELAXED) & NNBURST_FMQ_NOT_EMPTY));
    nnburst_fmq_flag *flag;
    OK(nnburst_fmq_flag_of(out, &flag));
    nnburst_fmq_close(out);
    CHECK(nnburst_fmq_flag_word(flag) == word); /* mapped still */
    OK(nnburst_fmq_flag_wake(flag, 0x4));
    OK(nnburst_fmq_flag_wait(flag, 0x4, 0, &bits));
    nnburst_fmq_flag_free(flag);
    nnburst_fmq_flag_free(NULL);
}

/* A queue without a flag of its own; both processes sleep on a word that they share otherwise. */
static void over_a_word_between_processes(void) {
    uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(word != MAP_FAILED);
    nnburst_fmq_flag *flag;
    CHECK(nnburst_fmq_flag_over(NULL, &flag) == NNBURST_FMQ_INVALID);
    CHECK(nnburst_fmq_flag_over((uint32_t *)((char *)word + 1), &flag) == NNBURST_FMQ_INVALID);
    OK(nnburst_fmq_flag_over(word, &flag));
    nnburst_fmq_queue *queue;
    OK(nnburst_fmq_create(2, 4, false, &queue));
    nnburst_fmq_descriptor descriptor = described(queue);
    nnburst_fmq_wait_options block = {NNBURST_FMQ_BLOCK, 0, 60000000000};
    pid_t child = fork();
    if (child == 0) {
        nnburst_fmq_end *in = consumer_of(attached(&descriptor, 4));
        uint32_t item;
        OK(nnburst_fmq_set_flag(in, flag));
        for (uint32_t i = 0; i < ROUNDS; i++) {
            OK(nnburst_fmq_read_blocking(in, &item, 1, &block));
            CHECK(item == i);
        }
        _exit(0);
    }
    nnburst_fmq_end *out = producer_of(queue);
    CHECK(nnburst_fmq_wake(out, 1) == NNBURST_FMQ_NO_EVENT_FLAG);
    OK(nnburst_fmq_set_flag(out, flag));
    for (uint32_t i = 0; i < ROUNDS; i++) OK(nnburst_fmq_write_blocking(out, &i, 1, &block));
    CHECK(ended_well(child));
    CHECK(nnburst_fmq_set_flag(out, NULL) == NNBURST_FMQ_INVALID);
    nnburst_fmq_close(out);
    nnburst_fmq_flag_free(flag);
    close_files(&descriptor);
}

static void *cancel_soon(void *canceller) {
    usleep(20000);
    nnburst_fmq_cancel(canceller);
    return NULL;
}

static void ends_of_waits(void) {
    uint32_t word = 0, bits;
    nnburst_fmq_flag *flag;
    OK(nnburst_fmq_flag_over(&word, &flag));
    CHECK(nnburst_fmq_flag_wait(flag, 1, 1000000, &bits) == NNBURST_FMQ_TIMED_OUT);
    CHECK(nnburst_fmq_flag_wait(flag, 0, 0, &bits) == NNBURST_FMQ_NO_EVENT_FLAG);
    nnburst_fmq_canceller *canceller = nnburst_fmq_canceller_new();
    OK(nnburst_fmq_flag_set_canceller(flag, canceller));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, cancel_soon, canceller) == 0);
    CHECK(nnburst_fmq_flag_wait(flag, 1, -1, &bits) == NNBURST_FMQ_CANCELLED);
    pthread_join(thread, NULL);
    OK(nnburst_fmq_canceller_reset(canceller));
    nnburst_fmq_canceller_free(canceller);

    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    OK(nnburst_fmq_flag_watch_process(flag, (uint32_t)child));
    CHECK(nnburst_fmq_flag_wait(flag, 1, 1000000, &bits) == NNBURST_FMQ_TIMED_OUT);
    kill(child, SIGKILL);
    CHECK(nnburst_fmq_flag_wait(flag, 1, -1, &bits) == NNBURST_FMQ_PEER_DIED);
    waitpid(child, NULL, 0);
    nnburst_fmq_flag_free(flag);

    /* A child's own watches; the parent's peer lives on. */
    int ours[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ours) == 0);
    OK(nnburst_fmq_flag_over(&word, &flag));
    OK(nnburst_fmq_flag_watch_connection(flag, ours[0]));
    child = fork();
    if (child == 0) {
        int theirs[2];
        nnburst_fmq_flag *own;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, theirs) == 0);
        OK(nnburst_fmq_flag_over(&word, &own));
        OK(nnburst_fmq_flag_watch_connection(own, theirs[0]));
        close(theirs[1]);
        CHECK(nnburst_fmq_flag_wait(own, 1, -1, &bits) == NNBURST_FMQ_PEER_DIED);
        _exit(0);
    }
    CHECK(ended_well(child));
    CHECK(nnburst_fmq_flag_wait(flag, 1, 20000000, &bits) == NNBURST_FMQ_TIMED_OUT);
    close(ours[1]);
    CHECK(nnburst_fmq_flag_wait(flag, 1, -1, &bits) == NNBURST_FMQ_PEER_DIED);
    CHECK(nnburst_fmq_flag_watch_connection(flag, -1) == NNBURST_FMQ_INVALID);
    close(ours[0]);
    nnburst_fmq_flag_free(flag);
}

int main(void) {
    from_another_thread();
    over_a_word_between_processes();
    ends_of_waits();
    return 0;
}
