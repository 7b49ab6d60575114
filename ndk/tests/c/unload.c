/* A program with a SIGBUS handler of its own that loads the library, computes, and closes it, again and again. */
#define _GNU_SOURCE
#include <NeuralNetworks.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 40
#define COUNT 4

#define TRUE_THAT(what)                                                \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static void* library;
/* A function of the library by its name, of the type that the header gives it. */
#define AT(name) (__extension__(__typeof__(&name)) dlsym(library, #name))
#define OK(name, ...) TRUE_THAT(AT(name)(__VA_ARGS__) == ANEURALNETWORKS_NO_ERROR)

static sigjmp_buf back;
static volatile sig_atomic_t handled;

static void on_sigbus(int signal, siginfo_t* info, void* context) {
    (void)context;
    TRUE_THAT(signal == SIGBUS);
    handled++;
    /* One that was sent goes on where it came; a fault would come again. */
    if (info->si_code > 0) siglongjmp(back, 1);
}

/* out = in + in, from memory that can be cut short, which is what the library handles SIGBUS for. */
static void compute(void) {
    const uint32_t shape[] = {COUNT}, in[] = {0, 1, 2}, out[] = {3};
    const ANeuralNetworksOperandType type = {
        .type = ANEURALNETWORKS_TENSOR_FLOAT32, .dimensionCount = 1, .dimensions = shape};
    const ANeuralNetworksOperandType activation = {.type = ANEURALNETWORKS_INT32};
    const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const float values[COUNT] = {1, 2, 3, 4};
    float sum[COUNT] = {0};
    ANeuralNetworksModel* model = NULL;
    ANeuralNetworksCompilation* compilation = NULL;
    ANeuralNetworksMemory* memory = NULL;
    ANeuralNetworksExecution* execution = NULL;
    int fd = memfd_create("input", MFD_CLOEXEC);
    TRUE_THAT(fd >= 0 && write(fd, values, sizeof values) == sizeof values);
    OK(ANeuralNetworksModel_create, &model);
    OK(ANeuralNetworksModel_addOperand, model, &type);
    OK(ANeuralNetworksModel_addOperand, model, &type);
    OK(ANeuralNetworksModel_addOperand, model, &activation);
    OK(ANeuralNetworksModel_addOperand, model, &type);
    OK(ANeuralNetworksModel_setOperandValue, model, 2, &none, sizeof none);
    OK(ANeuralNetworksModel_addOperation, model, ANEURALNETWORKS_ADD, 3, in, 1, out);
    OK(ANeuralNetworksModel_identifyInputsAndOutputs, model, 2, in, 1, out);
    OK(ANeuralNetworksModel_finish, model);
    OK(ANeuralNetworksCompilation_create, model, &compilation);
    OK(ANeuralNetworksCompilation_finish, compilation);
    OK(ANeuralNetworksMemory_createFromFd, sizeof values, PROT_READ | PROT_WRITE, fd, 0, &memory);
    OK(ANeuralNetworksExecution_create, compilation, &execution);
    OK(ANeuralNetworksExecution_setInputFromMemory, execution, 0, NULL, memory, 0, sizeof values);
    OK(ANeuralNetworksExecution_setInputFromMemory, execution, 1, NULL, memory, 0, sizeof values);
    OK(ANeuralNetworksExecution_setOutput, execution, 0, NULL, sum, sizeof sum);
    OK(ANeuralNetworksExecution_compute, execution);
    for (int at = 0; at < COUNT; at++) TRUE_THAT(sum[at] == 2 * values[at]);
    AT(ANeuralNetworksExecution_free)(execution);
    AT(ANeuralNetworksMemory_free)(memory);
    AT(ANeuralNetworksCompilation_free)(compilation);
    AT(ANeuralNetworksModel_free)(model);
    close(fd);
}

/* The program's own fault: its handler gets it, whatever was loaded in between. */
static void fault(void) {
    int fd = memfd_create("short", MFD_CLOEXEC);
    TRUE_THAT(fd >= 0 && ftruncate(fd, 4096) == 0);
    volatile char* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    TRUE_THAT(page != MAP_FAILED && ftruncate(fd, 0) == 0);
    int before = handled;
    if (sigsetjmp(back, 1) == 0) {
        (void)*page;
        TRUE_THAT(!"read past the end of a file");
    }
    TRUE_THAT(handled == before + 1);
    munmap((void*)page, 4096);
    close(fd);
}

static struct sigaction before_later;
static volatile sig_atomic_t later;

/* One that is installed over the library's, and calls it for all that it doesn't want itself. */
static void on_sigbus_later(int signal, siginfo_t* info, void* context) {
    later++;
    before_later.sa_sigaction(signal, info, context);
}

/* The library puts itself in front again when it maps such a memory next, and nothing goes round in circles. */
static void installed_later(void) {
    struct sigaction action, now;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigbus_later;
    action.sa_flags = SA_SIGINFO;
    TRUE_THAT(sigaction(SIGBUS, &action, &before_later) == 0);
    TRUE_THAT(before_later.sa_sigaction != on_sigbus);
    fault();
    TRUE_THAT(later == 1);
    compute();
    TRUE_THAT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_sigbus_later);
    for (int round = 0; round < 3; round++) {
        fault();
        TRUE_THAT(later == 2 + round);
    }
}

int main(void) {
    struct sigaction action, now;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO;
    TRUE_THAT(sigaction(SIGBUS, &action, NULL) == 0);
    fault();
    for (int round = 0; round < ROUNDS; round++) {
        library = dlopen("libneuralnetworks.so", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) fprintf(stderr, "%s\n", dlerror());
        TRUE_THAT(library != NULL);
        compute();
        TRUE_THAT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_sigbus);
        TRUE_THAT(dlclose(library) == 0);
        fault();
        int before = handled;
        TRUE_THAT(raise(SIGBUS) == 0 && handled == before + 1);
    }
    library = dlopen("libneuralnetworks.so", RTLD_NOW | RTLD_LOCAL);
    TRUE_THAT(library != NULL);
    installed_later();
    return 0;
}
