/* Forks: a child gets nothing done with its parent's objects and does nothing to them; it makes its own. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OP_FAILED(call) EXPECT(ANEURALNETWORKS_OP_FAILED, call)
/* A child that hangs is ended, which fails the test. */
#define HANG_GUARD 120

static const float ones[COUNT] = {1, 2, 3, 4}, tens[COUNT] = {10, 20, 30, 40};

/* One of everything. */
struct set {
    const ANeuralNetworksDevice* device;
    ANeuralNetworksModel *model, *open;
    ANeuralNetworksCompilation *compilation, *begun;
    ANeuralNetworksBurst* burst;
    ANeuralNetworksMemoryDesc* desc;
    ANeuralNetworksMemory *shared, *plain;
    ANeuralNetworksExecution *execution, *started;
    ANeuralNetworksEvent* event;
    AHardwareBuffer* buffer;
    float sum[COUNT];
};

static void fill(ANeuralNetworksExecution* execution, float* sum) {
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, ones, sizeof ones));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, tens, sizeof tens));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof ones));
}

static void make(struct set* set) {
    memset(set, 0, sizeof *set);
    set->device = tested();
    set->model = add_model();
    OK(ANeuralNetworksModel_create(&set->open));
    set->compilation = compile(set->model);
    OK(ANeuralNetworksCompilation_createForDevices(set->model, &set->device, 1, &set->begun));
    OK(ANeuralNetworksBurst_create(set->compilation, &set->burst));
    OK(ANeuralNetworksMemoryDesc_create(&set->desc));
    int fd = memfd_create("plain", 0);
    TRUE_THAT(fd >= 0 && ftruncate(fd, sizeof ones) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof ones, PROT_READ | PROT_WRITE, fd, 0, &set->plain));
    OK(ANeuralNetworksMemory_createFromFd(sizeof ones, PROT_READ | PROT_WRITE, fd, 0, &set->shared));
    close(fd);
    OK(ANeuralNetworksExecution_create(set->compilation, &set->execution));
    OK(ANeuralNetworksExecution_create(set->compilation, &set->started));
    fill(set->execution, set->sum);
    fill(set->started, set->sum);
    OK(ANeuralNetworksExecution_startCompute(set->started, &set->event));
    AHardwareBuffer_Desc desc = {.width = 64,
                                 .height = 1,
                                 .layers = 1,
                                 .format = AHARDWAREBUFFER_FORMAT_BLOB,
                                 .usage = AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN};
    TRUE_THAT(AHardwareBuffer_allocate(&desc, &set->buffer) == 0);
}

static void release(struct set* set) {
    AHardwareBuffer_release(set->buffer);
    ANeuralNetworksEvent_free(set->event);
    ANeuralNetworksExecution_free(set->started);
    ANeuralNetworksExecution_free(set->execution);
    ANeuralNetworksMemory_free(set->shared);
    ANeuralNetworksMemory_free(set->plain);
    ANeuralNetworksMemoryDesc_free(set->desc);
    ANeuralNetworksBurst_free(set->burst);
    ANeuralNetworksCompilation_free(set->begun);
    ANeuralNetworksCompilation_free(set->compilation);
    ANeuralNetworksModel_free(set->open);
    ANeuralNetworksModel_free(set->model);
}

static void compute(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst) {
    for (int form = 0; form < 3; form++) {
        float sum[COUNT] = {0};
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        fill(execution, sum);
        if (form == 0) {
            OK(ANeuralNetworksExecution_compute(execution));
        } else if (form == 1) {
            OK(ANeuralNetworksExecution_burstCompute(execution, burst));
        } else {
            ANeuralNetworksEvent* event = NULL;
            OK(ANeuralNetworksExecution_startCompute(execution, &event));
            OK(ANeuralNetworksEvent_wait(event));
            ANeuralNetworksEvent_free(event);
        }
        for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == ones[at] + tens[at]);
        ANeuralNetworksExecution_free(execution);
    }
}

static struct set ours;

static void only_exits(void) {}

