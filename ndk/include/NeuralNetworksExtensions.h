/*
 * Extensions of the Neural Networks API by drivers: operand types and operations that are found by the name of
 * their extension.
 *
 * A process may use extensions only if its program is on the list of those allowed to: docs/embedding.md.
 */
#ifndef ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_EXTENSIONS_H
#define ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_EXTENSIONS_H

#include "NeuralNetworks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a device has an extension, by its reverse domain name. Level 29. */
int ANeuralNetworksDevice_getExtensionSupport(const ANeuralNetworksDevice* device,
                                              const char* extensionName,
                                              bool* isExtensionSupported);

/* The number that stands for an operand type of an extension in this process. It is given for names that no device
 * knows, too; then it can't be used. Level 29. */
int ANeuralNetworksModel_getExtensionOperandType(ANeuralNetworksModel* model,
                                                 const char* extensionName,
                                                 uint16_t operandCodeWithinExtension,
                                                 int32_t* type);

/* The number that stands for an operation of an extension in this process. Level 29. */
int ANeuralNetworksModel_getExtensionOperationType(ANeuralNetworksModel* model,
                                                   const char* extensionName,
                                                   uint16_t operationCodeWithinExtension,
                                                   ANeuralNetworksOperationType* type);

/* Bytes that an operand of an extension's type carries for its driver; they are copied. Null with length 0 takes
 * them away. BAD_DATA for operands of other types. Level 29. */
int ANeuralNetworksModel_setOperandExtensionData(ANeuralNetworksModel* model, int32_t index,
                                                 const void* data, size_t length);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
