/* Loads the shared library, closes it, and uses it on. */
#include <dlfcn.h>
#include <sys/socket.h>

#include "check.h"

#define FUNCTION(name) __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name)

int main(int count, char **arguments) {
    CHECK(count == 2);
    void *library = dlopen(arguments[1], RTLD_NOW);
    CHECK(library != NULL);
    FUNCTION(nnburst_fmq_create);
    FUNCTION(nnburst_fmq_consumer);
    FUNCTION(nnburst_fmq_watch_connection);
    FUNCTION(nnburst_fmq_read_blocking);
    FUNCTION(nnburst_fmq_close);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != NULL);
    nnburst_fmq_queue *queue;
    nnburst_fmq_end *end;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    OK(nnburst_fmq_create_(4, sizeof(uint64_t), true, &queue));
    OK(nnburst_fmq_consumer_(queue, &end));
    OK(nnburst_fmq_watch_connection_(end, pair[0]));
    CHECK(close(pair[1]) == 0);
    uint64_t item;
    nnburst_fmq_wait_options options = {NNBURST_FMQ_BLOCK, 0, -1};
    CHECK(nnburst_fmq_read_blocking_(end, &item, 1, &options) == NNBURST_FMQ_PEER_DIED);
    nnburst_fmq_close_(end);
    return 0;
}
