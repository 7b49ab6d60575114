/* Executions that are over and not freed: each keeps its results and no descriptor. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

enum { EXECUTIONS = 10000 };

static int descriptors(void) {
    int count = 0;
    DIR* files = opendir("/proc/self/fd");
    TRUE_THAT(files != NULL);
    while (readdir(files)) count++;
    closedir(files);
    return count;
}

static const ANeuralNetworksDevice* chosen(void) {
    const char* wanted = getenv("NNBURST_TEST_DEVICE");
    uint32_t count = 0;
    OK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t at = 0; at < count; at++) {
        ANeuralNetworksDevice* device = NULL;
        const char* name = NULL;
        OK(ANeuralNetworks_getDevice(at, &device));
        OK(ANeuralNetworksDevice_getName(device, &name));
        if (strcmp(name, wanted ? wanted : "nnapi-reference") == 0) return device;
    }
    TRUE_THAT(!"no such device");
    return NULL;
}

int main(void) {
    static ANeuralNetworksExecution* executions[EXECUTIONS];
    static float sums[EXECUTIONS][COUNT];
    static ANeuralNetworksEvent* events[EXECUTIONS];
    int fenced = 0;
    const ANeuralNetworksDevice* device = chosen();
    const float a[COUNT] = {1, 2, 3, 4};
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    const int before = descriptors();
    for (int at = 0; at < EXECUTIONS; at++) {
        const float b[COUNT] = {(float)at, 0, 0, 0};
        ANeuralNetworksEvent* event = NULL;
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
        OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sums[at], sizeof sums[at]));
        switch (at % 4) {
            case 0: OK(ANeuralNetworksExecution_compute(execution)); break;
            case 1: OK(ANeuralNetworksExecution_burstCompute(execution, burst)); break;
            case 2: OK(ANeuralNetworksExecution_startCompute(execution, &event)); break;
            default: OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
        }
        if (event) OK(ANeuralNetworksEvent_wait(event));
        /* Its event too: what is over costs nothing until it is freed. */
        if (event && at % 4 == 3) {
            events[fenced++] = event;
            event = NULL;
        }
        ANeuralNetworksEvent_free(event);
        executions[at] = execution;
    }
    /* Some keep what they have, which is at hand for the next ones. */
    const int after = descriptors();
    if (after > before + 200) {
        fprintf(stderr, "%d descriptors before, %d with %d executions\n", before, after, EXECUTIONS);
        return 1;
    }
    for (int at = 0; at < EXECUTIONS; at++) {
        uint32_t rank = 0, shape[1] = {0};
        TRUE_THAT(sums[at][0] == (float)at + 1 && sums[at][3] == 4);
        OK(ANeuralNetworksExecution_getOutputOperandRank(executions[at], 0, &rank));
        TRUE_THAT(rank == 1);
        OK(ANeuralNetworksExecution_getOutputOperandDimensions(executions[at], 0, shape));
        TRUE_THAT(shape[0] == COUNT);
        ANeuralNetworksExecution_free(executions[at]);
    }
    for (int at = 0; at < fenced; at++) {
        int fence = -1;
        OK(ANeuralNetworksEvent_wait(events[at]));
        int code = ANeuralNetworksEvent_getSyncFenceFd(events[at], &fence);
        /* A second one signals as well, whatever was done to the first. */
        if (code == ANEURALNETWORKS_NO_ERROR) {
            struct pollfd signalled = {fence, POLLIN, 0};
            uint64_t value = 0;
            TRUE_THAT(poll(&signalled, 1, 0) == 1 && read(fence, &value, sizeof value) > 0);
            close(fence);
        }
        ANeuralNetworksEvent_free(events[at]);
    }
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    return 0;
}
