/* The OEM operation of a driver in another process: bytes in reverse, each plus the first byte of a scalar. */
#include "check.h"

enum { BYTES = 4 };

static ANeuralNetworksModel* reversing(bool has_wrong_type) {
    static const uint32_t shape[] = {BYTES}, in[] = {0, 1}, out[] = {2}, given[] = {0};
    /* As long as its driver wants it. */
    static const uint8_t added[] = {100, 0, 0};
    ANeuralNetworksOperandType bytes = tensor(shape, 1);
    const ANeuralNetworksOperandType own = scalar(ANEURALNETWORKS_OEM_SCALAR);
    ANeuralNetworksModel* model = NULL;
    bytes.type = has_wrong_type ? ANEURALNETWORKS_TENSOR_FLOAT32 : ANEURALNETWORKS_TENSOR_OEM_BYTE;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &bytes));
    OK(ANeuralNetworksModel_addOperand(model, &own));
    OK(ANeuralNetworksModel_addOperand(model, &bytes));
    OK(ANeuralNetworksModel_setOperandValue(model, 1, added, sizeof added));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_OEM_OPERATION, 2, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, given, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    return model;
}

static void run(ANeuralNetworksCompilation* compilation) {
    static const uint8_t input[BYTES] = {1, 2, 3, 4};
    for (int way = 0; way < 4; way++) {
        uint8_t output[BYTES] = {0};
        ANeuralNetworksExecution* execution = NULL;
        ANeuralNetworksEvent* event = NULL;
        ANeuralNetworksBurst* burst = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, input, sizeof input));
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, output, sizeof output));
        switch (way) {
            case 0: OK(ANeuralNetworksExecution_compute(execution)); break;
            case 1: OK(ANeuralNetworksExecution_startCompute(execution, &event)); break;
            case 2:
                OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
                break;
            default:
                OK(ANeuralNetworksBurst_create(compilation, &burst));
                OK(ANeuralNetworksExecution_burstCompute(execution, burst));
        }
        if (event) OK(ANeuralNetworksEvent_wait(event));
        for (int at = 0; at < BYTES; at++) TRUE_THAT(output[at] == 100 + input[BYTES - 1 - at]);
        ANeuralNetworksEvent_free(event);
        ANeuralNetworksBurst_free(burst);
        ANeuralNetworksExecution_free(execution);
    }
}

int main(void) {
    const ANeuralNetworksDevice *device = tested(), *reference = device_called("nnapi-reference");
    ANeuralNetworksModel *good = reversing(false), *bad = reversing(true);
    ANeuralNetworksCompilation* compilation = NULL;
    bool supported = false;
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(good, &device, 1, &supported));
    TRUE_THAT(supported);
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(good, &reference, 1, &supported));
    TRUE_THAT(!supported);

    /* On the device that is named, and where none is. */
    OK(ANeuralNetworksCompilation_createForDevices(good, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    run(compilation);
    ANeuralNetworksCompilation_free(compilation);
    OK(ANeuralNetworksCompilation_create(good, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    run(compilation);
    ANeuralNetworksCompilation_free(compilation);

    /* The reference device takes none, and stands in for nobody who fails. */
    OK(ANeuralNetworksCompilation_createForDevices(good, &reference, 1, &compilation));
    BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksCompilation_free(compilation);
    OK(ANeuralNetworksCompilation_create(bad, &compilation));
    BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(good);
    ANeuralNetworksModel_free(bad);
    return 0;
}
