/* What TFLite's delegate for NNAPI does on Linux, from finding the library to the order in which it frees things: nothing
 * is linked, everything is looked up; weights lie at odd offsets of a model file that is open for reading only; inputs
 * and outputs lie in pools in /dev/shm, which can't be sealed; every inference has an execution of its own. */
#define _GNU_SOURCE
#include <NeuralNetworks.h>
#include <NeuralNetworksExtensions.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TRUE_THAT(what)                                                \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)
#define OK(call) TRUE_THAT((call) == ANEURALNETWORKS_NO_ERROR)

/* By the level that each came with: the highest one of which nothing is missing is the library's. */
#define LEVEL_27(each)                                                                               \
    each(Memory_createFromFd) each(Memory_free) each(Model_create) each(Model_free)                  \
    each(Model_finish) each(Model_addOperand) each(Model_setOperandValue)                            \
    each(Model_setOperandValueFromMemory) each(Model_addOperation)                                   \
    each(Model_identifyInputsAndOutputs) each(Compilation_create) each(Compilation_free)             \
    each(Compilation_setPreference) each(Compilation_finish) each(Execution_create)                  \
    each(Execution_free) each(Execution_setInput) each(Execution_setInputFromMemory)                 \
    each(Execution_setOutput) each(Execution_setOutputFromMemory) each(Execution_startCompute)       \
    each(Event_wait) each(Event_free)
#define LEVEL_28(each) each(Model_relaxComputationFloat32toFloat16)
#define LEVEL_29(each)                                                                               \
    each(_getDeviceCount) each(_getDevice) each(Device_getName) each(Device_getVersion)              \
    each(Device_getFeatureLevel) each(Device_getType)                                                \
    each(Model_getSupportedOperationsForDevices)                                                     \
    each(Model_setOperandSymmPerChannelQuantParams) each(Compilation_createForDevices)               \
    each(Compilation_setCaching) each(Execution_compute) each(Execution_getOutputOperandRank)        \
    each(Execution_getOutputOperandDimensions) each(Burst_create) each(Burst_free)                   \
    each(Execution_burstCompute) each(Memory_createFromAHardwareBuffer)                              \
    each(Execution_setMeasureTiming) each(Execution_getDuration)                                     \
    each(Device_getExtensionSupport) each(Model_getExtensionOperandType)                             \
    each(Model_getExtensionOperationType) each(Model_setOperandExtensionData)
#define LEVEL_30(each)                                                                               \
    each(_getDefaultLoopTimeout) each(_getMaximumLoopTimeout) each(Device_wait)                      \
    each(Compilation_setTimeout) each(Compilation_setPriority) each(Execution_setTimeout)            \
    each(Execution_setLoopTimeout) each(Execution_startComputeWithDependencies)                      \
    each(Event_createFromSyncFenceFd) each(Event_getSyncFenceFd) each(MemoryDesc_create)             \
    each(MemoryDesc_free) each(MemoryDesc_addInputRole) each(MemoryDesc_addOutputRole)               \
    each(MemoryDesc_setDimensions) each(MemoryDesc_finish) each(Memory_createFromDesc)               \
    each(Memory_copy) each(Model_setOperandValueFromModel)

static struct {
#define MEMBER(name) __typeof__(&ANeuralNetworks##name) name;
    LEVEL_27(MEMBER) LEVEL_28(MEMBER) LEVEL_29(MEMBER) LEVEL_30(MEMBER)
} nn;

static int load(void* library) {
    int missing[4] = {0}, at = 0;
#define LOAD(name)                                                      \
    *(void**)&nn.name = dlsym(library, "ANeuralNetworks" #name); \
    missing[at] += nn.name == NULL;
    LEVEL_27(LOAD) at++;
    LEVEL_28(LOAD) at++;
    LEVEL_29(LOAD) at++;
    LEVEL_30(LOAD)
    int level = 26;
    for (at = 0; at < 4 && missing[at] == 0; at++) level++;
    return level;
}

enum { IN = 64, OUT = 8, ALIGNMENT = 64 };

/* A pool as the delegate makes it: a name of its own in /dev/shm. */
struct pool {
    ANeuralNetworksMemory* memory;
    uint8_t* bytes;
    size_t size;
    int fd;
    char name[64];
};

static struct pool make_pool(const char* what, size_t size) {
    static int count;
    struct pool pool = {.size = size};
    snprintf(pool.name, sizeof pool.name, "/%s-%d-%d", what, (int)getpid(), count++);
    pool.fd = shm_open(pool.name, O_RDWR | O_CREAT, 0644);
    TRUE_THAT(pool.fd >= 0 && ftruncate(pool.fd, (off_t)size) == 0);
    pool.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pool.fd, 0);
    TRUE_THAT(pool.bytes != MAP_FAILED);
    OK(nn.Memory_createFromFd(size, PROT_READ | PROT_WRITE, pool.fd, 0, &pool.memory));
    return pool;
}

