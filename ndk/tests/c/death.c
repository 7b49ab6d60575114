/* A driver in a process of its own, started on demand, that is killed between executions and in the middle of them, and
 * comes back: what it had made is dead, the device is not. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum way { SYNC, ASYNC, BURST, FENCED, WAYS };

static const char* const ALL = "nnapi-sample_all";
static const char* const FAST = "nnapi-sample_float_fast";
static const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};

static void pause_ms(long milliseconds) {
    const struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* The process that serves a driver, as it wrote down itself: each is asked for once. */
static pid_t server(const char* driver) {
    char path[512];
    FILE* file = NULL;
    int pid = 0;
    snprintf(path, sizeof path, "%s/%s.pid", getenv("NNBURST_SERVICE_DIR"), driver);
    while ((file = fopen(path, "r")) == NULL) pause_ms(1);
    TRUE_THAT(fscanf(file, "%d", &pid) == 1 && pid > 1);
    fclose(file);
    TRUE_THAT(unlink(path) == 0);
    return pid;
}

/* Whether a process lives; one that is dead and not reaped yet doesn't. Its first thread may be dead while others still
 * hold what it had open. */
static bool lives(pid_t pid) {
    char path[64], text[512] = "", state = 0;
    int threads = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE* file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char* name_end = length ? strrchr(text, ')') : NULL;
    if (!name_end) return false;
    TRUE_THAT(sscanf(name_end + 2, "%c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &state,
                     &threads) == 2);
    return state != 'Z' || threads > 1;
}

static void kill_server(const char* driver) {
    pid_t pid = server(driver);
    TRUE_THAT(kill(pid, SIGKILL) == 0);
    while (lives(pid)) pause_ms(1);
}

static ANeuralNetworksCompilation* compiled_for(const ANeuralNetworksDevice* device,
                                                ANeuralNetworksModel* model) {
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    return compilation;
}

/* Where arguments lie: in memories, or where there are none in buffers. */
struct room {
    int fds[3];
    ANeuralNetworksMemory *a, *b, *sum;
};

static ANeuralNetworksMemory* memory_of(int* fd, const float* value) {
    ANeuralNetworksMemory* memory = NULL;
    *fd = memfd_create("death", 0);
    TRUE_THAT(*fd > 0 && write(*fd, value, sizeof a) == sizeof a);
    OK(ANeuralNetworksMemory_createFromFd(sizeof a, PROT_READ | PROT_WRITE, *fd, 0, &memory));
    return memory;
}

static struct room new_room(void) {
    struct room room;
    room.a = memory_of(&room.fds[0], a);
    room.b = memory_of(&room.fds[1], b);
    room.sum = memory_of(&room.fds[2], a);
    return room;
}

static void free_room(struct room room) {
    ANeuralNetworksMemory_free(room.a);
    ANeuralNetworksMemory_free(room.b);
    ANeuralNetworksMemory_free(room.sum);
    for (int at = 0; at < 3; at++) close(room.fds[at]);
}

static ANeuralNetworksExecution* sum_of(ANeuralNetworksCompilation* compilation,
                                        const struct room* room, float* sum) {
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    if (room) {
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 0, NULL, room->a, 0, sizeof a));
        OK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, room->b, 0, sizeof b));
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, room->sum, 0, sizeof a));
        return execution;
    }
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, COUNT * sizeof *sum));
    return execution;
}

static int run_in(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst, enum way way,
                  const struct room* room) {
    float sum[COUNT] = {0};
    ANeuralNetworksEvent* event = NULL;
    ANeuralNetworksExecution* execution = sum_of(compilation, room, sum);
    int code;
    switch (way) {
        case SYNC: code = ANeuralNetworksExecution_compute(execution); break;
        case BURST: code = ANeuralNetworksExecution_burstCompute(execution, burst); break;
        case ASYNC: code = ANeuralNetworksExecution_startCompute(execution, &event); break;
        default:
            code = ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event);
    }
    if (code == 0 && event) code = ANeuralNetworksEvent_wait(event);
    ANeuralNetworksEvent_free(event);
    if (code == 0 && room) TRUE_THAT(pread(room->fds[2], sum, sizeof sum, 0) == sizeof sum);
    if (code == 0) TRUE_THAT(sum[0] == 11 && sum[3] == 44);
    uint32_t rank = 0;
    EXPECT(code ? ANEURALNETWORKS_BAD_STATE : 0,
           ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
    ANeuralNetworksExecution_free(execution);
    return code;
}

