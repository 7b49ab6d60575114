/* Threads of any stack may call everything, the smallest that there are included. */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static const float values[COUNT] = {1, 2, 3, 4};

static void run(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst, int form) {
    float sum[COUNT] = {0};
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    uint32_t rank = 0;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, values, sizeof values));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, values, sizeof values));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    if (form == 0) {
        OK(ANeuralNetworksExecution_compute(execution));
    } else if (form == 1) {
        OK(ANeuralNetworksExecution_burstCompute(execution, burst));
    } else {
        OK(ANeuralNetworksExecution_startCompute(execution, &event));
        OK(ANeuralNetworksEvent_wait(event));
    }
    OK(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 2 * values[at]);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksExecution_free(execution);
}

static void memories(ANeuralNetworksCompilation* compilation) {
    const AHardwareBuffer_Desc wanted = {.width = 64,
                                         .height = 1,
                                         .layers = 1,
                                         .format = AHARDWAREBUFFER_FORMAT_BLOB,
                                         .usage = AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN};
    AHardwareBuffer* buffer = NULL;
    void* bytes = NULL;
    ANeuralNetworksMemory *memory = NULL, *file = NULL, *device = NULL;
    ANeuralNetworksMemoryDesc* desc = NULL;
    TRUE_THAT(AHardwareBuffer_allocate(&wanted, &buffer) == 0);
    TRUE_THAT(AHardwareBuffer_lock(buffer, wanted.usage, -1, NULL, &bytes) == 0);
    TRUE_THAT(AHardwareBuffer_unlock(buffer, NULL) == 0);
    OK(ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &memory));
    int fd = memfd_create("file", 0);
    TRUE_THAT(fd >= 0 && ftruncate(fd, sizeof values) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof values, PROT_READ | PROT_WRITE, fd, 0, &file));
    close(fd);
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &device));
    OK(ANeuralNetworksMemory_copy(file, device));
    ANeuralNetworksMemory_free(device);
    ANeuralNetworksMemoryDesc_free(desc);
    ANeuralNetworksMemory_free(file);
    ANeuralNetworksMemory_free(memory);
    AHardwareBuffer_release(buffer);
}

static void* everything(void* done) {
    bool supported = false;
    const ANeuralNetworksDevice* device = tested();
    ANeuralNetworksModel* model = add_model();
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, &supported));
    TRUE_THAT(supported);
    ANeuralNetworksCompilation* compilation = compile(model);
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (int form = 0; form < 3; form++) run(compilation, burst, form);
    memories(compilation);
    /* The reason is told to the thread that called. */
    BAD_STATE(ANeuralNetworksCompilation_finish(compilation));
    TRUE_THAT(nnburst_lastError()[0] != 0);
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    *(int*)done = 1;
    return NULL;
}

int main(void) {
    static const size_t kibibytes[] = {0,   20,  24,  32,  48,  64,  96,  128, 192, 240, 252,
                                       256, 260, 264, 272, 280, 288, 320, 384, 512, 1024, 8192};
    for (size_t at = 0; at < sizeof kibibytes / sizeof *kibibytes; at++) {
        size_t size = kibibytes[at] ? kibibytes[at] << 10 : (size_t)PTHREAD_STACK_MIN;
        pthread_attr_t attributes;
        pthread_t thread;
        int done = 0;
        TRUE_THAT(pthread_attr_init(&attributes) == 0);
        TRUE_THAT(pthread_attr_setstacksize(&attributes, size) == 0);
        TRUE_THAT(pthread_create(&thread, &attributes, everything, &done) == 0);
        TRUE_THAT(pthread_join(thread, NULL) == 0 && done);
        pthread_attr_destroy(&attributes);
    }
    return 0;
}