static void free_pool(struct pool* pool) {
    munmap(pool->bytes, pool->size);
    nn.Memory_free(pool->memory);
    close(pool->fd);
    shm_unlink(pool->name);
}

/* The model file: a header, then weights and biases, none of them where a float would like to be. */
enum { WEIGHTS_AT = 13, BIAS_AT = WEIGHTS_AT + OUT * IN * 4 + 5, FILE_SIZE = BIAS_AT + OUT * 4 + 3 };

static float weight(int row, int column) { return (float)((row * 7 + column * 3) % 11 - 5); }

static int model_file(void) {
    char path[] = "/tmp/nnburst-delegate-XXXXXX";
    int fd = mkstemp(path);
    TRUE_THAT(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);
    for (int row = 0; row < OUT; row++) {
        float bias = (float)row;
        for (int column = 0; column < IN; column++) {
            float value = weight(row, column);
            TRUE_THAT(pwrite(fd, &value, 4, WEIGHTS_AT + 4 * (row * IN + column)) == 4);
        }
        TRUE_THAT(pwrite(fd, &bias, 4, BIAS_AT + 4 * row) == 4);
    }
    close(fd);
    fd = open(path, O_RDONLY);
    TRUE_THAT(fd >= 0);
    unlink(path);
    return fd;
}

/* out = RELU(FULLY_CONNECTED(in)); for in[i] = i + round. */
static float expected(int row, int round) {
    float sum = (float)row;
    for (int column = 0; column < IN; column++) sum += weight(row, column) * (float)(column + round);
    return sum > 0 ? sum : 0;
}

static ANeuralNetworksModel* build(ANeuralNetworksMemory* file) {
    const uint32_t in[] = {1, IN}, weights[] = {OUT, IN}, bias[] = {OUT}, out[] = {1, OUT};
    const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const struct {
        uint32_t rank;
        const uint32_t* shape;
    } tensors[] = {{2, in}, {2, weights}, {1, bias}, {2, out}, {2, out}};
    ANeuralNetworksModel* model = NULL;
    OK(nn.Model_create(&model));
    for (int at = 0; at < 5; at++) {
        const ANeuralNetworksOperandType type = {ANEURALNETWORKS_TENSOR_FLOAT32, tensors[at].rank,
                                                 tensors[at].shape, 0, 0};
        OK(nn.Model_addOperand(model, &type));
    }
    const ANeuralNetworksOperandType activation = {ANEURALNETWORKS_INT32, 0, NULL, 0, 0};
    OK(nn.Model_addOperand(model, &activation));
    OK(nn.Model_setOperandValue(model, 5, &none, sizeof none));
    OK(nn.Model_setOperandValueFromMemory(model, 1, file, WEIGHTS_AT, OUT * IN * 4));
    OK(nn.Model_setOperandValueFromMemory(model, 2, file, BIAS_AT, OUT * 4));
    const uint32_t dense[] = {0, 1, 2, 5}, middle[] = {3}, last[] = {4}, first[] = {0};
    OK(nn.Model_addOperation(model, ANEURALNETWORKS_FULLY_CONNECTED, 4, dense, 1, middle));
    OK(nn.Model_addOperation(model, ANEURALNETWORKS_RELU, 1, middle, 1, last));
    OK(nn.Model_identifyInputsAndOutputs(model, 1, first, 1, last));
    OK(nn.Model_relaxComputationFloat32toFloat16(model, false));
    OK(nn.Model_finish(model));
    return model;
}

