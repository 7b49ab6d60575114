/* Executions that depend on fences which this program signals only after they were started: one thread is enough. */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};

/* On the device that is tested, on it and the reference device, or on whichever the library takes. */
enum choice { ONE, BOTH, ANY, CHOICES };

static ANeuralNetworksCompilation* compiled(ANeuralNetworksModel* model, enum choice choice) {
    const ANeuralNetworksDevice* devices[] = {tested(), device_called("nnapi-reference")};
    ANeuralNetworksCompilation* compilation = NULL;
    if (choice == BOTH && devices[0] == devices[1]) return NULL;
    if (choice == ANY) {
        OK(ANeuralNetworksCompilation_create(model, &compilation));
    } else {
        OK(ANeuralNetworksCompilation_createForDevices(model, devices, choice == BOTH ? 2 : 1, &compilation));
    }
    OK(ANeuralNetworksCompilation_finish(compilation));
    return compilation;
}

static bool is_signalled(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1;
}

/* The sum of a and b after the event, in a buffer of the program's or in a memory. */
static void start_then_signal(ANeuralNetworksCompilation* compilation, bool in_memory) {
    float sum[COUNT] = {0};
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksMemory* memory = NULL;
    ANeuralNetworksEvent *fence = NULL, *done = NULL, *then = NULL;
    const int signal = eventfd(0, EFD_CLOEXEC), file = memfd_create("sum", 0);
    TRUE_THAT(signal > 0 && file > 0 && ftruncate(file, sizeof sum) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof sum, PROT_READ | PROT_WRITE, file, 0, &memory));
    OK(ANeuralNetworksEvent_createFromSyncFenceFd(signal, &fence));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    if (in_memory) {
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, sizeof sum));
    } else {
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    }
    const ANeuralNetworksEvent* after[] = {fence};
    OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, after, 1, 0, &done));
    TRUE_THAT(sum[0] == 0);
    int fd = -1;
    OK(ANeuralNetworksEvent_getSyncFenceFd(done, &fd));
    TRUE_THAT(fd > 0 && !is_signalled(fd));

    /* A second one behind the first. */
    float twice[COUNT] = {0};
    ANeuralNetworksExecution* second = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &second));
    OK(ANeuralNetworksExecution_setInput(second, 0, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setInput(second, 1, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setOutput(second, 0, NULL, twice, sizeof twice));
    const ANeuralNetworksEvent* behind[] = {done};
    OK(ANeuralNetworksExecution_startComputeWithDependencies(second, behind, 1, 0, &then));
    TRUE_THAT(twice[0] == 0);

    TRUE_THAT(eventfd_write(signal, 1) == 0);
    OK(ANeuralNetworksEvent_wait(then));
    TRUE_THAT(is_signalled(fd));
    OK(ANeuralNetworksEvent_wait(done));
    if (in_memory) TRUE_THAT(pread(file, sum, sizeof sum, 0) == sizeof sum);
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == a[at] + b[at] && twice[at] == 2 * b[at]);
    close(fd);
    ANeuralNetworksExecution_free(second);
    ANeuralNetworksEvent_free(then);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksEvent_free(done);
    ANeuralNetworksEvent_free(fence);
    ANeuralNetworksMemory_free(memory);
    close(signal);
    close(file);
}

/* A fence that never signals, and one whose other end is closed after the start. */
static void never(ANeuralNetworksCompilation* compilation, enum choice choice) {
    float sum[COUNT] = {0};
    int ends[2];
    TRUE_THAT(pipe(ends) == 0);
    ANeuralNetworksEvent *fence = NULL, *done = NULL;
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksEvent_createFromSyncFenceFd(ends[0], &fence));
    for (int deadline = 0; deadline < 2; deadline++) {
        if (deadline && choice != ONE) continue;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
        OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
        const ANeuralNetworksEvent* after[] = {fence};
        if (deadline) OK(ANeuralNetworksExecution_setTimeout(execution, 50 * 1000 * 1000));
        if (deadline == 0 && choice == ONE) {
            /* Left for below: the deadline first, while the fence still may signal. */
            ANeuralNetworksExecution_free(execution);
            continue;
        }
        OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, after, 1, 0, &done));
        if (deadline) {
            EXPECT(ANEURALNETWORKS_MISSED_DEADLINE_TRANSIENT, ANeuralNetworksEvent_wait(done));
        } else {
            close(ends[1]);
            ends[1] = -1;
            TRUE_THAT(ANeuralNetworksEvent_wait(done) != ANEURALNETWORKS_NO_ERROR);
        }
        TRUE_THAT(sum[0] == 0);
        ANeuralNetworksEvent_free(done);
        ANeuralNetworksExecution_free(execution);
    }
    ANeuralNetworksEvent_free(fence);
    if (ends[1] >= 0) close(ends[1]);
    close(ends[0]);
}

int main(void) {
    ANeuralNetworksModel* model = add_model();
    for (enum choice choice = ONE; choice < CHOICES; choice++) {
        ANeuralNetworksCompilation* compilation = compiled(model, choice);
        if (!compilation) continue;
        start_then_signal(compilation, false);
        start_then_signal(compilation, true);
        never(compilation, choice);
        ANeuralNetworksCompilation_free(compilation);
    }
    ANeuralNetworksModel_free(model);
    return 0;
}