static int run(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst, enum way way) {
    return run_in(compilation, burst, way, NULL);
}

/* Statuses of executions pass through those of the HAL, which has none for the dead; only a fenced execution, whose
 * launch answers by itself, can say so. */
static int of_dead(enum way way) {
    return way == FENCED ? ANEURALNETWORKS_DEAD_OBJECT : ANEURALNETWORKS_OP_FAILED;
}

static void between_executions(const ANeuralNetworksDevice* device) {
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = compiled_for(device, model);
    ANeuralNetworksBurst* burst = NULL;
    ANeuralNetworksMemoryDesc* desc = NULL;
    ANeuralNetworksMemory *memory = NULL, *file = NULL;
    int fd = memfd_create("death", 0);
    TRUE_THAT(fd > 0 && ftruncate(fd, sizeof a) == 0);
    OK(ANeuralNetworksMemory_createFromFd(sizeof a, PROT_READ | PROT_WRITE, fd, 0, &file));
    OK(ANeuralNetworksMemoryDesc_create(&desc));
    OK(ANeuralNetworksMemoryDesc_addInputRole(desc, compilation, 0, 1.0f));
    OK(ANeuralNetworksMemoryDesc_finish(desc));
    OK(ANeuralNetworksMemory_createFromDesc(desc, &memory));
    OK(ANeuralNetworksMemory_copy(file, memory));
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, burst, way));

    kill_server(ALL);
    for (enum way way = SYNC; way < WAYS; way++) EXPECT(of_dead(way), run(compilation, burst, way));
    ANeuralNetworksMemory* none = NULL;
    ANeuralNetworksBurst* stillborn = NULL;
    EXPECT(ANEURALNETWORKS_DEAD_OBJECT, ANeuralNetworksBurst_create(compilation, &stillborn));
    TRUE_THAT(stillborn == NULL);
    EXPECT(ANEURALNETWORKS_OP_FAILED, ANeuralNetworksMemory_copy(file, memory));
    EXPECT(ANEURALNETWORKS_OP_FAILED, ANeuralNetworksMemory_createFromDesc(desc, &none));
    TRUE_THAT(none == NULL);
    /* Nobody serves: a call says so, and doesn't wait. What was asked at the beginning is known. */
    ANeuralNetworksCompilation* second = NULL;
    const char* version = NULL;
    OK(ANeuralNetworksDevice_getVersion(device, &version));
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &second));
    EXPECT(ANEURALNETWORKS_DEAD_OBJECT, ANeuralNetworksCompilation_finish(second));
    ANeuralNetworksCompilation_free(second);

    /* Waiting starts the service again. The dead stay dead. */
    OK(ANeuralNetworksDevice_wait(device));
    for (enum way way = SYNC; way < WAYS; way++) EXPECT(of_dead(way), run(compilation, burst, way));
    EXPECT(ANEURALNETWORKS_DEAD_OBJECT, ANeuralNetworksBurst_create(compilation, &stillborn));
    TRUE_THAT(stillborn == NULL);
    EXPECT(ANEURALNETWORKS_OP_FAILED, ANeuralNetworksMemory_copy(file, memory));
    /* Who came back knows nothing of the models of before. */
    EXPECT(ANEURALNETWORKS_BAD_DATA, ANeuralNetworksMemory_createFromDesc(desc, &none));
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksMemory_free(memory);
    ANeuralNetworksMemory_free(file);
    ANeuralNetworksMemoryDesc_free(desc);
    close(fd);

    compilation = compiled_for(device, model);
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, burst, way));
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);

    /* Somebody else starts it: the next call connects by itself. */
    kill_server(ALL);
    TRUE_THAT(system(getenv("NNBURST_TEST_SERVICE")) == 0);
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &second));
    int code = ANeuralNetworksCompilation_finish(second);
    for (int tries = 0; code == ANEURALNETWORKS_DEAD_OBJECT && tries < 6000; tries++) {
        ANeuralNetworksCompilation_free(second);
        pause_ms(5);
        OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &second));
        code = ANeuralNetworksCompilation_finish(second);
    }
    OK(code);
    OK(run(second, NULL, SYNC));
    ANeuralNetworksCompilation_free(second);
    ANeuralNetworksModel_free(model);
}

