/* An execution runs once, whichever way; a burst runs one at a time; what takes one device is refused for two. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum way { SYNC, ASYNC, BURST, FENCED, WAYS };

static const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};

static ANeuralNetworksExecution* prepared(const ANeuralNetworksCompilation* compiled, float* sum) {
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksExecution_create((ANeuralNetworksCompilation*)compiled, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, COUNT * sizeof *sum));
    return execution;
}

/* Nothing of an execution that has begun can be changed, nor can it begin again. */
static void is_too_late(ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst,
                        ANeuralNetworksMemory* memory, float* sum) {
    ANeuralNetworksEvent* event = NULL;
    BAD_STATE(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setMeasureTiming(execution, true));
    BAD_STATE(ANeuralNetworksExecution_setMeasureTiming(execution, false));
    BAD_STATE(ANeuralNetworksExecution_setTimeout(execution, 0));
    BAD_STATE(ANeuralNetworksExecution_setLoopTimeout(execution, 0));
    BAD_STATE(ANeuralNetworksExecution_compute(execution));
    BAD_STATE(ANeuralNetworksExecution_startCompute(execution, &event));
    BAD_STATE(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
    BAD_STATE(ANeuralNetworksExecution_burstCompute(execution, burst));
    TRUE_THAT(event == NULL);
}

static void once(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksBurst* burst = NULL;
    ANeuralNetworksMemory* memory = NULL;
    int fd = memfd_create("late", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, sizeof a) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof a, PROT_READ | PROT_WRITE, fd, 0, &memory));
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (enum way way = SYNC; way < WAYS; way++) {
        float sum[COUNT] = {0};
        uint64_t nanoseconds = 1;
        ANeuralNetworksEvent* event = NULL;
        ANeuralNetworksExecution* execution = prepared(compilation, sum);
        OK(ANeuralNetworksExecution_setMeasureTiming(execution, false));
        OK(ANeuralNetworksExecution_setMeasureTiming(execution, true));
        BAD_STATE(ANeuralNetworksExecution_getDuration(execution, 0, &nanoseconds));
        TRUE_THAT(nanoseconds == UINT64_MAX);
        switch (way) {
            case SYNC: OK(ANeuralNetworksExecution_compute(execution)); break;
            case BURST: OK(ANeuralNetworksExecution_burstCompute(execution, burst)); break;
            case ASYNC: OK(ANeuralNetworksExecution_startCompute(execution, &event)); break;
            default:
                OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
        }
        is_too_late(execution, burst, memory, sum);
        if (event) OK(ANeuralNetworksEvent_wait(event));
        is_too_late(execution, burst, memory, sum);
        for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == a[at] + b[at]);
        BAD_DATA(ANeuralNetworksExecution_getDuration(execution, -1, &nanoseconds));
        for (int32_t code = 0; code < 4; code++) {
            nanoseconds = 1;
            OK(ANeuralNetworksExecution_getDuration(execution, code, &nanoseconds));
            TRUE_THAT(nanoseconds != 1);
        }
        uint32_t rank = 0, extents[1] = {0};
        BAD_DATA(ANeuralNetworksExecution_getOutputOperandRank(execution, -1, &rank));
        BAD_DATA(ANeuralNetworksExecution_getOutputOperandRank(execution, 999, &rank));
        BAD_DATA(ANeuralNetworksExecution_getOutputOperandDimensions(execution, -1, extents));
        BAD_DATA(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 999, extents));
        OK(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
        OK(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, extents));
        TRUE_THAT(rank == 1 && extents[0] == COUNT);
        ANeuralNetworksEvent_free(event);
        ANeuralNetworksExecution_free(execution);
    }
    ANeuralNetworksMemory_free(memory);
    close(fd);
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

/* The output lies over an input, wholly or in part, or at an odd address: sums are those of what was there. */
static void over_each_other(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    static unsigned char bytes[3 * sizeof a];
    const size_t places[] = {0, 1, 4, 8, sizeof a, sizeof a + 3};
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        ANeuralNetworksExecution* execution = NULL;
        float sum[COUNT];
        memcpy(bytes, a, sizeof a);
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, bytes, sizeof a));
        OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, bytes + places[at], sizeof sum));
        OK(ANeuralNetworksExecution_compute(execution));
        memcpy(sum, bytes + places[at], sizeof sum);
        for (int it = 0; it < COUNT; it++) TRUE_THAT(sum[it] == a[it] + b[it]);
        ANeuralNetworksExecution_free(execution);
    }
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

