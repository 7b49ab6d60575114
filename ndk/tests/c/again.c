/* The same execution over and over, its arguments in memories: what the library keeps of the last one must neither hold
 * a memory nor be taken for another's. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (COUNT * sizeof(float))
#define AT 64 /* where the value lies in each memory */

struct value {
    int fd;
    ANeuralNetworksMemory* memory;
    float* bytes;
};

static struct value new_value(float first) {
    struct value value = {memfd_create("again", 0), NULL, NULL};
    TRUE_THAT(value.fd > 0 && ftruncate(value.fd, AT + BYTES) == 0);
    char* mapped = mmap(NULL, AT + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, value.fd, 0);
    TRUE_THAT(mapped != MAP_FAILED);
    value.bytes = (float*)(void*)(mapped + AT);
    for (int at = 0; at < COUNT; at++) value.bytes[at] = first + (float)at;
    OK(ANeuralNetworksMemory_createFromFd(AT + BYTES, PROT_READ | PROT_WRITE, value.fd, 0,
                                          &value.memory));
    return value;
}

static void free_value(struct value value) {
    ANeuralNetworksMemory_free(value.memory);
    munmap((char*)value.bytes - AT, AT + BYTES);
    close(value.fd);
}

/* Descriptors of such memories that this process has, ours and the library's. */
static int descriptors(void) {
    DIR* dir = opendir("/proc/self/fd");
    int count = 0;
    TRUE_THAT(dir != NULL);
    for (struct dirent* entry = readdir(dir); entry; entry = readdir(dir)) {
        char target[64] = {0};
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1) > 0)
            count += strncmp(target, "/memfd:again", 12) == 0;
    }
    closedir(dir);
    return count;
}

/* So many in a moment: the library's thread that showed a memory to the driver may hold it a little
   longer than the answer took. A memory that is kept is found, after a minute. */
static int comes_to(int count) {
    for (int at = 0; at < 60000 && descriptors() != count; at++) usleep(1000);
    return descriptors() == count;
}

static ANeuralNetworksCompilation* compilation;

/* a + b into sum, in the burst, or without one. */
static int add(ANeuralNetworksBurst* burst, struct value a, struct value b, struct value sum) {
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, a.memory, AT, BYTES));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, b.memory, AT, BYTES));
    OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, sum.memory, AT, BYTES));
    for (int at = 0; at < COUNT; at++) sum.bytes[at] = -1;
    int code = burst ? ANeuralNetworksExecution_burstCompute(execution, burst)
                     : ANeuralNetworksExecution_compute(execution);
    ANeuralNetworksExecution_free(execution);
    return code;
}

static void adds(ANeuralNetworksBurst* burst, struct value a, struct value b, struct value sum) {
    OK(add(burst, a, b, sum));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum.bytes[at] == a.bytes[at] + b.bytes[at]);
}

/* Memories take turns, in all places. */
static void in_turn(ANeuralNetworksBurst* burst) {
    struct value values[5];
    for (int at = 0; at < 5; at++) values[at] = new_value((float)(10 * at));
    for (int round = 0; round < 20; round++)
        adds(burst, values[round % 2], values[2], values[3 + round % 2]);
    for (int round = 0; round < 20; round++)
        adds(burst, values[round % 5], values[(round + 2) % 5], values[(round + 4) % 5]);
    /* One memory for two arguments is another request than two memories. */
    adds(burst, values[0], values[0], values[1]);
    adds(burst, values[0], values[2], values[1]);
    adds(burst, values[2], values[2], values[1]);
    for (int at = 0; at < 5; at++) free_value(values[at]);
}

/* A memory goes at once, and one that is made in its place is another. */
static void freed_between(ANeuralNetworksBurst* burst) {
    struct value a = new_value(1), sum = new_value(0);
    for (int round = 0; round < 20; round++) {
        struct value b = new_value((float)(100 * round));
        TRUE_THAT(descriptors() == 6);
        adds(burst, a, b, sum);
        if (round % 2) adds(burst, a, b, sum);
        free_value(b);
        TRUE_THAT(comes_to(4));
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        BAD_STATE(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, b.memory, AT, BYTES));
        ANeuralNetworksExecution_free(execution);
    }
    free_value(a);
    free_value(sum);
    TRUE_THAT(comes_to(0));
}

