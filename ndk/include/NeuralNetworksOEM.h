/*
 * Types and an operation whose meaning their driver alone knows; older than extensions, which replace them.
 */
#ifndef ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_OEM_H
#define ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_OEM_H

enum {
    /* A scalar of the driver's own kind. */
    ANEURALNETWORKS_OEM_SCALAR = 10000,
    /* A tensor of bytes of the driver's own kind. */
    ANEURALNETWORKS_TENSOR_OEM_BYTE = 10001,
};

enum {
    /* An operation of the driver's own kind. */
    ANEURALNETWORKS_OEM_OPERATION = 10000,
};

#endif
