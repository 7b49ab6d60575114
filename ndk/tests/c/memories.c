/* Memories: files at odd offsets, hardware buffers, descriptors and copies. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

static const float a[COUNT] = {1, 2, 3, 4};

static void from_fd(void) {
    ANeuralNetworksMemory* memory = NULL;
    int fd = memfd_create("file", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, 100) == 0);
    IS_NULL(ANeuralNetworksMemory_createFromFd(10, PROT_READ, fd, 0, NULL));
    BAD_DATA(ANeuralNetworksMemory_createFromFd(0, PROT_READ, fd, 0, &memory));
    BAD_DATA(ANeuralNetworksMemory_createFromFd(10, PROT_READ, -1, 0, &memory));
    BAD_DATA(ANeuralNetworksMemory_createFromFd(101, PROT_READ, fd, 0, &memory));
    IS_NULL(ANeuralNetworksMemory_createFromFd(10, PROT_READ, 987654, 0, &memory));
    TRUE_THAT(memory == NULL);
    /* A model file: weights at an odd offset, read-only; gone as soon as the model is finished. */
    TRUE_THAT(pwrite(fd, a, sizeof a, 7) == sizeof a);
    OK(ANeuralNetworksMemory_createFromFd(40, PROT_READ, fd, 3, &memory));
    const uint32_t shape[] = {COUNT}, in[] = {0, 1, 2}, out[] = {3};
    const int32_t none = 0;
    ANeuralNetworksOperandType type = tensor(shape, 1), activation = scalar(ANEURALNETWORKS_INT32);
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &activation));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    BAD_DATA(ANeuralNetworksModel_setOperandValueFromMemory(model, 1, memory, 4, 15));
    BAD_DATA(ANeuralNetworksModel_setOperandValueFromMemory(model, 1, memory, 25, 16));
    OK(ANeuralNetworksModel_setOperandValueFromMemory(model, 1, memory, 4, 16));
    OK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    ANeuralNetworksMemory_free(memory);
    ANeuralNetworksMemory_free(memory);
    close(fd);
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksExecution* execution = NULL;
    float sum[COUNT] = {0};
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_compute(execution));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 2 * a[at]);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void from_hardware_buffer(void) {
    AHardwareBuffer_Desc desc = {.width = 64,
                                 .height = 1,
                                 .layers = 1,
                                 .format = AHARDWAREBUFFER_FORMAT_BLOB,
                                 .usage = AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN};
    AHardwareBuffer_Desc told;
    AHardwareBuffer *buffer = NULL, *same = NULL;
    TRUE_THAT(AHardwareBuffer_isSupported(&desc) == 1);
    TRUE_THAT(AHardwareBuffer_allocate(&desc, &buffer) == 0);
    AHardwareBuffer_describe(buffer, &told);
    TRUE_THAT(told.width == 64 && told.format == AHARDWAREBUFFER_FORMAT_BLOB);
    void* bytes = NULL;
    TRUE_THAT(AHardwareBuffer_lock(buffer, desc.usage, -1, NULL, &bytes) == 0);
    memcpy(bytes, a, sizeof a);
    TRUE_THAT(AHardwareBuffer_unlock(buffer, NULL) == 0);
    int fd = nnburst_AHardwareBuffer_getFd(buffer);
    TRUE_THAT(fd >= 0);
    TRUE_THAT(nnburst_AHardwareBuffer_fromFd(&desc, fd, &same) == 0);
    close(fd);

    ANeuralNetworksMemory* memory = NULL;
    IS_NULL(ANeuralNetworksMemory_createFromAHardwareBuffer(NULL, &memory));
    OK(ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &memory));
    AHardwareBuffer_acquire(buffer);
    AHardwareBuffer_release(buffer);
    AHardwareBuffer_release(buffer);
    AHardwareBuffer_release(buffer);
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 60, 16));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 16));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 32, 16));
    OK(ANeuralNetworksExecution_compute(execution));
    TRUE_THAT(AHardwareBuffer_lock(same, desc.usage, -1, NULL, &bytes) == 0);
    for (int at = 0; at < COUNT; at++) TRUE_THAT(((float*)bytes)[8 + at] == 2 * a[at]);
    TRUE_THAT(AHardwareBuffer_unlock(same, NULL) == 0);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksMemory_free(memory);
    AHardwareBuffer_release(same);

    desc.format = AHARDWAREBUFFER_FORMAT_R8G8B8A8_UNORM;
    desc.height = 4;
    TRUE_THAT(AHardwareBuffer_allocate(&desc, &buffer) == 0);
    OK(ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &memory));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 16));
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksMemory_free(memory);
    AHardwareBuffer_release(buffer);
    desc.format = 12345;
    TRUE_THAT(AHardwareBuffer_allocate(&desc, &buffer) < 0);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void from_descriptor(void) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation *compilation = compile(model), *open = NULL;
    ANeuralNetworksMemoryDesc* desc = NULL;
    ANeuralNetworksMemory *memory = NULL, *plain = NULL;
    const uint32_t shape[] = {COUNT}, other[] = {COUNT + 1};
    IS_NULL(ANeuralNetworksMemoryDesc_create(NULL));
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    BAD_DATA(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksCompilation_create(model, &open));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, open, 0, 1.0f));
    IS_NULL(ANeuralNetworksMemoryDesc_addInputRole(desc, NULL, 0, 1.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 2, 1.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 0.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.5f));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 0.5f));
    OK(ANeuralNetworksMemoryDesc_addOutputRole(desc, compilation, 0, 1.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, other));
    IS_NULL(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, NULL));
    OK(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, shape));
    BAD_STATE(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    BAD_STATE(ANeuralNetworksMemoryDesc_finish(desc));
    BAD_STATE(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, shape));
    BAD_STATE(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 1, 1.0f));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    ANeuralNetworksMemoryDesc_free(desc);

    int fd = memfd_create("plain", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, sizeof a) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof a, PROT_READ | PROT_WRITE, fd, 0, &plain));
    BAD_DATA(ANeuralNetworksMemory_copy(memory, plain));
    OK(ANeuralNetworksMemory_copy(memory, memory));
    IS_NULL(ANeuralNetworksMemory_copy(NULL, plain));
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, memory, 0, 0));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 16));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 0));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, a, sizeof a));
    float sum[COUNT] = {0};
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    EXPECT(ANEURALNETWORKS_OP_FAILED, ANeuralNetworksExecution_compute(execution));
    TRUE_THAT(pwrite(fd, a, sizeof a, 0) == sizeof a);
    OK(ANeuralNetworksMemory_copy(plain, memory));
    OK(ANeuralNetworksExecution_compute(execution));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 2 * a[at]);
    ANeuralNetworksExecution_free(execution);

    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, 0));
    OK(ANeuralNetworksExecution_compute(execution));
    OK(ANeuralNetworksMemory_copy(memory, plain));
    TRUE_THAT(pread(fd, sum, sizeof sum, 0) == sizeof sum);
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 3 * a[at]);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksMemory_free(plain);
    ANeuralNetworksMemory_free(memory);
    close(fd);
    ANeuralNetworksCompilation_free(open);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

int main(void) {
    from_fd();
    from_hardware_buffer();
    from_descriptor();
    return 0;
}
