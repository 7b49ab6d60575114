/* Memories with roles: which roles go together, what may be asked of such a memory, and when it holds a value. */
#define _GNU_SOURCE
#include "check.h"

#include <android/hardware_buffer.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint32_t one[] = {1}, two[] = {2}, three[] = {3}, two_by_one[] = {2, 1}, open_extent[] = {0};

struct compiled {
    ANeuralNetworksModel* model;
    ANeuralNetworksCompilation* compilation;
};

/* The sum of two inputs of a type; inputs 0 and 1, and 2, which is the scalar of the activation. */
static struct compiled sum_of(const ANeuralNetworksOperandType* type) {
    static const uint32_t in[] = {0, 1, 2}, out[] = {3};
    const ANeuralNetworksOperandType activation = scalar(ANEURALNETWORKS_INT32);
    struct compiled made = {NULL, NULL};
    OK(ANeuralNetworksModel_create(&made.model));
    OK(ANeuralNetworksModel_addOperand(made.model, type));
    OK(ANeuralNetworksModel_addOperand(made.model, type));
    OK(ANeuralNetworksModel_addOperand(made.model, &activation));
    OK(ANeuralNetworksModel_addOperand(made.model, type));
    OK(ANeuralNetworksModel_addOperation(made.model, ANEURALNETWORKS_ADD, 3, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(made.model, 3, in, 1, out));
    OK(ANeuralNetworksModel_finish(made.model));
    OK(ANeuralNetworksCompilation_create(made.model, &made.compilation));
    OK(ANeuralNetworksCompilation_finish(made.compilation));
    return made;
}

/* One input plus nought, in one dimension. With a wrong activation every execution fails, and nothing before that. */
static struct compiled copy_of(const uint32_t* extent, int32_t activation) {
    static const uint32_t in[] = {0, 1, 2}, out[] = {3};
    static const float nought = 0;
    const ANeuralNetworksOperandType type = tensor(extent, 1), constant = tensor(one, 1);
    const ANeuralNetworksOperandType code = scalar(ANEURALNETWORKS_INT32);
    struct compiled made = {NULL, NULL};
    OK(ANeuralNetworksModel_create(&made.model));
    OK(ANeuralNetworksModel_addOperand(made.model, &type));
    OK(ANeuralNetworksModel_addOperand(made.model, &constant));
    OK(ANeuralNetworksModel_addOperand(made.model, &code));
    OK(ANeuralNetworksModel_addOperand(made.model, &type));
    OK(ANeuralNetworksModel_setOperandValue(made.model, 1, &nought, sizeof nought));
    OK(ANeuralNetworksModel_setOperandValue(made.model, 2, &activation, sizeof activation));
    OK(ANeuralNetworksModel_addOperation(made.model, ANEURALNETWORKS_ADD, 3, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(made.model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(made.model));
    OK(ANeuralNetworksCompilation_create(made.model, &made.compilation));
    OK(ANeuralNetworksCompilation_finish(made.compilation));
    return made;
}

static void drop(struct compiled it) {
    ANeuralNetworksCompilation_free(it.compilation);
    ANeuralNetworksModel_free(it.model);
}

typedef int add_role(ANeuralNetworksMemoryDesc*, const ANeuralNetworksCompilation*, uint32_t, float);

static void roles_of_other_types(ANeuralNetworksOperandType type, ANeuralNetworksOperandType other) {
    add_role* const add[] = {ANeuralNetworksMemoryDesc_addInputRole,
                             ANeuralNetworksMemoryDesc_addOutputRole};
    struct compiled first = sum_of(&type), second = sum_of(&other);
    for (int direction = 0; direction < 2; direction++) {
        ANeuralNetworksMemoryDesc* desc = NULL;
        OK(ANeuralNetworksMemoryDesc_create(&desc));
        OK(add[direction](desc, first.compilation, 0, 1.0f));
        BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, second.compilation, 0, 1.0f));
        BAD_DATA(ANeuralNetworksMemoryDesc_addOutputRole(desc, second.compilation, 0, 1.0f));
        OK(ANeuralNetworksMemoryDesc_addInputRole(desc, first.compilation, 1, 1.0f));
        OK(ANeuralNetworksMemoryDesc_finish(desc));
        ANeuralNetworksMemoryDesc_free(desc);
    }
    drop(first);
    drop(second);
}

static void roles(void) {
    ANeuralNetworksOperandType floats = tensor(two, 1), halves = floats, bytes = floats, other;
    halves.type = ANEURALNETWORKS_TENSOR_FLOAT16;
    bytes.type = ANEURALNETWORKS_TENSOR_QUANT8_ASYMM;
    bytes.scale = 1.0f;
    roles_of_other_types(floats, halves);
    other = bytes;
    other.scale = 0.5f;
    roles_of_other_types(bytes, other);
    other = bytes;
    other.zeroPoint = 128;
    roles_of_other_types(bytes, other);
    other = bytes;
    other.dimensions = one;
    roles_of_other_types(bytes, other);
    other.dimensions = two_by_one;
    other.dimensionCount = 2;
    roles_of_other_types(bytes, other);
}

/* A convolution whose filter comes in with these scales per channel; input 1. */
static struct compiled convolution_of(const float* scales) {
    static const uint32_t picture[] = {1, 4, 4, 2}, window[] = {2, 3, 3, 2}, in[] = {0, 1, 2, 3, 4, 5, 6}, out[] = {7};
    const ANeuralNetworksSymmPerChannelQuantParams per_channel = {0, 2, scales};
    const ANeuralNetworksOperandType code = scalar(ANEURALNETWORKS_INT32);
    ANeuralNetworksOperandType bytes = tensor(picture, 4), filter = tensor(window, 4), bias = tensor(two, 1);
    bytes.type = ANEURALNETWORKS_TENSOR_QUANT8_ASYMM;
    bytes.scale = 1.0f;
    filter.type = ANEURALNETWORKS_TENSOR_QUANT8_SYMM_PER_CHANNEL;
    bias.type = ANEURALNETWORKS_TENSOR_INT32;
    const ANeuralNetworksOperandType* types[] = {&bytes, &filter, &bias, &code, &code, &code, &code, &bytes};
    struct compiled made = {NULL, NULL};
    OK(ANeuralNetworksModel_create(&made.model));
    for (int at = 0; at < 8; at++) OK(ANeuralNetworksModel_addOperand(made.model, types[at]));
    OK(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(made.model, 1, &per_channel));
    OK(ANeuralNetworksModel_addOperation(made.model, ANEURALNETWORKS_CONV_2D, 7, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(made.model, 7, in, 1, out));
    OK(ANeuralNetworksModel_finish(made.model));
    OK(ANeuralNetworksCompilation_create(made.model, &made.compilation));
    OK(ANeuralNetworksCompilation_finish(made.compilation));
    return made;
}

static void roles_of_other_scales(void) {
    const float ones[] = {1, 1}, halves[] = {0.5f, 0.5f};
    struct compiled first = convolution_of(ones), same = convolution_of(ones), other = convolution_of(halves);
    ANeuralNetworksMemoryDesc* desc = NULL;
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, first.compilation, 1, 1.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, other.compilation, 1, 1.0f));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, same.compilation, 1, 1.0f));
    ANeuralNetworksMemoryDesc_free(desc);
    drop(first);
    drop(same);
    drop(other);
}

