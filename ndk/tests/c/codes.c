/* Result codes of a driver in another process: what can never be, and what can when something else is over. */
#define _GNU_SOURCE
#include "check.h"

#include <time.h>
#include <unistd.h>

/* More than any client may have: two tensors of nearly 4 GiB at a time. */
static void never_fits(const ANeuralNetworksDevice* device) {
    static const uint32_t column[] = {65536, 1}, row[] = {1, 65535}, whole[] = {65536, 65535}, one[] = {1}, two[] = {2};
    static const uint32_t add[] = {0, 1, 2}, mul[] = {5, 1, 2}, max[] = {5, 6}, reduce[] = {7, 3, 4};
    static const uint32_t given[] = {0, 1}, sum[] = {5}, product[] = {6}, larger[] = {7}, result[] = {8};
    static const int32_t none = ANEURALNETWORKS_FUSED_NONE, axes[] = {0, 1};
    static const bool keeps = false;
    ANeuralNetworksOperandType bytes = tensor(column, 2), numbers = tensor(two, 1);
    bytes.type = ANEURALNETWORKS_TENSOR_QUANT8_ASYMM;
    bytes.scale = 1;
    numbers.type = ANEURALNETWORKS_TENSOR_INT32;
    const ANeuralNetworksOperandType code = scalar(ANEURALNETWORKS_INT32), flag = scalar(ANEURALNETWORKS_BOOL);
    ANeuralNetworksModel* model = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksModel_create(&model));
    OK(ANeuralNetworksModel_addOperand(model, &bytes));
    bytes.dimensions = row;
    OK(ANeuralNetworksModel_addOperand(model, &bytes));
    OK(ANeuralNetworksModel_addOperand(model, &code));
    OK(ANeuralNetworksModel_addOperand(model, &numbers));
    OK(ANeuralNetworksModel_addOperand(model, &flag));
    bytes.dimensions = whole;
    for (int at = 0; at < 3; at++) {
        /* MUL wants a larger scale than that of its inputs' product; the others follow it. */
        bytes.scale = at == 0 ? 1 : 2;
        OK(ANeuralNetworksModel_addOperand(model, &bytes));
    }
    bytes.dimensions = one;
    bytes.dimensionCount = 1;
    OK(ANeuralNetworksModel_addOperand(model, &bytes));
    OK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
    OK(ANeuralNetworksModel_setOperandValue(model, 3, axes, sizeof axes));
    OK(ANeuralNetworksModel_setOperandValue(model, 4, &keeps, sizeof keeps));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add, 1, sum));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_MUL, 3, mul, 1, product));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_MAXIMUM, 2, max, 1, larger));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_REDUCE_MAX, 3, reduce, 1, result));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, given, 1, result));
    OK(ANeuralNetworksModel_finish(model));
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    EXPECT(ANEURALNETWORKS_RESOURCE_EXHAUSTED_PERSISTENT, ANeuralNetworksCompilation_finish(compilation));
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

/* Executions behind a fence keep descriptors and places until it signals: then there is room again. */
static void until_something_is_over(const ANeuralNetworksDevice* device) {
    enum { MOST = 1000 };
    static const float a[COUNT] = {1, 2, 3, 4};
    static ANeuralNetworksEvent* events[MOST];
    static ANeuralNetworksExecution* executions[MOST];
    static float sums[MOST][COUNT];
    int pipes[2], launched = 0, code = 0;
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksEvent* fence = NULL;
    const ANeuralNetworksEvent* wait_for[1];
    TRUE_THAT(pipe(pipes) == 0);
    OK(ANeuralNetworksEvent_createFromSyncFenceFd(pipes[0], &fence));
    wait_for[0] = fence;
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    for (int round = 0; round < 2; round++) {
        for (; launched < MOST; launched++) {
            ANeuralNetworksExecution** execution = &executions[launched];
            OK(ANeuralNetworksExecution_create(compilation, execution));
            OK(ANeuralNetworksExecution_setInput(*execution, 0, NULL, a, sizeof a));
            OK(ANeuralNetworksExecution_setInput(*execution, 1, NULL, a, sizeof a));
            OK(ANeuralNetworksExecution_setOutput(*execution, 0, NULL, sums[launched], sizeof a));
            code = ANeuralNetworksExecution_startComputeWithDependencies(*execution, wait_for, 1, 0, &events[launched]);
            if (code != 0) break;
            if (round == 1) break; /* There is room again. */
        }
        EXPECT(round == 0 ? ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT : 0, code);
        TRUE_THAT(launched < MOST && (launched > 0 || round == 1));
        if (round == 1) launched++;
        else ANeuralNetworksExecution_free(executions[launched]);
        if (round == 0) TRUE_THAT(write(pipes[1], "1", 1) == 1);
        for (int at = 0; at < launched; at++) {
            OK(ANeuralNetworksEvent_wait(events[at]));
            TRUE_THAT(sums[at][3] == 8);
            ANeuralNetworksEvent_free(events[at]);
            ANeuralNetworksExecution_free(executions[at]);
        }
        launched = 0;
    }
    ANeuralNetworksEvent_free(fence);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    close(pipes[0]);
    close(pipes[1]);
}

