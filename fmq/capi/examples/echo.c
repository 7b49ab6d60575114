/*
 * Two processes in C: the child echoes what the parent sends, over two queues.
 *
 *     cargo build --release -p nnburst-fmq-capi
 *     cc -I fmq/capi/include fmq/capi/examples/echo.c target/release/libnnburst_fmq_c.a -lpthread -ldl -lm -o echo
 *     ./echo
 *
 * The queues are inherited by fork here; unrelated processes send nnburst_fmq_descriptor over a Unix socket.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nnburst_fmq.h"

static void check(const char *what, nnburst_fmq_status status) {
    if (status != NNBURST_FMQ_OK) {
        fprintf(stderr, "%s: %s\n", what, nnburst_fmq_strerror(status));
        exit(1);
    }
}

static nnburst_fmq_queue *attach(const nnburst_fmq_descriptor *descriptor) {
    nnburst_fmq_queue *queue;
    check("attach", nnburst_fmq_attach(descriptor, sizeof(uint64_t), &queue));
    return queue;
}

static void child(const nnburst_fmq_descriptor *requests, const nnburst_fmq_descriptor *answers) {
    nnburst_fmq_end *in, *out;
    check("consumer", nnburst_fmq_consumer(attach(requests), &in));
    check("producer", nnburst_fmq_producer(attach(answers), &out));
    check("watch", nnburst_fmq_watch_process(in, (uint32_t)getppid()));
    for (;;) {
        uint64_t item = 0;
        nnburst_fmq_status status = nnburst_fmq_read_blocking(in, &item, 1, NULL);
        if (status == NNBURST_FMQ_PEER_DIED || item == 0) {
            _exit(status);
        }
        check("read", status);
        check("write", nnburst_fmq_write_blocking(out, &item, 1, NULL));
    }
}

int main(void) {
    nnburst_fmq_queue *requests, *answers;
    nnburst_fmq_descriptor to_child, from_child;
    check("create", nnburst_fmq_create(64, sizeof(uint64_t), true, &requests));
    check("create", nnburst_fmq_create(64, sizeof(uint64_t), true, &answers));
    check("describe", nnburst_fmq_describe(requests, &to_child));
    check("describe", nnburst_fmq_describe(answers, &from_child));

    pid_t pid = fork();
    if (pid == 0) {
        child(&to_child, &from_child);
    }
    nnburst_fmq_end *out, *in;
    check("producer", nnburst_fmq_producer(requests, &out));
    check("consumer", nnburst_fmq_consumer(answers, &in));
    check("watch", nnburst_fmq_watch_process(in, (uint32_t)pid));

    nnburst_fmq_wait_options wait = {NNBURST_FMQ_ADAPTIVE, 50, 10000000000};
    for (uint64_t item = 1; item <= 1000; item++) {
        uint64_t echo;
        check("write", nnburst_fmq_write_blocking(out, &item, 1, &wait));
        check("read", nnburst_fmq_read_blocking(in, &echo, 1, &wait));
        if (echo != item) {
            fprintf(stderr, "sent %llu, got %llu\n", (unsigned long long)item, (unsigned long long)echo);
            return 1;
        }
    }
    uint64_t end = 0;
    check("write", nnburst_fmq_write_blocking(out, &end, 1, &wait));
    int status;
    waitpid(pid, &status, 0);
    nnburst_fmq_close(out);
    nnburst_fmq_close(in);
    for (uint32_t i = 0; i < to_child.fd_count; i++) close(to_child.fds[i]);
    for (uint32_t i = 0; i < from_child.fd_count; i++) close(from_child.fds[i]);
    printf("1000 items there and back\n");
    return status;
}
