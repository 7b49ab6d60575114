/* Every function with every pointer null, with a handle that was freed, and with one of another kind: a code, never a
 * crash; and what may be left out, left out. */
#define _GNU_SOURCE
#include "check.h"

#include <android/hardware_buffer.h>
#include <sys/mman.h>
#include <unistd.h>

/* One of each. */
struct all {
    ANeuralNetworksModel *open, *model;
    ANeuralNetworksCompilation *unfinished, *compilation;
    ANeuralNetworksExecution* execution;
    ANeuralNetworksBurst* burst;
    ANeuralNetworksMemory* memory;
    ANeuralNetworksMemoryDesc* desc;
    ANeuralNetworksEvent* event;
    const ANeuralNetworksDevice* device;
    AHardwareBuffer* buffer;
};

static const uint32_t shape[] = {COUNT}, zero[] = {0};
static const uint8_t token[ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN];
static float numbers[COUNT];

static struct all make(int fd) {
    struct all all = {0};
    int ends[2];
    const AHardwareBuffer_Desc bytes = {
        .width = 64, .height = 1, .layers = 1, .format = AHARDWAREBUFFER_FORMAT_BLOB};
    all.open = begin_add(shape, 1);
    all.model = add_model();
    all.device = tested();
    all.compilation = compile(all.model);
    OK(ANeuralNetworksCompilation_createForDevices(all.model, &all.device, 1, &all.unfinished));
    OK(ANeuralNetworksExecution_create(all.compilation, &all.execution));
    OK(ANeuralNetworksBurst_create(all.compilation, &all.burst));
    OK(ANeuralNetworksMemory_createFromFd(64, PROT_READ | PROT_WRITE, fd, 0, &all.memory));
    OK(ANeuralNetworksMemoryDesc_create(&all.desc));
    TRUE_THAT(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    OK(ANeuralNetworksEvent_createFromSyncFenceFd(ends[0], &all.event));
    close(ends[0]);
    close(ends[1]);
    TRUE_THAT(AHardwareBuffer_allocate(&bytes, &all.buffer) == 0);
    return all;
}

static void free_all(struct all all) {
    ANeuralNetworksMemoryDesc_free(all.desc);
    ANeuralNetworksEvent_free(all.event);
    ANeuralNetworksMemory_free(all.memory);
    ANeuralNetworksBurst_free(all.burst);
    ANeuralNetworksExecution_free(all.execution);
    ANeuralNetworksCompilation_free(all.unfinished);
    ANeuralNetworksCompilation_free(all.compilation);
    ANeuralNetworksModel_free(all.model);
    ANeuralNetworksModel_free(all.open);
    AHardwareBuffer_release(all.buffer);
}

/* Every function that takes a handle, with those of `it`; `want` is what each answers. The rest of the arguments is as
 * it has to be. */
static void call_everything(int want, int want_role, struct all it, struct all good) {
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksBurst* burst = NULL;
    ANeuralNetworksMemory* memory = NULL;
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksOperandType type = tensor(shape, 1);
    const float scale = 1.0f;
    const ANeuralNetworksSymmPerChannelQuantParams params = {0, 1, &scale};
    const char* text = NULL;
    int32_t number = 0;
    int fd = 0;
    int64_t level = 0;
    uint32_t some[4] = {0};
    uint64_t nanoseconds = 0;
    bool yes[4] = {false};
    EXPECT(want, ANeuralNetworksDevice_getName(it.device, &text));
    EXPECT(want, ANeuralNetworksDevice_getVersion(it.device, &text));
    EXPECT(want, ANeuralNetworksDevice_getType(it.device, &number));
    EXPECT(want, ANeuralNetworksDevice_getFeatureLevel(it.device, &level));
    EXPECT(want, ANeuralNetworksDevice_wait(it.device));
    EXPECT(want, ANeuralNetworksDevice_getExtensionSupport(it.device, "com.example.none", yes));

    EXPECT(want, ANeuralNetworksModel_addOperand(it.open, &type));
    EXPECT(want, ANeuralNetworksModel_setOperandValue(it.open, 0, numbers, sizeof numbers));
    EXPECT(want, ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(it.open, 0, &params));
    EXPECT(want, ANeuralNetworksModel_setOperandExtensionData(it.open, 0, numbers, 4));
    EXPECT(want,
           ANeuralNetworksModel_setOperandValueFromMemory(it.open, 0, good.memory, 0, sizeof numbers));
    EXPECT(want, ANeuralNetworksModel_setOperandValueFromMemory(good.open, 0, it.memory, 0,
                                                                sizeof numbers));
    EXPECT(want, ANeuralNetworksModel_setOperandValueFromModel(it.open, 0, good.model));
    EXPECT(want, ANeuralNetworksModel_setOperandValueFromModel(good.open, 0, it.model));
    EXPECT(want, ANeuralNetworksModel_addOperation(it.open, ANEURALNETWORKS_RELU, 1, zero, 1, zero));
    EXPECT(want, ANeuralNetworksModel_identifyInputsAndOutputs(it.open, 1, zero, 1, zero));
    EXPECT(want, ANeuralNetworksModel_relaxComputationFloat32toFloat16(it.open, true));
    EXPECT(want, ANeuralNetworksModel_getExtensionOperandType(it.open, "com.example.none", 0, &number));
    EXPECT(want,
           ANeuralNetworksModel_getExtensionOperationType(it.open, "com.example.none", 0, &number));
    EXPECT(want, ANeuralNetworksModel_finish(it.open));
    EXPECT(want, ANeuralNetworksModel_getSupportedOperationsForDevices(it.model, &good.device, 1, yes));

    EXPECT(want, ANeuralNetworksCompilation_create(it.model, &compilation));
    EXPECT(want,
           ANeuralNetworksCompilation_createForDevices(it.model, &good.device, 1, &compilation));
    EXPECT(want, ANeuralNetworksCompilation_setPreference(it.unfinished, 1));
    EXPECT(want, ANeuralNetworksCompilation_setPriority(it.unfinished, 100));
    EXPECT(want, ANeuralNetworksCompilation_setTimeout(it.unfinished, 1000));
    EXPECT(want, ANeuralNetworksCompilation_setCaching(it.unfinished, "/tmp", token));
    EXPECT(want, ANeuralNetworksCompilation_finish(it.unfinished));
    EXPECT(want, ANeuralNetworksExecution_create(it.compilation, &execution));
    EXPECT(want, ANeuralNetworksBurst_create(it.compilation, &burst));

    EXPECT(want, ANeuralNetworksExecution_setInput(it.execution, 0, NULL, numbers, sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setOutput(it.execution, 0, NULL, numbers, sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setInputFromMemory(it.execution, 0, NULL, good.memory, 0,
                                                             sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setInputFromMemory(good.execution, 0, NULL, it.memory, 0,
                                                             sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setOutputFromMemory(it.execution, 0, NULL, good.memory, 0,
                                                              sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setOutputFromMemory(good.execution, 0, NULL, it.memory, 0,
                                                              sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_setMeasureTiming(it.execution, true));
    EXPECT(want, ANeuralNetworksExecution_setTimeout(it.execution, 1000));
    EXPECT(want, ANeuralNetworksExecution_setLoopTimeout(it.execution, 1000));
    EXPECT(want, ANeuralNetworksExecution_compute(it.execution));
    EXPECT(want, ANeuralNetworksExecution_burstCompute(it.execution, good.burst));
    EXPECT(want, ANeuralNetworksExecution_burstCompute(good.execution, it.burst));
    EXPECT(want, ANeuralNetworksExecution_startCompute(it.execution, &event));
    EXPECT(want,
           ANeuralNetworksExecution_startComputeWithDependencies(it.execution, NULL, 0, 0, &event));
    const ANeuralNetworksEvent* after[] = {good.event, it.event};
    EXPECT(want, ANeuralNetworksExecution_startComputeWithDependencies(good.execution, after, 2, 0,
                                                                       &event));
    EXPECT(want, ANeuralNetworksExecution_getOutputOperandRank(it.execution, 0, some));
    EXPECT(want, ANeuralNetworksExecution_getOutputOperandDimensions(it.execution, 0, some));
    EXPECT(want, ANeuralNetworksExecution_getDuration(it.execution, 0, &nanoseconds));
    EXPECT(want, ANeuralNetworksEvent_wait(it.event));
    EXPECT(want, ANeuralNetworksEvent_getSyncFenceFd(it.event, &fd));

    EXPECT(want, ANeuralNetworksMemoryDesc_addInputRole(it.desc, good.compilation, 0, 1.0f));
    EXPECT(want, ANeuralNetworksMemoryDesc_addOutputRole(it.desc, good.compilation, 0, 1.0f));
    EXPECT(want_role, ANeuralNetworksMemoryDesc_addInputRole(good.desc, it.compilation, 0, 1.0f));
    EXPECT(want_role, ANeuralNetworksMemoryDesc_addOutputRole(good.desc, it.compilation, 0, 1.0f));
    EXPECT(want, ANeuralNetworksMemoryDesc_setDimensions(it.desc, 1, shape));
    EXPECT(want, ANeuralNetworksMemoryDesc_finish(it.desc));
    EXPECT(want, ANeuralNetworksMemory_createFromDesc(it.desc, &memory));
    EXPECT(want, ANeuralNetworksMemory_createFromAHardwareBuffer(it.buffer, &memory));
    EXPECT(want, ANeuralNetworksMemory_copy(it.memory, good.memory));
    EXPECT(want, ANeuralNetworksMemory_copy(good.memory, it.memory));
    TRUE_THAT(!compilation && !execution && !burst && !memory && !event);
}

/* Everything behind a handle is good, and where something is to be read or written there is nothing. */
static void nothing_to_read_or_write(struct all all) {
    bool yes[4] = {false};
    int32_t number = 0;
    const ANeuralNetworksDevice* hole[] = {all.device, NULL};
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksEvent* event = NULL;
    const ANeuralNetworksEvent* no_event[] = {NULL};
    IS_NULL(ANeuralNetworks_getDeviceCount(NULL));
    IS_NULL(ANeuralNetworks_getDevice(0, NULL));
    IS_NULL(ANeuralNetworksDevice_getName(all.device, NULL));
    IS_NULL(ANeuralNetworksDevice_getVersion(all.device, NULL));
    IS_NULL(ANeuralNetworksDevice_getType(all.device, NULL));
    IS_NULL(ANeuralNetworksDevice_getFeatureLevel(all.device, NULL));
    IS_NULL(ANeuralNetworksDevice_getExtensionSupport(all.device, NULL, yes));
    IS_NULL(ANeuralNetworksDevice_getExtensionSupport(all.device, "com.example.none", NULL));

    IS_NULL(ANeuralNetworksModel_create(NULL));
    IS_NULL(ANeuralNetworksModel_addOperand(all.open, NULL));
    IS_NULL(ANeuralNetworksModel_setOperandValue(all.open, 0, NULL, 4));
    IS_NULL(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(all.open, 0, NULL));
    IS_NULL(ANeuralNetworksModel_setOperandExtensionData(all.open, 0, NULL, 4));
    IS_NULL(ANeuralNetworksModel_addOperation(all.open, ANEURALNETWORKS_RELU, 0, NULL, 1, zero));
    IS_NULL(ANeuralNetworksModel_addOperation(all.open, ANEURALNETWORKS_RELU, 1, zero, 0, NULL));
    IS_NULL(ANeuralNetworksModel_identifyInputsAndOutputs(all.open, 0, NULL, 1, zero));
    IS_NULL(ANeuralNetworksModel_identifyInputsAndOutputs(all.open, 1, zero, 0, NULL));
    IS_NULL(ANeuralNetworksModel_getExtensionOperandType(all.open, NULL, 0, &number));
    IS_NULL(ANeuralNetworksModel_getExtensionOperandType(all.open, "com.example.none", 0, NULL));
    IS_NULL(ANeuralNetworksModel_getExtensionOperationType(all.open, NULL, 0, &number));
    IS_NULL(ANeuralNetworksModel_getExtensionOperationType(all.open, "com.example.none", 0, NULL));
    IS_NULL(ANeuralNetworksModel_getSupportedOperationsForDevices(all.model, NULL, 1, yes));
    IS_NULL(ANeuralNetworksModel_getSupportedOperationsForDevices(all.model, hole, 2, yes));
    IS_NULL(ANeuralNetworksModel_getSupportedOperationsForDevices(all.model, hole, 1, NULL));

    IS_NULL(ANeuralNetworksCompilation_create(all.model, NULL));
    IS_NULL(ANeuralNetworksCompilation_createForDevices(all.model, NULL, 1, &compilation));
    IS_NULL(ANeuralNetworksCompilation_createForDevices(all.model, hole, 2, &compilation));
    IS_NULL(ANeuralNetworksCompilation_createForDevices(all.model, hole, 1, NULL));
    IS_NULL(ANeuralNetworksCompilation_setCaching(all.unfinished, NULL, token));
    IS_NULL(ANeuralNetworksCompilation_setCaching(all.unfinished, "/tmp", NULL));

    IS_NULL(ANeuralNetworksExecution_create(all.compilation, NULL));
    IS_NULL(ANeuralNetworksExecution_setInput(all.execution, 0, NULL, NULL, 4));
    IS_NULL(ANeuralNetworksExecution_setOutput(all.execution, 0, NULL, NULL, 4));
    IS_NULL(ANeuralNetworksExecution_startCompute(all.execution, NULL));
    IS_NULL(ANeuralNetworksExecution_startComputeWithDependencies(all.execution, NULL, 0, 0, NULL));
    IS_NULL(ANeuralNetworksExecution_startComputeWithDependencies(all.execution, NULL, 1, 0, &event));
    IS_NULL(
        ANeuralNetworksExecution_startComputeWithDependencies(all.execution, no_event, 1, 0, &event));
    IS_NULL(ANeuralNetworksExecution_getOutputOperandRank(all.execution, 0, NULL));
    IS_NULL(ANeuralNetworksExecution_getOutputOperandDimensions(all.execution, 0, NULL));
    IS_NULL(ANeuralNetworksExecution_getDuration(all.execution, 0, NULL));
    IS_NULL(ANeuralNetworksEvent_createFromSyncFenceFd(1, NULL));
    IS_NULL(ANeuralNetworksEvent_getSyncFenceFd(all.event, NULL));
    IS_NULL(ANeuralNetworksBurst_create(all.compilation, NULL));

    IS_NULL(ANeuralNetworksMemoryDesc_create(NULL));
    IS_NULL(ANeuralNetworksMemoryDesc_setDimensions(all.desc, 1, NULL));
    OK(ANeuralNetworksMemoryDesc_setDimensions(all.desc, 0, NULL));
    IS_NULL(ANeuralNetworksMemory_createFromDesc(all.desc, NULL));
    IS_NULL(ANeuralNetworksMemory_createFromAHardwareBuffer(all.buffer, NULL));
    IS_NULL(ANeuralNetworksMemory_createFromFd(64, PROT_READ, 1, 0, NULL));
    TRUE_THAT(compilation == NULL && event == NULL);

    AHardwareBuffer_Desc desc;
    void* bytes = NULL;
    AHardwareBuffer* buffer = NULL;
    TRUE_THAT(AHardwareBuffer_allocate(NULL, &buffer) < 0);
    TRUE_THAT(AHardwareBuffer_isSupported(NULL) == 0);
    AHardwareBuffer_describe(all.buffer, &desc);
    TRUE_THAT(AHardwareBuffer_allocate(&desc, NULL) < 0);
    TRUE_THAT(AHardwareBuffer_lock(all.buffer, 0, -1, NULL, NULL) < 0);
    TRUE_THAT(AHardwareBuffer_lock(NULL, 0, -1, NULL, &bytes) < 0);
    TRUE_THAT(AHardwareBuffer_unlock(NULL, NULL) < 0);
    TRUE_THAT(nnburst_AHardwareBuffer_fromFd(&desc, -1, &buffer) < 0);
    TRUE_THAT(nnburst_AHardwareBuffer_getFd(NULL) < 0);
    AHardwareBuffer_describe(NULL, &desc);
    AHardwareBuffer_describe(all.buffer, NULL);
    AHardwareBuffer_acquire(NULL);
    AHardwareBuffer_release(NULL);
}

int main(void) {
    int fd = memfd_create("handles", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, 64) == 0);
    struct all good = make(fd);
    free_all((struct all){0});
    call_everything(ANEURALNETWORKS_UNEXPECTED_NULL, ANEURALNETWORKS_UNEXPECTED_NULL,
                    (struct all){0}, good);
    nothing_to_read_or_write(good);

    /* Devices are never freed. */
    struct all gone = make(fd);
    free_all(gone);
    gone.device = (const ANeuralNetworksDevice*)gone.model;
    call_everything(ANEURALNETWORKS_BAD_STATE, ANEURALNETWORKS_BAD_DATA, gone, good);
    free_all(gone);

    /* Each handle in the place of another. */
    struct all wrong = {
        .open = (void*)good.burst,
        .model = (void*)good.compilation,
        .unfinished = (void*)good.model,
        .compilation = (void*)good.execution,
        .execution = (void*)good.burst,
        .burst = (void*)good.event,
        .memory = (void*)good.desc,
        .desc = (void*)good.memory,
        .event = (void*)good.buffer,
        .device = (const void*)good.open,
        .buffer = (void*)good.memory,
    };
    call_everything(ANEURALNETWORKS_BAD_STATE, ANEURALNETWORKS_BAD_DATA, wrong, good);
    free_all(wrong);

    /* After all that the good ones are good. */
    float sum[COUNT] = {0};
    OK(ANeuralNetworksExecution_setInput(good.execution, 0, NULL, numbers, sizeof numbers));
    OK(ANeuralNetworksExecution_setInput(good.execution, 1, NULL, numbers, sizeof numbers));
    OK(ANeuralNetworksExecution_setOutput(good.execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_burstCompute(good.execution, good.burst));
    OK(ANeuralNetworksModel_finish(good.open));
    OK(ANeuralNetworksCompilation_finish(good.unfinished));
    OK(ANeuralNetworksEvent_wait(good.event));
    free_all(good);
    close(fd);
    return 0;
}
