/*
 * The interface by the name that Android's NDK gives it.
 */
#ifndef NNBURST_ANDROID_NEURAL_NETWORKS_H
#define NNBURST_ANDROID_NEURAL_NETWORKS_H

#include "../NeuralNetworks.h"

#endif