static void shapes_of_descriptors(void) {
    const ANeuralNetworksOperandType type = tensor(two, 1);
    struct compiled sum = sum_of(&type);
    ANeuralNetworksMemoryDesc* desc = NULL;
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, two));
    BAD_DATA(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, three));
    BAD_DATA(ANeuralNetworksMemoryDesc_setDimensions(desc, 2, two_by_one));
    /* Input 2 is a scalar. */
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, sum.compilation, 2, 1.0f));
    ANeuralNetworksMemoryDesc_free(desc);

    OK(ANeuralNetworksMemoryDesc_create(&desc));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, sum.compilation, 0, 10.0f));
    BAD_DATA(ANeuralNetworksMemoryDesc_addInputRole(desc, sum.compilation, 0, -1.0f));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, sum.compilation, 2, 1.0f));
    OK(ANeuralNetworksMemoryDesc_setDimensions(desc, 0, NULL));
    BAD_DATA(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, two));
    ANeuralNetworksMemoryDesc_free(desc);
    drop(sum);
}

static ANeuralNetworksMemory* file(size_t size, int* fd) {
    ANeuralNetworksMemory* memory = NULL;
    *fd = memfd_create("file", 0);
    TRUE_THAT(*fd > 0 && ftruncate(*fd, (off_t)size) == 0);
    OK(ANeuralNetworksMemory_createFromFd(size, PROT_READ | PROT_WRITE, *fd, 0, &memory));
    return memory;
}