static ANeuralNetworksModel* one_operation(int32_t output, ANeuralNetworksOperationType kind,
                                           bool has_constant) {
    static const uint32_t shape[] = {1}, in[] = {0, 0}, sum[] = {0, 2, 3}, out[] = {1};
    static const int32_t one = 1, none = ANEURALNETWORKS_FUSED_NONE;
    ANeuralNetworksOperandType number = tensor(shape, 1), result = number;
    const ANeuralNetworksOperandType activation = scalar(ANEURALNETWORKS_INT32);
    number.type = ANEURALNETWORKS_TENSOR_INT32;
    result.type = output;
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &number));
    OK(ANeuralNetworksModel_addOperand(model, &result));
    if (has_constant) {
        OK(ANeuralNetworksModel_addOperand(model, &number));
        OK(ANeuralNetworksModel_addOperand(model, &activation));
        OK(ANeuralNetworksModel_setOperandValue(model, 2, &one, sizeof one));
        OK(ANeuralNetworksModel_setOperandValue(model, 3, &none, sizeof none));
    }
    OK(has_constant ? ANeuralNetworksModel_addOperation(model, kind, 3, sum, 1, out)
                    : ANeuralNetworksModel_addOperation(model, kind, 2, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    return model;
}

/* Counts as long as a number equals itself. */
static ANeuralNetworksModel* endless(void) {
    static const uint32_t shape[] = {1}, loop[] = {0, 1, 2}, in[] = {2}, out[] = {3};
    ANeuralNetworksModel* condition =
        one_operation(ANEURALNETWORKS_TENSOR_BOOL8, ANEURALNETWORKS_EQUAL, false);
    ANeuralNetworksModel* body =
        one_operation(ANEURALNETWORKS_TENSOR_INT32, ANEURALNETWORKS_ADD, true);
    ANeuralNetworksOperandType number = tensor(shape, 1), graph = scalar(ANEURALNETWORKS_MODEL);
    number.type = ANEURALNETWORKS_TENSOR_INT32;
    ANeuralNetworksModel* model = NULL;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &graph));
    OK(ANeuralNetworksModel_addOperand(model, &graph));
    OK(ANeuralNetworksModel_addOperand(model, &number));
    OK(ANeuralNetworksModel_addOperand(model, &number));
    OK(ANeuralNetworksModel_setOperandValueFromModel(model, 0, condition));
    OK(ANeuralNetworksModel_setOperandValueFromModel(model, 1, body));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_WHILE, 3, loop, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, in, 1, out));
    OK(ANeuralNetworksModel_finish(model));
    ANeuralNetworksModel_free(condition);
    ANeuralNetworksModel_free(body);
    return model;
}

/* Kills the driver in a while, from a process of its own: the caller waits for an execution. */
static void kill_server_soon(const char* driver) {
    pid_t pid = server(driver), killer = fork();
    TRUE_THAT(killer >= 0);
    if (killer == 0) {
        pause_ms(100);
        kill(pid, SIGKILL);
        _exit(0);
    }
}

