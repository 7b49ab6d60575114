/* A sum on whichever device the library chooses. */
#include "check.h"

int main(void) {
    const float a[COUNT] = {1, 2, 3, 4}, b[COUNT] = {10, 20, 30, 40};
    float sum[COUNT] = {0};
    ANeuralNetworksModel* model = add_model();
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksExecution* execution = NULL;
    OK(ANeuralNetworksCompilation_create(model, &compilation));
    OK(ANeuralNetworksCompilation_finish(compilation));
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, a, sizeof a));
    OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, b, sizeof b));
    OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
    OK(ANeuralNetworksExecution_compute(execution));
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == a[at] + b[at]);
    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    return 0;
}
