/* A driver's process that is stopped: calls with a limit end by it, and all goes on when the driver does. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum way { SYNC, ASYNC, BURST, FENCED, WAYS };

static const uint64_t SOON = 20 * 1000000;
static const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};

static pid_t server(void) {
    char path[512];
    int pid = 0;
    snprintf(path, sizeof path, "%s/%s.pid", getenv("NNBURST_SERVICE_DIR"), getenv("NNBURST_TEST_DEVICE"));
    FILE* file = fopen(path, "r");
    TRUE_THAT(file && fscanf(file, "%d", &pid) == 1 && pid > 1);
    fclose(file);
    return pid;
}

/* Whether all threads of a process are stopped. */
static bool is_stopped(pid_t pid) {
    char path[64];
    bool all = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR* tasks = opendir(path);
    TRUE_THAT(tasks != NULL);
    for (struct dirent* task = readdir(tasks); task; task = readdir(tasks)) {
        char text[512] = "";
        if (task->d_name[0] == '.') continue;
        snprintf(text, sizeof text, "%s/%s/stat", path, task->d_name);
        FILE* file = fopen(text, "r");
        if (!file) continue;
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[length] = 0;
        const char* name_end = strrchr(text, ')');
        all = all && name_end && name_end[2] == 'T';
    }
    closedir(tasks);
    return all;
}

static ANeuralNetworksCompilation* compilation_of(ANeuralNetworksModel* model,
                                                  const ANeuralNetworksDevice* device) {
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    return compilation;
}

/* The code of one run; `timeout` of 0 is none of its own. */
static int run(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst, enum way way,
               uint64_t timeout) {
    float sum[COUNT] = {0};
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksExecution* execution = NULL;
    int code;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_setTimeout(execution, timeout));
    switch (way) {
        case SYNC: code = ANeuralNetworksExecution_compute(execution); break;
        case BURST: code = ANeuralNetworksExecution_burstCompute(execution, burst); break;
        case ASYNC: code = ANeuralNetworksExecution_startCompute(execution, &event); break;
        default:
            code = ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event);
    }
    if (code == 0 && event) code = ANeuralNetworksEvent_wait(event);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksExecution_free(execution);
    TRUE_THAT(code != 0 || (sum[0] == 11 && sum[3] == 44));
    return code;
}

#define MISSED(call) EXPECT(ANEURALNETWORKS_MISSED_DEADLINE_TRANSIENT, call)

static const ANeuralNetworksDevice* named(const char* wanted) {
    uint32_t count = 0;
    OK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t at = 0; at < count; at++) {
        ANeuralNetworksDevice* device = NULL;
        const char* name = NULL;
        OK(ANeuralNetworks_getDevice(at, &device));
        OK(ANeuralNetworksDevice_getName(device, &name));
        if (strcmp(name, wanted) == 0) return device;
    }
    TRUE_THAT(!"the device is not served");
    return NULL;
}

int main(void) {
    const ANeuralNetworksDevice* device = named(getenv("NNBURST_TEST_DEVICE"));
    const pid_t pid = server();
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation *compilation = compilation_of(model, device), *second = NULL;
    BAD_DATA(nnburst_Compilation_setBurstWait(compilation, 4));
    BAD_DATA(nnburst_Compilation_setBurstWait(compilation, -1));
    OK(nnburst_Compilation_setBurstWait(compilation, NNBURST_WAIT_SPIN));
    OK(ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksBurst *bursts[5] = {0}, *none = NULL;
    BAD_DATA(nnburst_Burst_create(compilation, 7, &none));
    IS_NULL(nnburst_Burst_create(compilation, NNBURST_WAIT_AUTO, NULL));
    TRUE_THAT(none == NULL);
    OK(ANeuralNetworksBurst_create(compilation, &bursts[0]));
    for (int wait = NNBURST_WAIT_AUTO; wait <= NNBURST_WAIT_BLOCK; wait++)
        OK(nnburst_Burst_create(compilation, wait, &bursts[wait + 1]));

    int fd = memfd_create("stopped", 0);
    ANeuralNetworksMemoryDesc* desc = NULL;
    ANeuralNetworksMemory *memory = NULL, *file = NULL;
    TRUE_THAT(fd > 0 && write(fd, a, sizeof a) == sizeof a);
    OK(ANeuralNetworksMemory_createFromFd(sizeof a, PROT_READ | PROT_WRITE, fd, 0, &file));
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    OK(ANeuralNetworksMemory_copy(file, memory));
    for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, bursts[0], way, 0));

    TRUE_THAT(kill(pid, SIGSTOP) == 0);
    while (!is_stopped(pid)) usleep(100);
    for (int at = 0; at < 5; at++)
        for (enum way way = SYNC; way < WAYS; way++) MISSED(run(compilation, bursts[at], way, SOON));
    second = compilation_of(model, device);
    OK(ANeuralNetworksCompilation_setTimeout(second, SOON));
    MISSED(ANeuralNetworksCompilation_finish(second));
    ANeuralNetworksCompilation_free(second);
    /* What has no limit of its own has the thread's. */
    bool supported[1];
    OK(nnburst_setCallTimeout(SOON));
    for (enum way way = SYNC; way < WAYS; way++) MISSED(run(compilation, bursts[0], way, 0));
    MISSED(ANeuralNetworksMemory_copy(file, memory));
    MISSED(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, supported));
    MISSED(ANeuralNetworksBurst_create(compilation, &none));
    TRUE_THAT(none == NULL);
    OK(nnburst_setCallTimeout(0));
    TRUE_THAT(kill(pid, SIGCONT) == 0);

    for (int round = 0; round < 3; round++)
        for (int at = 0; at < 5; at++)
            for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, bursts[at], way, 0));
    OK(ANeuralNetworksMemory_copy(file, memory));
    OK(ANeuralNetworksModel_getSupportedOperationsForDevices(model, &device, 1, supported));
    for (int at = 0; at < 5; at++) ANeuralNetworksBurst_free(bursts[at]);
    ANeuralNetworksMemory_free(memory);
    ANeuralNetworksMemory_free(file);
    ANeuralNetworksMemoryDesc_free(desc);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    close(fd);
    return 0;
}
