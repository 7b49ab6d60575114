/*
 * The vendor extension com.example.fibonacci of the driver nnapi-sample_fibonacci: the example of the driver guide, and
 * the pattern for headers of other extensions. Each has a header of its own in this directory: its name, the numbers of
 * its operand types and of its operations, and what operands carry for the driver.
 *
 * The numbers count within the extension. ANeuralNetworksModel_getExtensionOperandType and
 * ANeuralNetworksModel_getExtensionOperationType (NeuralNetworksExtensions.h) give what stands for them in a process.
 */
#ifndef NNBURST_EXTENSIONS_FIBONACCI_EXTENSION_H
#define NNBURST_EXTENSIONS_FIBONACCI_EXTENSION_H

#include <stdint.h>

#define EXAMPLE_FIBONACCI_EXTENSION_NAME "com.example.fibonacci"

/* Operand types. */
enum {
    /* A scalar: a signed integer of 64 bits. */
    EXAMPLE_INT64 = 0,

    /* A tensor of signed integers of 64 bits, which stand for real numbers: (q - zeroPoint) * scale. Its parameters,
     * ExampleTensorQuant64AsymmParams, are set by ANeuralNetworksModel_setOperandExtensionData. */
    EXAMPLE_TENSOR_QUANT64_ASYMM = 1,
};

/* Operations. */
enum {
    /* The first n numbers of the Fibonacci sequence, beginning with 1, 1.
     *
     * Inputs:
     * 0: n, at least 1: an EXAMPLE_INT64, or an ANEURALNETWORKS_TENSOR_FLOAT32 of shape [1].
     *
     * Outputs:
     * 0: a tensor of shape [n], EXAMPLE_TENSOR_QUANT64_ASYMM or ANEURALNETWORKS_TENSOR_FLOAT32. */
    EXAMPLE_FIBONACCI = 0,
};

/* What an operand of EXAMPLE_TENSOR_QUANT64_ASYMM carries. */
typedef struct ExampleTensorQuant64AsymmParams {
    /* Above 0. */
    double scale;
    int64_t zeroPoint;
} ExampleTensorQuant64AsymmParams;

#endif
