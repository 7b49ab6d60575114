/* What the C tests of this crate share. */
#ifndef CHECK_H
#define CHECK_H

#include <NeuralNetworks.h>
#include <NeuralNetworksExtensions.h>
#include <NeuralNetworksOEM.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The call answers this code, and where that is an error, says why. */
#define EXPECT(want, call)                                                                        \
    do {                                                                                          \
        int got_ = (call);                                                                        \
        if (got_ != (want)) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %d, not %d: %s\n", __FILE__, __LINE__, #call, got_, want, \
                    nnburst_lastError());                                                         \
            exit(1);                                                                              \
        }                                                                                         \
        if (got_ != 0 && nnburst_lastError()[0] == 0) {                                           \
            fprintf(stderr, "%s:%d: %s: no reason\n", __FILE__, __LINE__, #call);                 \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define OK(call) EXPECT(ANEURALNETWORKS_NO_ERROR, call)
#define IS_NULL(call) EXPECT(ANEURALNETWORKS_UNEXPECTED_NULL, call)
#define BAD_DATA(call) EXPECT(ANEURALNETWORKS_BAD_DATA, call)
#define BAD_STATE(call) EXPECT(ANEURALNETWORKS_BAD_STATE, call)

#define TRUE_THAT(what)                                                \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

#define COUNT 4

static inline ANeuralNetworksOperandType tensor(const uint32_t* shape, uint32_t rank) {
    ANeuralNetworksOperandType type;
    memset(&type, 0, sizeof type);
    type.type = ANEURALNETWORKS_TENSOR_FLOAT32;
    type.dimensionCount = rank;
    type.dimensions = rank ? shape : NULL;
    return type;
}

static inline ANeuralNetworksOperandType scalar(int32_t code) {
    ANeuralNetworksOperandType type;
    memset(&type, 0, sizeof type);
    type.type = code;
    return type;
}

/* A sum of two tensors of this shape, not finished. */
static inline ANeuralNetworksModel* begin_add(const uint32_t* shape, uint32_t rank) {
    static const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    static const uint32_t in[] = {0, 1, 2}, out[] = {3};
    const ANeuralNetworksOperandType type = tensor(shape, rank);
    const ANeuralNetworksOperandType activation = scalar(ANEURALNETWORKS_INT32);
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &activation));
    OK(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, in, 1, out));
    return model;
}

static inline ANeuralNetworksModel* add_model(void) {
    static const uint32_t shape[] = {COUNT};
    ANeuralNetworksModel* model = begin_add(shape, 1);
    OK(ANeuralNetworksModel_finish(model));
    return model;
}

/* The device of this name, or NULL. */
static inline ANeuralNetworksDevice* device_called(const char* wanted) {
    uint32_t count = 0;
    OK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t index = 0; index < count; index++) {
        ANeuralNetworksDevice* device = NULL;
        const char* name = NULL;
        OK(ANeuralNetworks_getDevice(index, &device));
        OK(ANeuralNetworksDevice_getName(device, &name));
        if (strcmp(name, wanted) == 0) return device;
    }
    return NULL;
}

/* The device that the tests are about: nnapi-reference, or the one that the environment names. */
static inline const ANeuralNetworksDevice* tested(void) {
    const char* name = getenv("NNBURST_TEST_DEVICE");
    const ANeuralNetworksDevice* device = device_called(name ? name : "nnapi-reference");
    TRUE_THAT(device != NULL);
    return device;
}

static inline ANeuralNetworksCompilation* compile(ANeuralNetworksModel* model) {
    const ANeuralNetworksDevice* device = tested();
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    return compilation;
}

#endif
