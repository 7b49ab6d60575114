/* The vendor extension of a driver in another process. The argument says whether this program is on the list of those
 * that may use extensions. */
#include "check.h"

#include <extensions/FibonacciExtension.h>

enum { NUMBERS = 10 };

static const char* const EXTENSION = EXAMPLE_FIBONACCI_EXTENSION_NAME;
/* Of another driver, with types of the same numbers and sizes. */
static const char* const OTHER = "com.example.other";

struct codes {
    int32_t int64, quant64, fibonacci, unknown;
};

static struct codes codes_of(ANeuralNetworksModel* model) {
    struct codes codes;
    OK(ANeuralNetworksModel_getExtensionOperandType(model, EXTENSION, EXAMPLE_INT64, &codes.int64));
    OK(ANeuralNetworksModel_getExtensionOperandType(model, EXTENSION, EXAMPLE_TENSOR_QUANT64_ASYMM, &codes.quant64));
    OK(ANeuralNetworksModel_getExtensionOperationType(model, EXTENSION, EXAMPLE_FIBONACCI, &codes.fibonacci));
    OK(ANeuralNetworksModel_getExtensionOperandType(model, "com.example.none", 0, &codes.unknown));
    TRUE_THAT(codes.int64 >> 16 != 0 && codes.int64 >> 16 == codes.fibonacci >> 16);
    TRUE_THAT(codes.unknown >> 16 != codes.int64 >> 16);
    return codes;
}

/* For whoever is not on the list: numbers are told, nothing can be done with them. */
static void denied(void) {
    static const uint32_t zero[] = {0}, one[] = {1}, shape[] = {1};
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    struct codes codes = codes_of(model);
    ANeuralNetworksOperandType type = scalar(codes.int64), floats = tensor(shape, 1);
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &type));
    OK(ANeuralNetworksModel_addOperand(model, &floats));
    OK(ANeuralNetworksModel_addOperand(model, &floats));
    BAD_DATA(ANeuralNetworksModel_addOperation(model, codes.fibonacci, 1, zero, 1, one));
    ANeuralNetworksModel_free(model);
}

static ANeuralNetworksModel* fibonacci(const ExampleTensorQuant64AsymmParams* parameters, bool has_wrong_input) {
    static const uint32_t in[] = {0}, out[] = {1}, open[] = {0}, one[] = {1};
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    struct codes codes = codes_of(model);
    ANeuralNetworksOperandType count = scalar(codes.int64), numbers = tensor(open, 1);
    if (has_wrong_input) {
        count = tensor(one, 1);
        count.type = ANEURALNETWORKS_TENSOR_INT32;
    }
    numbers.type = codes.quant64;
    OK(ANeuralNetworksModel_addOperand(model, &count));
    OK(ANeuralNetworksModel_addOperand(model, &numbers));
    BAD_DATA(ANeuralNetworksModel_setOperandExtensionData(model, 1, parameters, 0));
    IS_NULL(ANeuralNetworksModel_setOperandExtensionData(model, 1, NULL, 1));
    BAD_DATA(ANeuralNetworksModel_setOperandExtensionData(model, 2, parameters, sizeof *parameters));
    OK(ANeuralNetworksModel_setOperandExtensionData(model, 1, NULL, 0));
    OK(ANeuralNetworksModel_setOperandExtensionData(model, 1, parameters, sizeof *parameters));
    const float scale = 1;
    const ANeuralNetworksSymmPerChannelQuantParams per_channel = {0, 1, &scale};
    BAD_DATA(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(model, 1, &per_channel));
    OK(ANeuralNetworksModel_addOperation(model, codes.fibonacci, 1, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    return model;
}

static void types(void) {
    static const uint32_t open[] = {3, 0}, shape[] = {1}, huge[] = {65536, 16384};
    const int64_t value[3] = {0};
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    struct codes codes = codes_of(model);
    ANeuralNetworksOperandType type = scalar(codes.unknown);
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &type)); /* no device tells of it */
    type = tensor(shape, 1);
    type.type = codes.int64;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &type)); /* a scalar */
    type.type = codes.quant64;
    type.scale = 1;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &type)); /* quantised in its own way */
    type = tensor(huge, 2);
    type.type = codes.quant64;
    BAD_DATA(ANeuralNetworksModel_addOperand(model, &type));
    type = tensor(open, 2);
    type.type = codes.quant64;
    OK(ANeuralNetworksModel_addOperand(model, &type));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, 0, value, sizeof value));
    type = scalar(codes.quant64);
    OK(ANeuralNetworksModel_addOperand(model, &type));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, 1, value, sizeof value));
    type = scalar(codes.int64);
    OK(ANeuralNetworksModel_addOperand(model, &type));
    BAD_DATA(ANeuralNetworksModel_setOperandValue(model, 2, value, 4));
    OK(ANeuralNetworksModel_setOperandValue(model, 2, value, 8));
    ANeuralNetworksModel_free(model);
}