static void in_the_middle(const ANeuralNetworksDevice* device) {
    ANeuralNetworksModel* model = endless();
    for (enum way way = SYNC; way < WAYS; way++) {
        ANeuralNetworksCompilation* compilation = compiled_for(device, model);
        ANeuralNetworksBurst* burst = NULL;
        ANeuralNetworksExecution* execution = NULL;
        ANeuralNetworksEvent* event = NULL;
        ANeuralNetworksMemory* memory = NULL;
        int32_t start = 0;
        int fd = memfd_create("count", 0);
        TRUE_THAT(fd > 0 && ftruncate(fd, sizeof start) == 0);
        OK(ANeuralNetworksMemory_createFromFd(sizeof start, PROT_READ | PROT_WRITE, fd, 0, &memory));
        OK(ANeuralNetworksBurst_create(compilation, &burst));
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, &start, sizeof start));
        OK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, memory, 0, sizeof start));
        OK(ANeuralNetworksExecution_setLoopTimeout(execution, UINT64_MAX));
        int code = 0;
        /* What only launches is launched first, however long that takes. */
        if (way == SYNC || way == BURST) kill_server_soon(ALL);
        switch (way) {
            case SYNC: code = ANeuralNetworksExecution_compute(execution); break;
            case BURST: code = ANeuralNetworksExecution_burstCompute(execution, burst); break;
            case ASYNC: OK(ANeuralNetworksExecution_startCompute(execution, &event)); break;
            default:
                OK(ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event));
        }
        if (event) kill_server_soon(ALL);
        if (event) code = ANeuralNetworksEvent_wait(event);
        EXPECT(ANEURALNETWORKS_OP_FAILED, code);
        uint32_t rank = 0;
        BAD_STATE(ANeuralNetworksExecution_getOutputOperandRank(execution, 0, &rank));
        ANeuralNetworksEvent_free(event);
        ANeuralNetworksExecution_free(execution);
        ANeuralNetworksMemory_free(memory);
        close(fd);
        ANeuralNetworksBurst_free(burst);
        ANeuralNetworksCompilation_free(compilation);
        OK(ANeuralNetworksDevice_wait(device));
    }
    ANeuralNetworksModel_free(model);
}

/* Killed while one execution follows the other, at whatever point of one of them. */
static void in_a_loop(const ANeuralNetworksDevice* device) {
    ANeuralNetworksModel* model = add_model();
    for (int round = 0; round < 2 * WAYS; round++) {
        const enum way way = (enum way)(round % WAYS);
        struct room room = new_room(), *used = round < WAYS ? &room : NULL;
        ANeuralNetworksCompilation* compilation = compiled_for(device, model);
        ANeuralNetworksBurst* burst = NULL;
        OK(ANeuralNetworksBurst_create(compilation, &burst));
        OK(run_in(compilation, burst, way, used));
        kill_server_soon(ALL);
        int code = 0;
        while (code == 0) code = run_in(compilation, burst, way, used);
        /* A fenced execution may have been launched, and is then as the others. */
        TRUE_THAT(code == ANEURALNETWORKS_OP_FAILED || code == of_dead(way));
        for (enum way later = SYNC; later < WAYS; later++) {
            EXPECT(of_dead(later), run_in(compilation, burst, later, used));
            EXPECT(of_dead(later), run_in(compilation, burst, later, used ? NULL : &room));
        }
        ANeuralNetworksBurst* second = NULL;
        EXPECT(ANEURALNETWORKS_DEAD_OBJECT, ANeuralNetworksBurst_create(compilation, &second));
        if (round % 2) free_room(room);
        ANeuralNetworksBurst_free(second);
        ANeuralNetworksBurst_free(burst);
        ANeuralNetworksCompilation_free(compilation);
        if (!(round % 2)) free_room(room);
        OK(ANeuralNetworksDevice_wait(device));
    }
    ANeuralNetworksModel_free(model);
}

/* Where the library chose the device, nnapi-reference takes over. */
static void with_fallback(void) {
    TRUE_THAT(device_called(FAST) != NULL);
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksCompilation_create(model, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, burst, way));
    kill_server(FAST);
    for (enum way way = SYNC; way < WAYS; way++) OK(run(compilation, burst, way));
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);
    /* New compilations find another way as well. */
    OK(ANeuralNetworksCompilation_create(model, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(run(compilation, NULL, SYNC));
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

int main(void) {
    const ANeuralNetworksDevice* device = device_called(ALL);
    TRUE_THAT(device != NULL);
    signal(SIGCHLD, SIG_DFL);
    between_executions(device);
    in_the_middle(device);
    in_a_loop(device);
    with_fallback();
    return 0;
}
