/* Nulls, wrong values, wrong states, double calls, freed objects: the codes of the interface, and no crash. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

static const uint32_t shape[] = {COUNT};

static void models(void) {
    ANeuralNetworksOperandType type = tensor(shape, 1), activation = scalar(ANEURALNETWORKS_INT32);
    ANeuralNetworksModel* model = NULL;
    IS_NULL(ANeuralNetworksModel_create(NULL));
    OK(ANeuralNetworksModel_create(&model));
    IS_NULL(ANeuralNetworksModel_addOperand(NULL, &type));
    IS_NULL(ANeuralNetworksModel_addOperand(model, NULL));
    ANeuralNetworksOperandType wrong = type;
    wrong.type = 16;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong = type;
    wrong.scale = 1;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong = activation;
    wrong.dimensionCount = 1;
    wrong.dimensions = shape;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong.dimensions = NULL;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    const uint32_t huge[] = {65536, 65536};
    wrong = tensor(huge, 2);
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong = type;
    wrong.type = ANEURALNETWORKS_TENSOR_QUANT8_ASYMM;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong.scale = 0.5f;
    wrong.zeroPoint = 256;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &wrong));
    wrong.zeroPoint = 255;
    OK(ANeuralNetworksModel_addOperand(model, &wrong));

    const float value[COUNT] = {0};
    IS_NULL(ANeuralNetworksModel_setOperandValue(NULL, 0, value, 4));
    IS_NULL(ANeuralNetworksModel_setOperandValue(model, 0, NULL, 4));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, 1, value, 4));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, -1, value, 4));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, 0, value, 5));
    OK(ANeuralNetworksModel_setOperandValue(model, 0, NULL, 0));
    ANeuralNetworksSymmPerChannelQuantParams params = {0, 0, NULL};
    IS_NULL(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(model, 0, NULL));
    BAD_DATA(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(model, 0, &params));
    IS_NULL(ANeuralNetworksModel_setOperandValueFromModel(model, 0, NULL));
    BAD_STATE(ANeuralNetworksModel_setOperandValueFromModel(model, 0, model));
    BAD_DATA(ANeuralNetworksModel_setOperandExtensionData(model, 0, value, 4));

    const uint32_t zero[] = {0}, past[] = {1};
    IS_NULL(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_RELU, 1, NULL, 1, zero));
    IS_NULL(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_RELU, 1, zero, 1, NULL));
    BAD_DATA(ANeuralNetworksModel_addOperation(model, 102, 1, zero, 1, zero));
    BAD_DATA(ANeuralNetworksModel_addOperation(model, -1, 1, zero, 1, zero));
    BAD_DATA(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_RELU, 1, past, 1, zero));
    IS_NULL(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, NULL, 1, zero));
    BAD_DATA(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, past, 1, past));
    BAD_DATA(ANeuralNetworksModel_finish(model));
    BAD_STATE(ANeuralNetworksModel_finish(model));
    BAD_STATE(ANeuralNetworksModel_addOperand(model, &type));
    ANeuralNetworksCompilation* compilation = NULL;
    BAD_STATE(ANeuralNetworksCompilation_create(model, &compilation));
    TRUE_THAT(compilation == NULL);
    ANeuralNetworksModel_free(model);
    BAD_STATE(ANeuralNetworksModel_finish(model));
    ANeuralNetworksModel_free(model);
    ANeuralNetworksModel_free(NULL);

    model = begin_add(shape, 1);
    const uint32_t inputs[] = {0, 1, 2}, output[] = {3};
    BAD_DATA(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, output));
    BAD_DATA(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 2, inputs, 1, output));
    BAD_STATE(ANeuralNetworksCompilation_create(model, &compilation));
    bool supported[1] = {false};
    const ANeuralNetworksDevice* device = tested();
    BAD_STATE(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, supported));
    OK(ANeuralNetworksModel_finish(model));
    BAD_STATE(ANeuralNetworksModel_finish(model));
    BAD_STATE(ANeuralNetworksModel_relaxComputationFloat32toFloat16(model, true));
    BAD_STATE(ANeuralNetworksModel_setOperandValue(model, 0, value, sizeof value));
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, supported));
    TRUE_THAT(supported[0]);
    const ANeuralNetworksDevice* twice[] = {device, device};
    BAD_DATA(ANeuralNetworksModel_getSupportedOperationsForDevices(model, twice, 2, supported));
    BAD_DATA(ANeuralNetworksModel_getSupportedOperationsForDevices(model, twice, 0, supported));
    IS_NULL(ANeuralNetworksModel_getSupportedOperationsForDevices(model, NULL, 1, supported));
    IS_NULL(ANeuralNetworksModel_getSupportedOperationsForDevices(model, twice, 1, NULL));
    /* An object of another kind, and what never was one. */
    BAD_STATE(ANeuralNetworksModel_finish((ANeuralNetworksModel*)(uintptr_t)device));
    BAD_STATE(ANeuralNetworksModel_finish((ANeuralNetworksModel*)&model));
    ANeuralNetworksModel_free(model);
}

