/*
 * The smallest network there is: adds 1 to a vector, on the device that is in every process.
 *
 *     cc add1.c $(pkg-config --cflags --libs neuralnetworks) -o add1
 */
#include <android/NeuralNetworks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 4

static void check(int code, const char* what) {
    if (code != ANEURALNETWORKS_NO_ERROR) {
        fprintf(stderr, "%s: code %d: %s\n", what, code, nnburst_lastError());
        exit(1);
    }
}

#define CHECK(call) check(call, #call)

/* output = input + 1 */
static ANeuralNetworksModel* build(void) {
    static const uint32_t shape[] = {LENGTH};
    static const uint32_t one_shape[] = {1};
    static const float one = 1;
    static const int32_t no_activation = ANEURALNETWORKS_FUSED_NONE;
    const ANeuralNetworksOperandType vector = {
        .type = ANEURALNETWORKS_TENSOR_FLOAT32, .dimensionCount = 1, .dimensions = shape};
    const ANeuralNetworksOperandType constant = {
        .type = ANEURALNETWORKS_TENSOR_FLOAT32, .dimensionCount = 1, .dimensions = one_shape};
    const ANeuralNetworksOperandType activation = {.type = ANEURALNETWORKS_INT32};

    ANeuralNetworksModel* model;
    CHECK(ANeuralNetworksModel_create(&model));
    CHECK(ANeuralNetworksModel_addOperand(model, &vector));     /* 0: input */
    CHECK(ANeuralNetworksModel_addOperand(model, &constant));   /* 1: one */
    CHECK(ANeuralNetworksModel_addOperand(model, &activation)); /* 2: none */
    CHECK(ANeuralNetworksModel_addOperand(model, &vector));     /* 3: output */
    CHECK(ANeuralNetworksModel_setOperandValue(model, 1, &one, sizeof one));
    CHECK(ANeuralNetworksModel_setOperandValue(model, 2, &no_activation, sizeof no_activation));
    const uint32_t arguments[] = {0, 1, 2};
    const uint32_t results[] = {3};
    CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, arguments, 1, results));
    CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, arguments, 1, results));
    CHECK(ANeuralNetworksModel_finish(model));
    return model;
}

static const ANeuralNetworksDevice* find(const char* wanted) {
    uint32_t count;
    CHECK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t index = 0; index < count; index++) {
        ANeuralNetworksDevice* device;
        const char* name;
        CHECK(ANeuralNetworks_getDevice(index, &device));
        CHECK(ANeuralNetworksDevice_getName(device, &name));
        if (strcmp(name, wanted) == 0) return device;
    }
    fprintf(stderr, "no device is called %s\n", wanted);
    exit(1);
}

int main(int argc, char** argv) {
    const ANeuralNetworksDevice* device = find(argc > 1 ? argv[1] : "nnapi-reference");
    ANeuralNetworksModel* model = build();
    ANeuralNetworksCompilation* compilation;
    ANeuralNetworksBurst* burst;
    CHECK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    CHECK(ANeuralNetworksCompilation_finish(compilation));
    CHECK(ANeuralNetworksBurst_create(compilation, &burst));

    for (int frame = 0; frame < 3; frame++) {
        const float input[LENGTH] = {frame, frame + 1, frame + 2, frame + 3};
        float output[LENGTH];
        ANeuralNetworksExecution* execution;
        CHECK(ANeuralNetworksExecution_create(compilation, &execution));
        CHECK(ANeuralNetworksExecution_setInput(execution, 0, NULL, input, sizeof input));
        CHECK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, output, sizeof output));
        CHECK(ANeuralNetworksExecution_burstCompute(execution, burst));
        ANeuralNetworksExecution_free(execution);
        for (int at = 0; at < LENGTH; at++) {
            if (output[at] != input[at] + 1) {
                fprintf(stderr, "%g + 1 = %g\n", input[at], output[at]);
                return 1;
            }
        }
        printf("%g %g %g %g\n", output[0], output[1], output[2], output[3]);
    }

    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    return 0;
}