static uint64_t now(void) {
    struct timespec time;
    TRUE_THAT(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* A quarter of what the quickest run took is never enough. */
static void never_in_time(const ANeuralNetworksDevice* device) {
    enum { ROWS = 256, WIDTH = 1024, LAYERS = 6 };
    static float weights[WIDTH * WIDTH], bias[WIDTH], given[ROWS * WIDTH], result[ROWS * WIDTH];
    static const uint32_t square[] = {WIDTH, WIDTH}, line[] = {WIDTH}, picture[] = {ROWS, WIDTH};
    static const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    for (int at = 0; at < WIDTH * WIDTH; at++) weights[at] = (float)(at % 7) / WIDTH;
    const ANeuralNetworksOperandType types[] = {tensor(square, 2), tensor(line, 1), scalar(ANEURALNETWORKS_INT32)};
    const ANeuralNetworksOperandType values = tensor(picture, 2);
    ANeuralNetworksModel* model = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    OK(ANeuralNetworksModel_create(&model));
    for (int at = 0; at < 3; at++) OK(ANeuralNetworksModel_addOperand(model, &types[at]));
    for (int at = 0; at <= LAYERS; at++) OK(ANeuralNetworksModel_addOperand(model, &values));
    OK(ANeuralNetworksModel_setOperandValue(model, 0, weights, sizeof weights));
    OK(ANeuralNetworksModel_setOperandValue(model, 1, bias, sizeof bias));
    OK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
    for (uint32_t at = 0; at < LAYERS; at++) {
        const uint32_t in[] = {3 + at, 0, 1, 2}, out[] = {4 + at};
        OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_FULLY_CONNECTED, 4, in, 1, out));
    }
    const uint32_t first[] = {3}, last[] = {3 + LAYERS};
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, first, 1, last));
    OK(ANeuralNetworksModel_finish(model));
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    uint64_t quickest = UINT64_MAX, timeout = 0;
    int code = 0;
    /* On a busy machine a timeout may be over before the driver sees it. */
    for (int tries = 0; code != ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT; tries++) {
        TRUE_THAT(tries < 500);
        ANeuralNetworksExecution* execution = NULL;
        OK(ANeuralNetworksExecution_create(compilation, &execution));
        OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, given, sizeof given));
        OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, result, sizeof result));
        OK(ANeuralNetworksExecution_setTimeout(execution, timeout));
        const uint64_t start = now();
        code = ANeuralNetworksExecution_compute(execution);
        const uint64_t took = now() - start;
        if (tries < 3) {
            OK(code);
            quickest = took < quickest ? took : quickest;
        } else {
            TRUE_THAT(code == ANEURALNETWORKS_MISSED_DEADLINE_TRANSIENT ||
                      code == ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT);
        }
        if (tries >= 2) timeout = quickest / 4;
        ANeuralNetworksExecution_free(execution);
    }
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
}

int main(void) {
    const ANeuralNetworksDevice* device = tested();
    never_fits(device);
    until_something_is_over(device);
    never_in_time(device);
    return 0;
}
