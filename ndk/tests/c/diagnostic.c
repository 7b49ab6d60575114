/* Call-backs of diagnostics: one for each compilation and execution, with what happened. */
#include "check.h"

#include <NeuralNetworksDiagnostic.h>
#include <pthread.h>
#include <unistd.h>

/* Asynchronous executions are reported by other threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int compilations, executions, session;
static int32_t compilation_code;
static uint32_t execution_code;
static uint8_t hash[32];
static ANeuralNetworksDiagnosticExecutionMode mode;
static uint64_t in_driver;
static const char context[] = "context";

static void compiled(const void* given, const ANeuralNetworksDiagnosticCompilationInfo* info) {
    pthread_mutex_lock(&lock);
    TRUE_THAT(given == context && info != NULL);
    compilations++;
    compilation_code = SL_ANeuralNetworksDiagnosticCompilationInfo_getErrorCode(info);
    session = SL_ANeuralNetworksDiagnosticCompilationInfo_getSessionId(info);
    memcpy(hash, SL_ANeuralNetworksDiagnosticCompilationInfo_getModelArchHash(info), sizeof hash);
    const char* devices = SL_ANeuralNetworksDiagnosticCompilationInfo_getDeviceIds(info);
    const char* name = getenv("NNBURST_TEST_DEVICE");
    TRUE_THAT(strncmp(devices, name ? name : "nnapi-reference", strlen(name ? name : "nnapi-reference")) == 0);
    TRUE_THAT(strchr(devices, '=') != NULL && strchr(devices, ',') == NULL);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticCompilationInfo_getNnApiVersion(info) == 30);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticCompilationInfo_getInputDataClass(info) == ANNDIAG_DATA_CLASS_FLOAT32);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticCompilationInfo_getOutputDataClass(info) == ANNDIAG_DATA_CLASS_FLOAT32);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticCompilationInfo_getCompilationTimeNanos(info) != UINT64_MAX);
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticCompilationInfo_isCachingEnabled(info));
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticCompilationInfo_isControlFlowUsed(info));
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticCompilationInfo_areDynamicTensorsUsed(info));
    pthread_mutex_unlock(&lock);
}

static void executed(const void* given, const ANeuralNetworksDiagnosticExecutionInfo* info) {
    pthread_mutex_lock(&lock);
    TRUE_THAT(given == context && info != NULL);
    executions++;
    execution_code = SL_ANeuralNetworksDiagnosticExecutionInfo_getErrorCode(info);
    mode = SL_ANeuralNetworksDiagnosticExecutionInfo_getExecutionMode(info);
    in_driver = SL_ANeuralNetworksDiagnosticExecutionInfo_getDriverExecutionTimeNanos(info);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getSessionId(info) == session && session != 0);
    TRUE_THAT(memcmp(SL_ANeuralNetworksDiagnosticExecutionInfo_getModelArchHash(info), hash, sizeof hash) == 0);
    TRUE_THAT(strchr(SL_ANeuralNetworksDiagnosticExecutionInfo_getDeviceIds(info), '=') != NULL);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getNnApiVersion(info) == 30);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getInputDataClass(info) == ANNDIAG_DATA_CLASS_FLOAT32);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getOutputDataClass(info) == ANNDIAG_DATA_CLASS_FLOAT32);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getRuntimeExecutionTimeNanos(info) != UINT64_MAX);
    (void)SL_ANeuralNetworksDiagnosticExecutionInfo_getHardwareExecutionTimeNanos(info);
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticExecutionInfo_isCachingEnabled(info));
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticExecutionInfo_isControlFlowUsed(info));
    TRUE_THAT(!SL_ANeuralNetworksDiagnosticExecutionInfo_areDynamicTensorsUsed(info));
    pthread_mutex_unlock(&lock);
}

/* One execution by this mode; the code that it ends with. */
static int run(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst* burst, int by, bool measure,
               size_t room) {
    static const float a[COUNT] = {1, 2, 3, 4};
    float sum[COUNT] = {0};
    ANeuralNetworksExecution* execution = NULL;
    ANeuralNetworksEvent* event = NULL;
    int code = 0;
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, room));
    OK(ANeuralNetworksExecution_setMeasureTiming(execution, measure));
    if (by == ANNDIAG_EXECUTION_MODE_SYNC) {
        code = ANeuralNetworksExecution_compute(execution);
    } else if (by == ANNDIAG_EXECUTION_MODE_BURST) {
        code = ANeuralNetworksExecution_burstCompute(execution, burst);
    } else if (by == ANNDIAG_EXECUTION_MODE_ASYNC) {
        code = ANeuralNetworksExecution_startCompute(execution, &event);
    } else {
        code = ANeuralNetworksExecution_startComputeWithDependencies(execution, NULL, 0, 0, &event);
    }
    if (event) code = ANeuralNetworksEvent_wait(event);
    if (event) TRUE_THAT(ANeuralNetworksEvent_wait(event) == code);
    ANeuralNetworksEvent_free(event);
    ANeuralNetworksExecution_free(execution);
    return code;
}