static void run(const ANeuralNetworksDevice* device, int64_t count, int want) {
    const ExampleTensorQuant64AsymmParams parameters = {0.5, 10};
    ANeuralNetworksModel* model = fibonacci(&parameters, false);
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    int64_t numbers[NUMBERS] = {0};
    uint32_t length = 0;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    BAD_DATA(ANeuralNetworksExecution_setInput(execution, 0, NULL, &count, 4));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, &count, sizeof count));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, numbers, sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_compute(execution));
    if (want == 0) {
        OK(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, &length));
        TRUE_THAT(length == NUMBERS);
        /* A number is (stored - 10) / 2. */
        for (int64_t at = 0, a = 1, b = 1; at < NUMBERS; at++, b += a, a = b - a) {
            TRUE_THAT(numbers[at] == 2 * a + 10);
        }
    }
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

static void refused(const ANeuralNetworksDevice* device, bool has_wrong_input) {
    const ExampleTensorQuant64AsymmParams parameters = {0.5, 10};
    ANeuralNetworksModel* model = fibonacci(&parameters, has_wrong_input);
    ANeuralNetworksCompilation* compilation = NULL;
    bool supported = true;
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, &supported));
    TRUE_THAT(!supported);
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

/* The operation of the one extension with types of another: no device takes it. */
static void refused_types_of_others(const ANeuralNetworksDevice* device) {
    static const uint32_t in[] = {0}, out[] = {1}, open[] = {0};
    const ExampleTensorQuant64AsymmParams parameters = {0.5, 10};
    for (int wrong = 1; wrong < 4; wrong++) {
        ANeuralNetworksModel* model = NULL;
        ANeuralNetworksCompilation* compilation = NULL;
        OK(ANeuralNetworksModel_create(&model));
        struct codes codes = codes_of(model);
        int32_t int64, quant64;
        OK(ANeuralNetworksModel_getExtensionOperandType(model, OTHER, EXAMPLE_INT64, &int64));
        OK(ANeuralNetworksModel_getExtensionOperandType(model, OTHER, EXAMPLE_TENSOR_QUANT64_ASYMM, &quant64));
        ANeuralNetworksOperandType count = scalar(wrong & 1 ? int64 : codes.int64), numbers = tensor(open, 1);
        numbers.type = wrong & 2 ? quant64 : codes.quant64;
        OK(ANeuralNetworksModel_addOperand(model, &count));
        OK(ANeuralNetworksModel_addOperand(model, &numbers));
        OK(ANeuralNetworksModel_setOperandExtensionData(model, 1, &parameters, sizeof parameters));
        OK(ANeuralNetworksModel_addOperation(model, codes.fibonacci, 1, in, 1, out));
        OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
        OK(ANeuralNetworksModel_finish(model));
        bool supported = true;
        OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, &supported));
        TRUE_THAT(!supported);
        OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
        BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
        ANeuralNetworksCompilation_free(compilation);
        OK(ANeuralNetworksCompilation_create(model, &compilation));
        BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
        ANeuralNetworksCompilation_free(compilation);
        ANeuralNetworksModel_free(model);
    }
}