/* An execution keeps what it was given; after it nobody does. */
static void freed_before(ANeuralNetworksBurst* burst) {
    for (int round = 0; round < 4; round++) {
        struct value a = new_value(1), b = new_value(2), sum = new_value(3);
        if (round > 1) adds(burst, a, b, sum);
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, a.memory, AT, BYTES));
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, b.memory, AT, BYTES));
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, sum.memory, AT, BYTES));
        ANeuralNetworksMemory_free(b.memory);
        b.memory = NULL;
        OK(burst ? ANeuralNetworksExecution_burstCompute(execution, burst)
                 : ANeuralNetworksExecution_compute(execution));
        for (int at = 0; at < COUNT; at++) TRUE_THAT(sum.bytes[at] == a.bytes[at] + b.bytes[at]);
        ANeuralNetworksExecution_free(execution);
        /* What was lent to the driver is closed by the thread that lent it. */
        TRUE_THAT(comes_to(5));
        free_value(a);
        free_value(b);
        free_value(sum);
        TRUE_THAT(comes_to(0));
    }
}

/* What was kept of memories is no use for other places, or for pointers. */
static void other_arguments(ANeuralNetworksBurst* burst) {
    struct value a = new_value(1), b = new_value(2), sum = new_value(3);
    const float c[COUNT] = {7, 7, 7, 7};
    float out[COUNT];
    for (int round = 0; round < 12; round++) {
        adds(burst, a, b, sum);
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        if (round % 4 == 1) {
            OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, c, sizeof c));
        } else {
            /* Zeros. */
            OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, a.memory, 0, BYTES));
        }
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, b.memory, AT, BYTES));
        if (round % 4 < 2) {
            OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, out, sizeof out));
        } else {
            OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, sum.memory, AT, BYTES));
        }
        OK(burst ? ANeuralNetworksExecution_burstCompute(execution, burst)
                 : ANeuralNetworksExecution_compute(execution));
        const float* got = round % 4 < 2 ? out : sum.bytes;
        for (int at = 0; at < COUNT; at++)
            TRUE_THAT(got[at] == b.bytes[at] + (round % 4 == 1 ? 7.0f : 0.0f));
        ANeuralNetworksExecution_free(execution);
    }
    free_value(a);
    free_value(b);
    free_value(sum);
}

/* What was kept of a memory is no use once its file is shorter, and does no harm to others. */
static void cut_short(ANeuralNetworksBurst* burst) {
    struct value a = new_value(1), b = new_value(2), sum = new_value(3);
    for (int round = 0; round < 3; round++) adds(burst, a, b, sum);
    TRUE_THAT(ftruncate(a.fd, 0) == 0);
    for (int round = 0; round < 3; round++) {
        /* Whoever maps it finds it too short; whoever has it mapped finds pages gone. */
        int code = add(burst, a, b, sum);
        TRUE_THAT(code == ANEURALNETWORKS_BAD_DATA || code == ANEURALNETWORKS_OP_FAILED);
    }
    TRUE_THAT(ftruncate(a.fd, AT + BYTES) == 0);
    for (int at = 0; at < COUNT; at++) a.bytes[at] = 5;
    struct value again = new_value(6);
    for (int round = 0; round < 3; round++) adds(burst, again, b, sum);
    free_value(again);
    free_value(a);
    free_value(b);
    free_value(sum);
}

/* A burst may go before its memories, and they before it. */
static void in_any_order(void) {
    for (int round = 0; round < 4; round++) {
        struct value a = new_value(1), b = new_value(2), sum = new_value(3);
        ANeuralNetworksBurst *burst = NULL, *other = NULL;
        OK(ANeuralNetworksBurst_create(compilation, &burst));
        OK(ANeuralNetworksBurst_create(compilation, &other));
        for (int at = 0; at < 3; at++) {
            adds(burst, a, b, sum);
            adds(other, b, a, sum);
            adds(NULL, a, b, sum);
        }
        if (round % 2) ANeuralNetworksBurst_free(burst);
        adds(other, b, a, sum);
        free_value(a);
        if (!(round % 2)) {
            struct value c = new_value(9);
            adds(burst, c, b, sum);
            free_value(c);
            ANeuralNetworksBurst_free(burst);
        }
        free_value(b);
        free_value(sum);
        TRUE_THAT(comes_to(0));
        ANeuralNetworksBurst_free(other);
    }
}

int main(void) {
    ANeuralNetworksModel* model = add_model();
    compilation = compile(model);
    for (int with = 0; with < 2; with++) {
        ANeuralNetworksBurst* burst = NULL;
        if (with) OK(ANeuralNetworksBurst_create(compilation, &burst));
        in_turn(burst);
        freed_between(burst);
        freed_before(burst);
        other_arguments(burst);
        /* Pages that are gone are told by a signal, which valgrind does not deliver as the system does. */
        if (!getenv("NNBURST_TEST_VALGRIND")) cut_short(burst);
        ANeuralNetworksBurst_free(burst);
    }
    in_any_order();
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    return 0;
}