struct turn {
    ANeuralNetworksExecution* execution;
    ANeuralNetworksBurst* burst;
    int code;
};

static void* take_turn(void* turn) {
    struct turn* it = turn;
    it->code = ANeuralNetworksExecution_burstCompute(it->execution, it->burst);
    return NULL;
}

static void one_at_a_time(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (int round = 0; round < 20; round++) {
        float sums[2][COUNT] = {{0}};
        struct turn turns[2];
        pthread_t threads[2];
        for (int at = 0; at < 2; at++) {
            turns[at] = (struct turn){prepared(compilation, sums[at]), burst, -1};
            TRUE_THAT(pthread_create(&threads[at], NULL, take_turn, &turns[at]) == 0);
        }
        int good = 0;
        for (int at = 0; at < 2; at++) {
            TRUE_THAT(pthread_join(threads[at], NULL) == 0);
            TRUE_THAT(turns[at].code == 0 || turns[at].code == ANEURALNETWORKS_BAD_STATE);
            good += turns[at].code == 0;
            TRUE_THAT((sums[at][3] == a[3] + b[3]) == (turns[at].code == 0));
            /* Whoever found the burst busy has not begun. */
            if (turns[at].code) OK(ANeuralNetworksExecution_compute(turns[at].execution));
            ANeuralNetworksExecution_free(turns[at].execution);
        }
        TRUE_THAT(good > 0);
    }
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void two_devices(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksDevice* devices[2] = {NULL, NULL};
    const char* names[2] = {NULL, NULL};
    float sum[COUNT] = {0};
    for (uint32_t at = 0; at < 2; at++) {
        OK(ANeuralNetworks_getDevice(at, &devices[at]));
        OK(ANeuralNetworksDevice_getName(devices[at], &names[at]));
    }
    TRUE_THAT(strcmp(names[0], names[1]) != 0);
    const ANeuralNetworksDevice* const* both = (const ANeuralNetworksDevice* const*)devices;
    OK(ANeuralNetworksCompilation_createForDevices(model, both, 2, &compilation));
    BAD_DATA(ANeuralNetworksCompilation_setTimeout(compilation, 1000));
    OK(ANeuralNetworksCompilation_finish(compilation));
    execution = prepared(compilation, sum);
    BAD_DATA(ANeuralNetworksExecution_setMeasureTiming(execution, false));
    BAD_DATA(ANeuralNetworksExecution_setMeasureTiming(execution, true));
    BAD_DATA(ANeuralNetworksExecution_setTimeout(execution, 1000));
    BAD_DATA(
        ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 1000, &event));
    OK(ANeuralNetworksExecution_compute(execution));
    TRUE_THAT(sum[1] == a[1] + b[1]);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

/* What no device of ours computes. */
static void foreign_operation(void) {
    static const uint32_t bytes[] = {1}, in[] = {0}, out[] = {1};
    ANeuralNetworksOperandType type = tensor(bytes, 1);
    type.type = ANEURALNETWORKS_TENSOR_OEM_BYTE;
    const ANeuralNetworksDevice* device = tested();
    ANeuralNetworksModel* model = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksBurst* burst = NULL;
    ANeuralNetworksMemoryDesc* desc = NULL;
    bool supported = true;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_OEM_OPERATION, 1, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, &supported));
    TRUE_THAT(!supported);
    for (int named = 0; named < 2; named++) {
        OK(named ? ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation)
                 : ANeuralNetworksCompilation_create(model, &compilation));
        BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
        BAD_STATE(ANeuralNetworksExecution_create(compilation, &execution));
        BAD_STATE(ANeuralNetworksBurst_create(compilation, &burst));
        OK(ANeuralNetworksMemoryDesc_create(&desc));
        BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.0f));
        BAD_DATA(ANeuralNetworksMemoryDesc_addOutputRole(desc, compilation, 0, 1.0f));
        ANeuralNetworksMemoryDesc_free(desc);
        ANeuralNetworksCompilation_free(compilation);
    }
    ANeuralNetworksModel_free(model);
}

int main(void) {
    once();
    over_each_other();
    one_at_a_time();
    two_devices();
    foreign_operation();
    return 0;
}