static void infer(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst,
                  const struct pool* input, const struct pool* output, int round, bool has_one_device) {
    const size_t at = (size_t)(round % 3) * ALIGNMENT;
    ANeuralNetworksExecution* execution = NULL;
    OK(nn.Execution_create(compilation, &execution));
    if (has_one_device) {
        OK(nn.Execution_setTimeout(execution, 10000000000u));
        OK(nn.Execution_setMeasureTiming(execution, round % 2 == 0));
    }
    OK(nn.Execution_setLoopTimeout(execution, 1000000000u));
    for (int column = 0; column < IN; column++) {
        const float value = (float)(column + round);
        memcpy(input->bytes + at + 4 * column, &value, 4);
    }
    OK(nn.Execution_setInputFromMemory(execution, 0, NULL, input->memory, at, IN * 4));
    OK(nn.Execution_setOutputFromMemory(execution, 0, NULL, output->memory, at, OUT * 4));
    if (round % 4 == 3) {
        ANeuralNetworksEvent* event = NULL;
        OK(nn.Execution_startCompute(execution, &event));
        OK(nn.Event_wait(event));
        nn.Event_free(event);
    } else if (burst && round % 4 != 2) {
        OK(nn.Execution_burstCompute(execution, burst));
    } else {
        OK(nn.Execution_compute(execution));
    }
    uint64_t nanoseconds = 0;
    if (has_one_device && round % 2 == 0) {
        OK(nn.Execution_getDuration(execution, ANEURALNETWORKS_DURATION_IN_DRIVER, &nanoseconds));
    }
    nn.Execution_free(execution);
    for (int row = 0; row < OUT; row++) {
        float value;
        memcpy(&value, output->bytes + at + 4 * row, 4);
        TRUE_THAT(value == expected(row, round));
    }
}

/* One life of the delegate; on a device, or where the library sees fit. */
static void delegate(const ANeuralNetworksDevice* device, const char* cache) {
    int fd = model_file();
    ANeuralNetworksMemory* file = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksBurst* burst = NULL;
    bool supported[2] = {false, false};
    uint8_t token[ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN] = {7};
    OK(nn.Memory_createFromFd(FILE_SIZE, PROT_READ, fd, 0, &file));
    ANeuralNetworksModel* model = build(file);
    if (device) {
        OK(nn.Model_getSupportedOperationsForDevices(model, &device, 1, supported));
        TRUE_THAT(supported[0] && supported[1]);
        OK(nn.Compilation_createForDevices(model, &device, 1, &compilation));
        OK(nn.Compilation_setTimeout(compilation, 10000000000u));
    } else {
        OK(nn.Compilation_create(model, &compilation));
    }
    OK(nn.Compilation_setPreference(compilation, ANEURALNETWORKS_PREFER_SUSTAINED_SPEED));
    OK(nn.Compilation_setPriority(compilation, ANEURALNETWORKS_PRIORITY_HIGH));
    if (cache) OK(nn.Compilation_setCaching(compilation, cache, token));
    OK(nn.Compilation_finish(compilation));
    OK(nn.Burst_create(compilation, &burst));
    struct pool input = make_pool("input_pool", 512), output = make_pool("output_pool", 512);
    for (int round = 0; round < 24; round++) {
        if (round == 12) {
            /* A tensor has grown: the pools are made anew, larger. */
            free_pool(&input);
            free_pool(&output);
            input = make_pool("input_pool", 8192);
            output = make_pool("output_pool", 8192);
        }
        infer(compilation, burst, &input, &output, round, device != NULL);
    }
    nn.Memory_free(file);
    close(fd);
    free_pool(&input);
    free_pool(&output);
    nn.Burst_free(burst);
    nn.Compilation_free(compilation);
    nn.Model_free(model);
}

int main(void) {
    void* library = dlopen("libneuralnetworks.so", RTLD_LAZY | RTLD_LOCAL);
    TRUE_THAT(library != NULL);
    TRUE_THAT(load(library) == 30);
    char cache[] = "/tmp/nnburst-cache-XXXXXX";
    TRUE_THAT(mkdtemp(cache) != NULL);
    uint32_t count = 0, references = 0;
    OK(nn._getDeviceCount(&count));
    TRUE_THAT(count >= 2);
    for (uint32_t at = 0; at < count; at++) {
        ANeuralNetworksDevice* device = NULL;
        const char* name = NULL;
        int64_t level = 0;
        OK(nn._getDevice(at, &device));
        OK(nn.Device_getName(device, &name));
        OK(nn.Device_getFeatureLevel(device, &level));
        TRUE_THAT(level == 30);
        references += strcmp(name, "nnapi-reference") == 0;
        /* Afresh, written to the cache, read from the cache. */
        delegate(device, NULL);
        delegate(device, cache);
        delegate(device, cache);
    }
    TRUE_THAT(references == 1);
    delegate(NULL, cache);
    char remove[64];
    snprintf(remove, sizeof remove, "rm -r %s", cache);
    TRUE_THAT(system(remove) == 0);
    TRUE_THAT(dlclose(library) == 0);
    return 0;
}
