/* The program's signals are the program's: no thread of the library takes any. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

/* 1 on threads of the program's, 0 on the library's. */
static __thread int is_mine;
static volatile sig_atomic_t handled, elsewhere;

static void on_signal(int signal) {
    (void)signal;
    handled++;
    if (!is_mine) elsewhere++;
}

static unsigned long long field(const char* path, const char* format) {
    char line[256];
    unsigned long long value = 0;
    FILE* file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, format, &value) == 1) break;
    if (file != NULL) fclose(file);
    return value;
}

#define BIT(signal) (1ull << ((signal)-1))
#define FAULTS (BIT(SIGBUS) | BIT(SIGSEGV) | BIT(SIGFPE) | BIT(SIGILL))

/* Every thread but the main one blocks what a program handles, and takes what it brings upon itself. */
static int look_at_threads(void) {
    static const int blocked[] = {SIGALRM, SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1, SIGIO};
    int seen = 0;
    DIR* tasks = opendir("/proc/self/task");
    TRUE_THAT(tasks != NULL);
    for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) continue;
        unsigned long long mask = ~0ull;
        /* Threads that begin or end block all there is for a moment. */
        for (int look = 0; mask == ~0ull || (mask & FAULTS && look < 10000); look++) {
            mask = field(path, "SigBlk: %llx");
            if (mask & FAULTS) usleep(1000);
        }
        if (access(path, F_OK) != 0) continue; /* ended */
        for (size_t at = 0; at < sizeof blocked / sizeof *blocked; at++)
            TRUE_THAT(mask & BIT(blocked[at]));
        TRUE_THAT(!(mask & FAULTS));
        seen++;
    }
    closedir(tasks);
    return seen;
}

int main(void) {
    is_mine = 1;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    TRUE_THAT(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    TRUE_THAT(setitimer(ITIMER_REAL, &often, NULL) == 0);

    const float values[COUNT] = {1, 2, 3, 4};
    int threads = 0;
    ANeuralNetworksModel* model = add_model();
    for (int round = 0; round < 20; round++) {
        ANeuralNetworksCompilation* compilation = compile(model);
        ANeuralNetworksBurst* burst = NULL;
        OK(ANeuralNetworksBurst_create(compilation, &burst));
        for (int form = 0; form < 12; form++) {
            float sum[COUNT] = {0};
            ANeuralNetworksExecution* execution = NULL;
            ANeuralNetworksEvent* event = NULL;
            OK(ANeuralNetworksExecution_create(compilation, &execution));
            OK(ANeuralNetworksExecution_setInput(execution, 0, NULL, values, sizeof values));
            OK(ANeuralNetworksExecution_setInput(execution, 1, NULL, values, sizeof values));
            OK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sum, sizeof sum));
            kill(getpid(), SIGTERM);
            if (form % 3 == 0) {
                OK(ANeuralNetworksExecution_compute(execution));
            } else if (form % 3 == 1) {
                OK(ANeuralNetworksExecution_burstCompute(execution, burst));
            } else {
                OK(ANeuralNetworksExecution_startCompute(execution, &event));
                OK(ANeuralNetworksEvent_wait(event));
            }
            for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 2 * values[at]);
            ANeuralNetworksEvent_free(event);
            ANeuralNetworksExecution_free(execution);
        }
        threads += look_at_threads();
        ANeuralNetworksBurst_free(burst);
        ANeuralNetworksCompilation_free(compilation);
    }
    ANeuralNetworksModel_free(model);
    TRUE_THAT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    TRUE_THAT(threads > 0);
    TRUE_THAT(handled > 0 && elsewhere == 0);

    /* While the program's threads block a signal, nobody handles it. */
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    TRUE_THAT(pthread_sigmask(SIG_BLOCK, &mask, NULL) == 0);
    int before = handled;
    kill(getpid(), SIGTERM);
    usleep(20000);
    TRUE_THAT(handled == before);
    TRUE_THAT(pthread_sigmask(SIG_UNBLOCK, &mask, NULL) == 0);
    TRUE_THAT(handled == before + 1 && elsewhere == 0);
    return 0;
}