static void copies(void) {
    const ANeuralNetworksOperandType type = tensor(two, 1);
    struct compiled sum = sum_of(&type);
    int fds[3];
    ANeuralNetworksMemory* good = file(8, &fds[0]);
    ANeuralNetworksMemory *bad[] = {file(4, &fds[1]), file(16, &fds[2])}, *device[2], *image = NULL;
    ANeuralNetworksMemoryDesc* desc = NULL;
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, sum.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &device[0]));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &device[1]));
    ANeuralNetworksMemoryDesc_free(desc);

    BAD_DATA(ANeuralNetworksMemory_copy(device[0], good));
    BAD_DATA(ANeuralNetworksMemory_copy(device[0], device[1]));
    for (int at = 0; at < 2; at++) {
        BAD_DATA(ANeuralNetworksMemory_copy(good, bad[at]));
        BAD_DATA(ANeuralNetworksMemory_copy(bad[at], good));
        OK(ANeuralNetworksMemory_copy(good, device[0]));
        BAD_DATA(ANeuralNetworksMemory_copy(device[0], bad[at]));
        OK(ANeuralNetworksMemory_copy(device[0], good));
        /* A copy that failed leaves nothing behind. */
        BAD_DATA(ANeuralNetworksMemory_copy(bad[at], device[0]));
        BAD_DATA(ANeuralNetworksMemory_copy(device[0], good));
    }
    const float numbers[] = {3, 4};
    float seen[2] = {0};
    TRUE_THAT(pwrite(fds[0], numbers, sizeof numbers, 0) == sizeof numbers);
    OK(ANeuralNetworksMemory_copy(good, device[0]));
    OK(ANeuralNetworksMemory_copy(device[0], device[1]));
    TRUE_THAT(pwrite(fds[0], seen, sizeof seen, 0) == sizeof seen);
    OK(ANeuralNetworksMemory_copy(device[1], good));
    TRUE_THAT(pread(fds[0], seen, sizeof seen, 0) == sizeof seen);
    TRUE_THAT(seen[0] == 3 && seen[1] == 4);

    const AHardwareBuffer_Desc format = {
        .width = 2, .height = 1, .layers = 1, .format = AHARDWAREBUFFER_FORMAT_R8G8B8A8_UNORM};
    AHardwareBuffer* buffer = NULL;
    TRUE_THAT(AHardwareBuffer_allocate(&format, &buffer) == 0);
    OK(ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &image));
    EXPECT(ANEURALNETWORKS_UNMAPPABLE, ANeuralNetworksMemory_copy(image, good));
    EXPECT(ANEURALNETWORKS_UNMAPPABLE, ANeuralNetworksMemory_copy(good, image));
    ANeuralNetworksMemory_free(image);
    AHardwareBuffer_release(buffer);
    for (int at = 0; at < 2; at++) ANeuralNetworksMemory_free(device[at]);
    for (int at = 0; at < 2; at++) ANeuralNetworksMemory_free(bad[at]);
    ANeuralNetworksMemory_free(good);
    for (int at = 0; at < 3; at++) close(fds[at]);
    drop(sum);
}

static void run(int want, struct compiled it, ANeuralNetworksMemory* input,
                ANeuralNetworksMemory* output) {
    ANeuralNetworksExecution* execution = NULL;
    float number = 0;
    OK(ANeuralNetworksExecution_create(it.compilation, &execution));
    if (input) {
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, input, 0, 0));
    } else {
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, &number, sizeof number));
    }
    if (output) {
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, output, 0, 0));
    } else {
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, &number, sizeof number));
    }
    EXPECT(want, ANeuralNetworksExecution_compute(execution));
    ANeuralNetworksExecution_free(execution);
}

static void values(void) {
    struct compiled reads = copy_of(one, ANEURALNETWORKS_FUSED_NONE);
    struct compiled writes = copy_of(one, ANEURALNETWORKS_FUSED_NONE);
    struct compiled spoils = copy_of(one, 999), open = copy_of(open_extent, ANEURALNETWORKS_FUSED_NONE);
    ANeuralNetworksMemoryDesc* desc = NULL;
    ANeuralNetworksMemory* memory = NULL;
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, reads.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_addOutputRole(desc, writes.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_addOutputRole(desc, spoils.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, open.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_addOutputRole(desc, open.compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    ANeuralNetworksMemoryDesc_free(desc);
    run(ANEURALNETWORKS_OP_FAILED, reads, memory, NULL);
    run(0, writes, NULL, memory);
    run(0, reads, memory, NULL);
    run(ANEURALNETWORKS_OP_FAILED, spoils, NULL, memory);
    run(ANEURALNETWORKS_OP_FAILED, reads, memory, NULL);

    OK(ANeuralNetworksExecution_create(reads.compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 1, 0));
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, memory, 0, 4));
    BAD_DATA(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, 0));
    ANeuralNetworksExecution_free(execution);
    OK(ANeuralNetworksExecution_create(open.compilation, &execution));
    const ANeuralNetworksOperandType good = tensor(one, 1), bad = tensor(two, 1);
    BAD_DATA(ANeuralNetworksExecution_setInputFromMemory(execution, 0, &bad, memory, 0, 0));
    BAD_DATA(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, &bad, memory, 0, 0));
    OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, &good, memory, 0, 0));
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksMemory_free(memory);
    drop(reads);
    drop(writes);
    drop(spoils);
    drop(open);
}

int main(void) {
    roles();
    roles_of_other_scales();
    shapes_of_descriptors();
    copies();
    values();
    return 0;
}