/* The same operation over floats, between sums that the reference device computes. */
static void run_among_others(const ANeuralNetworksDevice* const* both, float count, int want) {
    static const uint32_t one[] = {1}, ten[] = {NUMBERS};
    static const uint32_t before[] = {0, 1, 2}, after[] = {4, 5, 2};
    enum { START, ONE_ZERO, NONE, COUNT_OF, PLAIN, ZEROS, SUM };
    const float zeros[NUMBERS] = {0};
    const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const ANeuralNetworksOperandType single = tensor(one, 1), many = tensor(ten, 1),
                                     activation = scalar(ANEURALNETWORKS_INT32);
    const ANeuralNetworksOperandType* types[] = {&single, &single, &activation, &single, &many, &many, &many};
    ANeuralNetworksModel* model = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksModel_create(&model));
    for (int at = START; at <= SUM; at++) OK(ANeuralNetworksModel_addOperand(model, types[at]));
    OK(ANeuralNetworksModel_setOperandValue(model, ONE_ZERO, zeros, 4));
    OK(ANeuralNetworksModel_setOperandValue(model, NONE, &none, sizeof none));
    OK(ANeuralNetworksModel_setOperandValue(model, ZEROS, zeros, sizeof zeros));
    const uint32_t start[] = {START}, in[] = {COUNT_OF}, plain[] = {PLAIN}, sum[] = {SUM};
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, before, 1, in));
    OK(ANeuralNetworksModel_addOperation(model, codes_of(model).fibonacci, 1, in, 1, plain));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, after, 1, sum));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, start, 1, sum));
    OK(ANeuralNetworksModel_finish(model));
    bool supported[3] = {false};
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, both, 2, supported));
    TRUE_THAT(supported[0] && supported[1] && supported[2]);
    float numbers[NUMBERS] = {0};
    OK(ANeuralNetworksCompilation_createForDevices(model, both, 2, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, &count, sizeof count));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, numbers, sizeof numbers));
    EXPECT(want, ANeuralNetworksExecution_compute(execution));
    if (want == 0) {
        float a = 1, b = 1;
        for (int at = 0; at < NUMBERS; at++, b += a, a = b - a) TRUE_THAT(numbers[at] == a);
    }
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

/* Operations that the extension doesn't have: models are finished with them, and no device takes them. */
static void refused_forms(const ANeuralNetworksDevice* const* both) {
    static const uint32_t one[] = {1};
    static const struct {
        uint32_t inputs, outputs;
        int32_t number, output;
    } cases[] = {{2, 1, 0, ANEURALNETWORKS_TENSOR_FLOAT32},
                 {1, 2, 0, ANEURALNETWORKS_TENSOR_FLOAT32},
                 {1, 1, 1, ANEURALNETWORKS_TENSOR_FLOAT32},
                 {1, 1, 0, ANEURALNETWORKS_TENSOR_INT32}};
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        const uint32_t in[] = {0, 1}, out[] = {cases[at].inputs, cases[at].inputs + 1};
        ANeuralNetworksOperandType type = tensor(one, 1);
        ANeuralNetworksModel* model = NULL;
        ANeuralNetworksCompilation* compilation = NULL;
        bool supported = true;
        OK(ANeuralNetworksModel_create(&model));
        for (uint32_t i = 0; i < cases[at].inputs; i++) OK(ANeuralNetworksModel_addOperand(model, &type));
        type.type = cases[at].output;
        for (uint32_t i = 0; i < cases[at].outputs; i++) OK(ANeuralNetworksModel_addOperand(model, &type));
        const int32_t operation = codes_of(model).fibonacci + cases[at].number;
        OK(ANeuralNetworksModel_addOperation(model, operation, cases[at].inputs, in, cases[at].outputs, out));
        OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, cases[at].inputs, in, cases[at].outputs, out));
        OK(ANeuralNetworksModel_finish(model));
        OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, both, 2, &supported));
        TRUE_THAT(!supported);
        OK(ANeuralNetworksCompilation_createForDevices(model, both, 2, &compilation));
        BAD_DATA(ANeuralNetworksCompilation_finish(compilation));
        ANeuralNetworksCompilation_free(compilation);
        ANeuralNetworksModel_free(model);
    }
}

int main(int count, char** arguments) {
    TRUE_THAT(count == 2);
    const ANeuralNetworksDevice* device = tested();
    const ANeuralNetworksDevice* reference = device_called("nnapi-reference");
    bool is_supported = false;
    OK(ANeuralNetworksDevice_getExtensionSupport(device, EXTENSION, &is_supported));
    TRUE_THAT(is_supported);
    OK(ANeuralNetworksDevice_getExtensionSupport(reference, EXTENSION, &is_supported));
    TRUE_THAT(!is_supported);
    if (strcmp(arguments[1], "denied") == 0) {
        denied();
        return 0;
    }
    types();
    run(device, NUMBERS, 0);
    run(device, 0, ANEURALNETWORKS_OP_FAILED);
    run(device, NUMBERS + 1, ANEURALNETWORKS_OUTPUT_INSUFFICIENT_SIZE);
    refused(device, true);
    refused_types_of_others(device);
    refused(reference, false);
    const ANeuralNetworksDevice* const both[] = {device, reference};
    run_among_others(both, NUMBERS, 0);
    run_among_others(both, -1, ANEURALNETWORKS_OP_FAILED);
    refused_forms(both);
    return 0;
}