static void compilations(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksBurst* burst = NULL;
    const ANeuralNetworksDevice* device = tested();
    const uint8_t token[ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN] = {0};
    IS_NULL(ANeuralNetworksCompilation_create(NULL, &compilation));
    IS_NULL(ANeuralNetworksCompilation_create(model, NULL));
    IS_NULL(ANeuralNetworksCompilation_createForDevices(model, NULL, 1, &compilation));
    BAD_DATA(ANeuralNetworksCompilation_createForDevices(model, &device, 0, &compilation));
    const ANeuralNetworksDevice* pair[] = {device, device};
    BAD_DATA(ANeuralNetworksCompilation_createForDevices(model, pair, 2, &compilation));
    pair[1] = NULL;
    IS_NULL(ANeuralNetworksCompilation_createForDevices(model, pair, 2, &compilation));

    OK(ANeuralNetworksCompilation_create(model, &compilation));
    BAD_STATE(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_STATE(ANeuralNetworksBurst_create(compilation, &burst));
    TRUE_THAT(execution == NULL && burst == NULL);
    IS_NULL(ANeuralNetworksCompilation_setPreference(NULL, 0));
    BAD_DATA(ANeuralNetworksCompilation_setPreference(compilation, 3));
    BAD_DATA(ANeuralNetworksCompilation_setPreference(compilation, -1));
    OK(ANeuralNetworksCompilation_setPreference(compilation, ANEURALNETWORKS_PREFER_LOW_POWER));
    BAD_DATA(ANeuralNetworksCompilation_setPriority(compilation, 0));
    OK(ANeuralNetworksCompilation_setPriority(compilation, ANEURALNETWORKS_PRIORITY_HIGH));
    BAD_DATA(ANeuralNetworksCompilation_setTimeout(compilation, 1000000));
    IS_NULL(ANeuralNetworksCompilation_setCaching(compilation, NULL, token));
    IS_NULL(ANeuralNetworksCompilation_setCaching(compilation, "/tmp", NULL));
    OK(ANeuralNetworksCompilation_setCaching(compilation, "/nowhere/at/all", token));
    OK(ANeuralNetworksCompilation_finish(compilation));
    BAD_STATE(ANeuralNetworksCompilation_finish(compilation));
    BAD_STATE(ANeuralNetworksCompilation_setPreference(compilation, 7));
    BAD_STATE(ANeuralNetworksCompilation_setPriority(compilation, 7));
    BAD_STATE(ANeuralNetworksCompilation_setTimeout(compilation, 1));
    BAD_STATE(ANeuralNetworksCompilation_setCaching(compilation, "/tmp", token));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setMeasureTiming(execution, true));
    BAD_DATA(ANeuralNetworksExecution_setTimeout(execution, 1));
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    BAD_STATE(ANeuralNetworksCompilation_finish(compilation));

    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_setTimeout(compilation, UINT64_MAX));
    OK(ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksCompilation_free(compilation);
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_setTimeout(compilation, 1));
    int late = ANeuralNetworksCompilation_finish(compilation);
    TRUE_THAT(late == ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT ||
              late == ANEURALNETWORKS_MISSED_DEADLINE_TRANSIENT);
    BAD_STATE(ANeuralNetworksExecution_create(compilation, &execution));
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void executions(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksModel_free(model);
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};
    float sum[COUNT] = {0};
    uint32_t rank = 0, extents[1] = {0};
    uint64_t nanoseconds = 0;
    IS_NULL(ANeuralNetworksExecution_create(NULL, &execution));
    IS_NULL(ANeuralNetworksExecution_create(compilation, NULL));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    IS_NULL(ANeuralNetworksExecution_setInput(NULL, 0, NULL, a, sizeof a));
    IS_NULL(ANeuralNetworksExecution_setInput(execution, 0, NULL, NULL, sizeof a));
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, 2, NULL, a, sizeof a));
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, -1, NULL, a, sizeof a));
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a - 1));
    const uint32_t other[] = {COUNT + 1}, open[] = {0};
    ANeuralNetworksOperandType type = tensor(other, 1);
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, 0, &type, a, sizeof a));
    type = tensor(open, 1);
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, 0, &type, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    BAD_DATA(ANeuralNetworksExecution_compute(execution));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    BAD_DATA(ANeuralNetworksExecution_startCompute(execution, &event));
    TRUE_THAT(event == NULL);
    IS_NULL(ANeuralNetworksExecution_startCompute(execution, NULL));
    BAD_DATA(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum - 4));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_setMeasureTiming(execution, true));
    OK(ANeuralNetworksExecution_setTimeout(execution, UINT64_MAX));
    OK(ANeuralNetworksExecution_setLoopTimeout(execution, UINT64_MAX));
    BAD_STATE(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
    BAD_STATE(ANeuralNetworksExecution_getDuration(execution, 0, &nanoseconds));
    TRUE_THAT(nanoseconds == UINT64_MAX);
    BAD_DATA(ANeuralNetworksExecution_getDuration(execution, 4, &nanoseconds));
    OK(ANeuralNetworksExecution_compute(execution));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == a[at] + b[at]);
    BAD_STATE(ANeuralNetworksExecution_compute(execution));
    BAD_STATE(ANeuralNetworksExecution_startCompute(execution, &event));
    BAD_STATE(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
    BAD_STATE(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    BAD_STATE(ANeuralNetworksExecution_setLoopTimeout(execution, 1));
    OK(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
    OK(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, extents));
    TRUE_THAT(rank == 1 && extents[0] == COUNT);
    BAD_DATA(ANeuralNetworksExecution_getOutputOperandRank(execution, 1, &rank));
    IS_NULL(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, NULL));
    OK(ANeuralNetworksExecution_getDuration(execution, ANEURALNETWORKS_DURATION_ON_HARDWARE,
                                            &nanoseconds));
    ANeuralNetworksExecution_free(execution);
    BAD_STATE(ANeuralNetworksExecution_compute(execution));
    ANeuralNetworksExecution_free(execution);

    /* The wrong burst; then everything freed before what was made of it. */
    ANeuralNetworksModel* second_model = add_model();
    ANeuralNetworksCompilation* second = compile(second_model);
    ANeuralNetworksModel_free(second_model);
    ANeuralNetworksBurst *burst = NULL, *wrong = NULL;
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    OK(ANeuralNetworksBurst_create(second, &wrong));
    ANeuralNetworksCompilation_free(second);
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    ANeuralNetworksCompilation_free(compilation);
    int fd = memfd_create("arguments", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, 4096) == 0);
    ANeuralNetworksMemory* memory = NULL;
    OK(ANeuralNetworksMemory_createFromFd(3 * sizeof sum, PROT_READ | PROT_WRITE, fd, 3, &memory));
    TRUE_THAT(pwrite(fd, a, sizeof a, 3) == sizeof a);
    TRUE_THAT(pwrite(fd, b, sizeof b, 3 + sizeof a) == sizeof b);
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 33, 16));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 20));
    BAD_DATA(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, 12));
    IS_NULL(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, NULL, 0, 16));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 16));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, memory, 16, 16));
    OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 32, 16));
    ANeuralNetworksMemory_free(memory);
    IS_NULL(ANeuralNetworksExecution_burstCompute(execution, NULL));
    BAD_DATA(ANeuralNetworksExecution_burstCompute(execution, wrong));
    OK(ANeuralNetworksExecution_burstCompute(execution, burst));
    BAD_STATE(ANeuralNetworksExecution_burstCompute(execution, burst));
    memset(sum, 0, sizeof sum);
    TRUE_THAT(pread(fd, sum, sizeof sum, 3 + 32) == sizeof sum);
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == a[at] + b[at]);
    close(fd);
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksBurst_free(wrong);
    BAD_STATE(ANeuralNetworksExecution_burstCompute(execution, burst));
    ANeuralNetworksExecution_free(execution);
}

