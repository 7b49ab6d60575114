/* Executions that their drivers fail, with arguments in the drivers' own memory: the reference device stands in. What is
 * served is a driver that takes all operations and fails every execution. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

enum way { SYNC, ASYNC, FENCED, BURST, WAYS };

static const uint32_t shape[] = {COUNT}, open_shape[] = {0};

/* (a + b) * c, with all of them in `shape`, or of no known shape. */
static ANeuralNetworksModel* sum_times(const uint32_t* extents) {
    static const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    static const uint32_t add[] = {0, 1, 3}, sum[] = {4}, mul[] = {4, 2, 3}, product[] = {5}, given[] = {0, 1, 2};
    const ANeuralNetworksOperandType floats = tensor(extents, 1), settled = tensor(shape, 1);
    const ANeuralNetworksOperandType code = scalar(ANEURALNETWORKS_INT32);
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    for (int at = 0; at < 3; at++) OK(ANeuralNetworksModel_addOperand(model, &floats));
    OK(ANeuralNetworksModel_addOperand(model, &code));
    OK(ANeuralNetworksModel_addOperand(model, &settled));
    OK(ANeuralNetworksModel_addOperand(model, &floats));
    OK(ANeuralNetworksModel_setOperandValue(model, 3, &none, sizeof none));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add, 1, sum));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_MUL, 3, mul, 1, product));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 3, given, 1, product));
    OK(ANeuralNetworksModel_finish(model));
    return model;
}

struct file {
    int fd;
    ANeuralNetworksMemory* memory;
};

static struct file file_of(const float* numbers) {
    struct file made = {memfd_create("file", 0), NULL};
    TRUE_THAT(made.fd > 0 && pwrite(made.fd, numbers, COUNT * sizeof *numbers, 0) == COUNT * sizeof *numbers);
    OK(ANeuralNetworksMemory_createFromFd(COUNT * sizeof *numbers, PROT_READ | PROT_WRITE, made.fd, 0, &made.memory));
    return made;
}

static void drop(struct file file) {
    ANeuralNetworksMemory_free(file.memory);
    close(file.fd);
}

/* A memory of the driver's own for an input, an output, or both. */
static ANeuralNetworksMemory* own(ANeuralNetworksCompilation* compilation, int input, bool output, bool dimensions) {
    ANeuralNetworksMemoryDesc* desc = NULL;
    ANeuralNetworksMemory* memory = NULL;
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    if (input >= 0) OK(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, (uint32_t)input, 1.0f));
    if (output) OK(ANeuralNetworksMemoryDesc_addOutputRole(desc, compilation, 0, 1.0f));
    if (dimensions) OK(ANeuralNetworksMemoryDesc_setDimensions(desc, 1, shape));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    ANeuralNetworksMemoryDesc_free(desc);
    return memory;
}

static const float ones[COUNT] = {1, 1, 1, 1}, tens[COUNT] = {10, 20, 30, 40};

/* (a + 1) * c in a memory or a buffer; a are the tens and c is 1 where they are in no memory. */
static void run(ANeuralNetworksCompilation* compilation, enum way way, ANeuralNetworksMemory* a,
                ANeuralNetworksMemory* c, ANeuralNetworksMemory* product, float* numbers, bool is_open) {
    const ANeuralNetworksOperandType settled = tensor(shape, 1), *type = is_open ? &settled : NULL;
    const size_t bytes = COUNT * sizeof(float);
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    if (a) {
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, type, a, 0, 0));
    } else {
        OK(ANeuralNetworksExecution_setInput(execution, 0, type, tens, bytes));
    }
    OK(ANeuralNetworksExecution_setInput(execution, 1, type, ones, bytes));
    if (c) {
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 2, type, c, 0, 0));
    } else {
        OK(ANeuralNetworksExecution_setInput(execution, 2, type, ones, bytes));
    }
    if (product) {
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, product, 0, 0));
    } else {
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, numbers, bytes));
    }
    switch (way) {
        case SYNC: OK(ANeuralNetworksExecution_compute(execution)); break;
        case ASYNC: OK(ANeuralNetworksExecution_startCompute(execution, &event)); break;
        case FENCED: OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event)); break;
        default:
            OK(ANeuralNetworksBurst_create(compilation, &burst));
            OK(ANeuralNetworksExecution_burstCompute(execution, burst));
    }
    if (event) OK(ANeuralNetworksEvent_wait(event));
    uint32_t extent = 0;
    OK(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, &extent));
    TRUE_THAT(extent == COUNT);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksExecution_free(execution);
}

/* A memory of open shape is filled by executions alone, and fenced ones take outputs of known shape. */
static void all_ways(bool is_open, bool dimensions) {
    ANeuralNetworksModel* model = sum_times(is_open ? open_shape : shape);
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksCompilation_create(model, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    for (enum way way = SYNC; way < WAYS; way++) {
        if (is_open && way == FENCED) continue;
        float numbers[COUNT] = {0};
        struct file from = file_of(tens), to = file_of(numbers), unit = file_of(ones);
        ANeuralNetworksMemory *a = NULL, *c = own(compilation, 2, true, dimensions);
        ANeuralNetworksMemory* product = own(compilation, 2, true, dimensions);
        if (is_open && !dimensions) {
            run(compilation, way, NULL, NULL, product, NULL, is_open);
        } else {
            a = own(compilation, 0, false, dimensions);
            OK(ANeuralNetworksMemory_copy(from.memory, a));
            OK(ANeuralNetworksMemory_copy(unit.memory, c));
            run(compilation, way, a, c, product, NULL, is_open);
        }
        OK(ANeuralNetworksMemory_copy(product, to.memory));
        TRUE_THAT(pread(to.fd, numbers, sizeof numbers, 0) == sizeof numbers);
        for (int at = 0; at < COUNT; at++) TRUE_THAT(numbers[at] == tens[at] + 1);
        run(compilation, way, a, product, c, NULL, is_open);
        run(compilation, way, a, c, NULL, numbers, is_open);
        for (int at = 0; at < COUNT; at++) {
            const float sum = tens[at] + 1;
            TRUE_THAT(numbers[at] == sum * sum * sum);
        }
        ANeuralNetworksMemory_free(a);
        ANeuralNetworksMemory_free(c);
        ANeuralNetworksMemory_free(product);
        drop(from);
        drop(to);
        drop(unit);
    }
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

int main(void) {
    all_ways(false, false);
    all_ways(true, true);
    all_ways(true, false);
    return 0;
}