static void calls(void) {
    const char* name;
    uint32_t rank;
    const uint32_t shape[] = {COUNT};
    const ANeuralNetworksOperandType type = tensor(shape, 1);
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksBurst* burst = NULL;
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksMemory* memory = NULL;
    void* bytes = NULL;
    OP_FAILED(ANeuralNetworksDevice_getName(ours.device, &name));
    OP_FAILED(ANeuralNetworksDevice_wait(ours.device));
    OP_FAILED(ANeuralNetworksModel_addOperand(ours.open, &type));
    OP_FAILED(ANeuralNetworksModel_finish(ours.open));
    OP_FAILED(ANeuralNetworksCompilation_create(ours.model, &compilation));
    OP_FAILED(ANeuralNetworksCompilation_finish(ours.begun));
    OP_FAILED(ANeuralNetworksBurst_create(ours.compilation, &burst));
    OP_FAILED(ANeuralNetworksExecution_create(ours.compilation, &execution));
    OP_FAILED(ANeuralNetworksExecution_compute(ours.execution));
    OP_FAILED(ANeuralNetworksExecution_burstCompute(ours.execution, ours.burst));
    OP_FAILED(ANeuralNetworksExecution_startCompute(ours.execution, &event));
    OP_FAILED(ANeuralNetworksExecution_getOutputOperandRank(ours.started, 0, &rank));
    OP_FAILED(ANeuralNetworksEvent_wait(ours.event));
    OP_FAILED(ANeuralNetworksMemoryDesc_finish(ours.desc));
    OP_FAILED(ANeuralNetworksMemory_createFromDesc(ours.desc, &memory));
    OP_FAILED(ANeuralNetworksMemory_copy(ours.shared, ours.plain));
    TRUE_THAT(AHardwareBuffer_lock(ours.buffer, AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN, -1, NULL,
                                   &bytes) != 0);
    /* A device of the parent's with a model of the child's. */
    ANeuralNetworksModel* model = add_model();
    OP_FAILED(ANeuralNetworksCompilation_createForDevices(model, &ours.device, 1, &compilation));
    ANeuralNetworksModel_free(model);
}

static void frees(void) { release(&ours); }

static void run_child(void (*what)(void)) {
    pid_t child = fork();
    TRUE_THAT(child >= 0);
    if (child == 0) {
        alarm(HANG_GUARD);
        what();
        exit(0);
    }
    int status = -1;
    TRUE_THAT(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "a child ended with status %x\n", status);
        exit(1);
    }
}

static void works_with_its_own(void) {
    struct set set;
    make(&set);
    compute(set.compilation, set.burst);
    release(&set);
}

static void grandchild(void) {
    calls();
    works_with_its_own();
}

static void calls_makes_frees_and_forks(void) {
    calls();
    struct set set;
    make(&set);
    compute(set.compilation, set.burst);
    calls();
    frees();
    run_child(grandchild);
    compute(set.compilation, set.burst);
    release(&set);
}

/* Forks come while other threads are within calls. */
static volatile int over;

static void* computes(void* nothing) {
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksBurst_create(ours.compilation, &burst));
    while (!over) compute(ours.compilation, burst);
    ANeuralNetworksBurst_free(burst);
    return nothing;
}

int main(void) {
    make(&ours);
    void (*children[])(void) = {only_exits, calls, frees, works_with_its_own,
                                calls_makes_frees_and_forks};
    for (size_t at = 0; at < sizeof children / sizeof *children; at++) {
        run_child(children[at]);
        compute(ours.compilation, ours.burst);
    }
    if (getenv("NNBURST_TEST_VALGRIND") == NULL) {
        pthread_t thread;
        TRUE_THAT(pthread_create(&thread, NULL, computes, NULL) == 0);
        for (int round = 0; round < 20; round++) run_child(round % 2 ? frees : grandchild);
        over = 1;
        TRUE_THAT(pthread_join(thread, NULL) == 0);
    }
    OK(ANeuralNetworksEvent_wait(ours.event));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(ours.sum[at] == ones[at] + tens[at]);
    compute(ours.compilation, ours.burst);
    release(&ours);
    return 0;
}