static void events(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent *event = NULL, *fence = NULL, *fenced = NULL;
    const float a[COUNT] = {1, 2, 3, 4};
    float sum[COUNT] = {0};
    int fd = 0;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_startCompute(execution, &event));
    OK(ANeuralNetworksEvent_wait(event));
    OK(ANeuralNetworksEvent_wait(event));
    TRUE_THAT(sum[3] == 8);
    EXPECT(ANEURALNETWORKS_OP_FAILED, ANeuralNetworksEvent_getSyncFenceFd(event, &fd));
    TRUE_THAT(fd == -1);
    uint32_t rank = 0;
    OK(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
    ANeuralNetworksExecution_free(execution);
    OK(ANeuralNetworksEvent_wait(event));

    IS_NULL(ANeuralNetworksEvent_wait(NULL));
    IS_NULL(ANeuralNetworksEvent_getSyncFenceFd(NULL, &fd));
    IS_NULL(ANeuralNetworksEvent_createFromSyncFenceFd(1, NULL));
    BAD_DATA(ANeuralNetworksEvent_createFromSyncFenceFd(-1, &fence));
    BAD_DATA(ANeuralNetworksEvent_createFromSyncFenceFd(0, &fence));
    int ends[2];
    TRUE_THAT(pipe(ends) == 0);
    OK(ANeuralNetworksEvent_createFromSyncFenceFd(ends[0], &fence));
    OK(ANeuralNetworksEvent_getSyncFenceFd(fence, &fd));
    TRUE_THAT(fd > 0 && fd != ends[0]);
    close(fd);
    TRUE_THAT(write(ends[1], "x", 1) == 1);
    OK(ANeuralNetworksEvent_wait(fence));

    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, sum, sizeof sum));
    float twice[COUNT] = {0};
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, twice, sizeof twice));
    const ANeuralNetworksEvent* after[] = {event, fence};
    const ANeuralNetworksEvent* hole[] = {event, NULL};
    IS_NULL(ANeuralNetworksExecution_startComputeWithDependencies(execution, hole, 2, 0, &fenced));
    IS_NULL(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 1, 0, &fenced));
    OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, after, 2, 0, &fenced));
    TRUE_THAT(twice[3] == 12); /* outputs in buffers are there when the call returns */
    OK(ANeuralNetworksEvent_wait(fenced));
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksEvent_free(fenced);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksEvent_free(fence);
    ANeuralNetworksEvent_free(NULL);
    BAD_STATE(ANeuralNetworksEvent_wait(event));
    close(ends[0]);
    close(ends[1]);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void devices(void) {
    uint32_t count = 0;
    ANeuralNetworksDevice* device = NULL;
    const char* text = NULL;
    int32_t type = -1;
    int64_t level = 0;
    bool supported = true;
    IS_NULL(ANeuralNetworks_getDeviceCount(NULL));
    OK(ANeuralNetworks_getDeviceCount(&count));
    TRUE_THAT(count >= 2);
    IS_NULL(ANeuralNetworks_getDevice(0, NULL));
    BAD_DATA(ANeuralNetworks_getDevice(count, &device));
    const ANeuralNetworksDevice* known = tested();
    IS_NULL(ANeuralNetworksDevice_getName(NULL, &text));
    IS_NULL(ANeuralNetworksDevice_getName(known, NULL));
    OK(ANeuralNetworksDevice_getVersion(known, &text));
    TRUE_THAT(text[0] != 0);
    OK(ANeuralNetworksDevice_getType(known, &type));
    TRUE_THAT(type == ANEURALNETWORKS_DEVICE_CPU);
    OK(ANeuralNetworksDevice_getFeatureLevel(known, &level));
    TRUE_THAT(level == 30);
    OK(ANeuralNetworksDevice_wait(known));
    IS_NULL(ANeuralNetworksDevice_wait(NULL));
    IS_NULL(ANeuralNetworksDevice_getExtensionSupport(known, NULL, &supported));
    OK(ANeuralNetworksDevice_getExtensionSupport(known, "com.example.none", &supported));
    TRUE_THAT(!supported);
    TRUE_THAT(ANeuralNetworks_getDefaultLoopTimeout() == 2000000000u);
    TRUE_THAT(ANeuralNetworks_getMaximumLoopTimeout() == 15000000000u);
}

int main(void) {
    devices();
    models();
    compilations();
    executions();
    events();
    return 0;
}