int main(void) {
    TRUE_THAT(SL_ANeuralNetworksDiagnosticCompilationInfo_getCompilationTimeNanos(NULL) == UINT64_MAX);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getDeviceIds(NULL) == NULL);
    TRUE_THAT(SL_ANeuralNetworksDiagnosticExecutionInfo_getExecutionMode(NULL) == ANNDIAG_EXECUTION_MODE_UNKNOWN);

    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* before = compile(model);
    SL_ANeuralNetworksDiagnostic_registerCallbacks(compiled, executed, (void*)context);
    OK(run(before, NULL, ANNDIAG_EXECUTION_MODE_SYNC, false, sizeof(float) * COUNT));
    TRUE_THAT(compilations == 0 && executions == 0);
    ANeuralNetworksCompilation_free(before);

    ANeuralNetworksCompilation* compilation = compile(model);
    TRUE_THAT(compilations == 1 && compilation_code == ANEURALNETWORKS_NO_ERROR);
    BAD_STATE(ANeuralNetworksCompilation_finish(compilation));
    TRUE_THAT(compilations == 1);
    ANeuralNetworksBurst* burst = NULL;
    OK(ANeuralNetworksBurst_create(compilation, &burst));
    int expected = 0;
    for (int by = ANNDIAG_EXECUTION_MODE_ASYNC; by <= ANNDIAG_EXECUTION_MODE_ASYNC_WITH_DEPS; by++)
        for (int measure = 0; measure < 2; measure++) {
            OK(run(compilation, burst, by, measure, sizeof(float) * COUNT));
            pthread_mutex_lock(&lock);
            TRUE_THAT(executions == ++expected && (int)mode == by && execution_code == 0);
            TRUE_THAT(measure || in_driver == UINT64_MAX);
            pthread_mutex_unlock(&lock);
        }

    /* Without executions' call-back; the other one stays the same. */
    SL_ANeuralNetworksDiagnostic_registerCallbacks(compiled, NULL, (void*)context);
    OK(run(compilation, burst, ANNDIAG_EXECUTION_MODE_BURST, false, sizeof(float) * COUNT));
    TRUE_THAT(executions == expected);
    ANeuralNetworksBurst_free(burst);
    ANeuralNetworksCompilation_free(compilation);

    /* A compilation that fails. */
    ANeuralNetworksCompilation* late = NULL;
    const ANeuralNetworksDevice* device = tested();
    OK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &late));
    OK(ANeuralNetworksCompilation_setTimeout(late, 1));
    TRUE_THAT(ANeuralNetworksCompilation_finish(late) == compilation_code && compilations == 2);
    TRUE_THAT(compilation_code != ANEURALNETWORKS_NO_ERROR);
    ANeuralNetworksCompilation_free(late);
    SL_ANeuralNetworksDiagnostic_registerCallbacks(NULL, NULL, NULL);
    ANeuralNetworksModel_free(model);
    return 0;
}
