/* A host of the delegate in C: as much of an interpreter as a delegate sees, with its own idea of TFLite's structs.
 *
 *     host LIBRARY MODEL ORDER [KEY VALUE]..
 *
 * MODEL has one graph, which tests/host.rs writes: host_out = -max(host_in, host_least). ORDER is that of the end:
 * `right`, `delegate-first`, `model-first` (the delegate, then the model's mapping), `nothing-freed`, `threads` or
 * `pipeline`, which ends as model-first and has tensors lie in its own buffers, as NNStreamer does. Exits with 0 where everything is as it should be.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { int size; int data[]; } IntArray;
typedef struct { float scale; int32_t zero_point; } QuantizationParams;
typedef struct { int type; void *params; } Quantization;
struct Delegate;
typedef struct {
    int type;
    void *data;
    IntArray *dims;
    QuantizationParams params;
    int allocation_type;
    size_t bytes;
    const void *allocation;
    const char *name;
    struct Delegate *delegate;
    int buffer_handle;
    bool data_is_stale, is_variable;
    Quantization quantization;
    void *sparsity;
    const IntArray *dims_signature;
} Tensor;
typedef struct {
    IntArray *inputs, *outputs, *intermediates, *temporaries;
    void *user_data, *builtin_data;
    const void *custom_initial_data;
    int custom_initial_data_size;
    struct Delegate *delegate;
    bool might_have_side_effect;
} Node;
struct Context;
typedef struct {
    void *(*init)(struct Context *, const char *, size_t);
    void (*free)(struct Context *, void *);
    int (*prepare)(struct Context *, Node *);
    int (*invoke)(struct Context *, Node *);
    const char *(*profiling_string)(const struct Context *, const Node *);
    int32_t builtin_code;
    const char *custom_name;
    int version;
    void *registration_external, *async_kernel;
    uint64_t inplace_operator;
} Registration;
typedef struct { struct Delegate *delegate; IntArray *nodes, *inputs, *outputs; } DelegateParams;
typedef struct Context {
    size_t tensors_size;
    int (*get_execution_plan)(struct Context *, IntArray **);
    Tensor *tensors;
    void *impl;
    int (*resize_tensor)(struct Context *, Tensor *, IntArray *);
    void (*report_error)(struct Context *, const char *, ...);
    void *add_tensors;
    int (*get_node_and_registration)(struct Context *, int, Node **, Registration **);
    int (*replace_node_subsets)(struct Context *, Registration, const IntArray *, struct Delegate *);
    int recommended_num_threads;
    void *get_external_context, *set_external_context;
    bool allow_fp32_relax_to_fp16;
    void *profiler, *allocate_persistent_buffer, *allocate_buffer_for_eval, *request_scratch_buffer_in_arena;
    void *get_scratch_buffer, *resize_tensor_explicit;
    int (*preview_delegate_partitioning)(struct Context *, const IntArray *, DelegateParams **, int *);
    void *get_tensor, *get_eval_tensor, *get_model_metadata, *acquire_subgraph_context, *release_subgraph_context;
} Context;
typedef struct Delegate {
    void *data;
    int (*prepare)(Context *, struct Delegate *);
    void *copy_from, *copy_to, *free_buffer_handle;
    int64_t flags;
    void *opaque_delegate_builder;
} Delegate;
typedef Delegate *(*Create)(const char **, const char **, size_t, void (*)(const char *));
typedef void (*Destroy)(Delegate *);

enum { F32 = 1, MMAP_RO = 1, ARENA_RW = 2, DYNAMIC = 4, MAXIMUM = 55, NEG = 59, TENSORS = 4, NODES = 2 };
enum { IN, LEAST, LARGER, OUT };
static const float least = 12345.625f;

/* An interpreter of one graph. `context` comes first: `impl` of calls is the interpreter. */
typedef struct {
    Context context;
    Tensor tensors[TENSORS];
    Node nodes[NODES];
    Registration registrations[NODES];
    IntArray *plan, *both;
    DelegateParams partition;
    Registration kernel;
    Node delegated;
    char error[1000];
    void *model;
    size_t model_bytes;
    int resized;
} Interpreter;

static void expect(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

static IntArray *array(int count, ...) {
    IntArray *made = malloc(sizeof(IntArray) + count * sizeof(int));
    va_list numbers;
    va_start(numbers, count);
    made->size = count;
    for (int at = 0; at < count; at++) made->data[at] = va_arg(numbers, int);
    va_end(numbers);
    return made;
}

static int get_execution_plan(Context *context, IntArray **plan) {
    Interpreter *it = context->impl;
    *plan = it->plan;
    return 0;
}

static void allocate(Tensor *tensor) {
    size_t count = 1;
    for (int at = 0; at < tensor->dims->size; at++) count *= tensor->dims->data[at];
    tensor->bytes = count * sizeof(float);
    free(tensor->data);
    tensor->data = aligned_alloc(64, (tensor->bytes + 63) / 64 * 64);
}

static int resize_tensor(Context *context, Tensor *tensor, IntArray *dims) {
    expect(tensor >= context->tensors && tensor < context->tensors + TENSORS, "the tensor is the host's");
    ((Interpreter *)context->impl)->resized++;
    free(tensor->dims);
    tensor->dims = dims;
    allocate(tensor);
    return 0;
}

static void report_error(Context *context, const char *format, ...) {
    Interpreter *it = context->impl;
    va_list values;
    va_start(values, format);
    vsnprintf(it->error, sizeof it->error, format, values);
    va_end(values);
}

static int get_node_and_registration(Context *context, int index, Node **node, Registration **registration) {
    Interpreter *it = context->impl;
    if (index < 0 || index >= NODES) return 1;
    *node = &it->nodes[index];
    *registration = &it->registrations[index];
    return 0;
}

static int preview(Context *context, const IntArray *nodes, DelegateParams **params, int *count) {
    Interpreter *it = context->impl;
    expect(nodes->size == NODES, "all nodes are asked for");
    *params = &it->partition;
    *count = 1;
    return 0;
}

static int replace(Context *context, Registration kernel, const IntArray *nodes, Delegate *delegate) {
    Interpreter *it = context->impl;
    expect(nodes->size == NODES, "all nodes are replaced");
    it->kernel = kernel;
    it->partition.delegate = delegate;
    /* A partition that was not chosen: init succeeds, prepare reports. */
    DelegateParams other = it->partition;
    other.nodes = it->partition.outputs;
    Node wrong = {.inputs = other.inputs, .outputs = other.outputs};
    wrong.user_data = kernel.init(context, (const char *)&other, 0);
    expect(wrong.user_data != NULL && wrong.user_data != (void *)-1, "init succeeds");
    expect(kernel.prepare(context, &wrong) != 0 && strstr(it->error, "not one that was chosen"), "prepare reports");
    kernel.free(context, wrong.user_data);
    it->delegated = (Node){.inputs = it->partition.inputs, .outputs = it->partition.outputs, .delegate = delegate};
    it->delegated.user_data = kernel.init(context, (const char *)&it->partition, 0);
    return kernel.prepare(context, &it->delegated);
}

static void *found(const Interpreter *it, const void *bytes, size_t count) {
    void *place = memmem(it->model, it->model_bytes, bytes, count);
    expect(place != NULL, "the model has what the host looks for");
    return place;
}

static void open_model(Interpreter *it, const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    expect(file >= 0 && fstat(file, &about) == 0, "the model can be opened");
    it->model_bytes = about.st_size;
    it->model = mmap(NULL, it->model_bytes, PROT_READ, MAP_SHARED, file, 0);
    expect(it->model != MAP_FAILED, "the model can be mapped");
    close(file);
}

static Interpreter *interpreter(const char *path) {
    Interpreter *it = calloc(1, sizeof *it);
    open_model(it, path);
    it->context = (Context){
        .tensors_size = TENSORS, .get_execution_plan = get_execution_plan, .tensors = it->tensors, .impl = it,
        .resize_tensor = resize_tensor, .report_error = report_error,
        .get_node_and_registration = get_node_and_registration, .replace_node_subsets = replace,
        .recommended_num_threads = -1, .preview_delegate_partitioning = preview};
    static const char *names[TENSORS] = {"host_in", "host_least", "host_larger", "host_out"};
    for (int at = 0; at < TENSORS; at++) {
        Tensor *tensor = &it->tensors[at];
        tensor->type = F32;
        tensor->allocation_type = at == LEAST ? MMAP_RO : ARENA_RW;
        tensor->name = found(it, names[at], strlen(names[at]) + 1);
        tensor->dims = at == LEAST ? array(1, 1) : array(2, 1, 4);
        tensor->bytes = at == LEAST ? sizeof least : 4 * sizeof(float);
    }
    it->tensors[LEAST].data = found(it, &least, sizeof least);
    it->nodes[0] = (Node){.inputs = array(2, IN, LEAST), .outputs = array(1, LARGER)};
    it->nodes[1] = (Node){.inputs = array(1, LARGER), .outputs = array(1, OUT)};
    it->registrations[0] = (Registration){.builtin_code = MAXIMUM, .version = 1};
    it->registrations[1] = (Registration){.builtin_code = NEG, .version = 1};
    it->plan = array(2, 0, 1);
    it->both = array(2, 0, 1);
    it->partition = (DelegateParams){.nodes = it->both, .inputs = array(2, IN, LEAST), .outputs = array(1, OUT)};
    return it;
}

static void end_model(Interpreter *it) {
    munmap(it->model, it->model_bytes);
}

static void end_kernel(Interpreter *it) {
    it->kernel.free(&it->context, it->delegated.user_data);
}

static void end_interpreter(Interpreter *it) {
    for (int at = 0; at < TENSORS; at++) {
        free(it->tensors[at].dims);
        if (at != LEAST) free(it->tensors[at].data);
    }
    for (int at = 0; at < NODES; at++) {
        free(it->nodes[at].inputs);
        free(it->nodes[at].outputs);
    }
    free(it->plan);
    free(it->both);
    free(it->partition.inputs);
    free(it->partition.outputs);
    free(it);
}

static void invoke(Interpreter *it) {
    float *in = it->tensors[IN].data;
    size_t count = it->tensors[IN].bytes / sizeof(float);
    for (size_t at = 0; at < count; at++) in[at] = (float)at * 9000;
    int status = it->kernel.invoke(&it->context, &it->delegated);
    if (status != 0) fprintf(stderr, "%s", it->error);
    expect(status == 0, "invoke succeeds");
    const float *out = it->tensors[OUT].data;
    expect(it->tensors[OUT].bytes == it->tensors[IN].bytes, "the output has the input's size");
    for (size_t at = 0; at < count; at++) expect(out[at] == -(in[at] > least ? in[at] : least), "the values are right");
}

/* Prepared, resized, run: everything but the end. */
static void live(Interpreter *it, Delegate *delegate) {
    int status = delegate->prepare(&it->context, delegate);
    if (status != 0) fprintf(stderr, "%s", it->error);
    expect(status == 0, "the graph is delegated");
    expect(it->kernel.invoke(&it->context, &it->delegated) != 0 && strstr(it->error, "no value"), "no values yet");
    allocate(&it->tensors[IN]);
    allocate(&it->tensors[OUT]);
    for (int at = 0; at < 3; at++) invoke(it);
    for (int rows = 3; rows > 0; rows--) {
        free(it->tensors[IN].dims);
        it->tensors[IN].dims = array(2, rows, 4);
        allocate(&it->tensors[IN]);
        for (int at = 0; at < 3; at++) expect(it->kernel.prepare(&it->context, &it->delegated) == 0, "prepared again");
        invoke(it);
    }
}

/* Each frame comes in a buffer of its own, and leaves in one: no memory is the interpreter's. */
static void stream(Interpreter *it, Delegate *delegate, int allocation) {
    it->tensors[IN].allocation_type = allocation;
    expect(delegate->prepare(&it->context, delegate) == 0, "the graph is delegated");
    expect(it->tensors[OUT].allocation_type == allocation, "an output is dynamic if the input is");
    for (int frame = 0; frame < 5; frame++) {
        struct { _Alignas(16) char before[64]; char values[4 * sizeof(float)], behind[64]; } in, out, around;
        memset(&out, frame, sizeof out);
        memset(&around, frame, sizeof around);
        it->tensors[IN].data = in.values;
        it->tensors[OUT].data = out.values;
        invoke(it);
        expect(it->tensors[OUT].data == out.values, "the output lies where the pipeline wants it");
        expect(!memcmp(out.before, around.before, 64) && !memcmp(out.behind, around.behind, 64), "nothing else is written");
        /* What is left there is not the interpreter's to free. */
        it->tensors[IN].data = it->tensors[OUT].data = NULL;
    }
    expect(it->resized == 0, "nothing is resized");
    if (allocation != DYNAMIC) return;
    /* Without a buffer the output is allocated, once, and again for another shape. */
    allocate(&it->tensors[IN]);
    for (int frame = 0; frame < 3; frame++) invoke(it);
    expect(it->resized == 1, "an output without memory is allocated");
    free(it->tensors[IN].dims);
    it->tensors[IN].dims = array(2, 3, 4);
    allocate(&it->tensors[IN]);
    for (int frame = 0; frame < 3; frame++) invoke(it);
    expect(it->resized == 2, "an output of another shape is resized");
}

static void complain(const char *text) { fprintf(stderr, "%s\n", text); }

static char kept[1000];
static void keep(const char *text) { snprintf(kept, sizeof kept, "%s", text); }

static Create create;
static Destroy destroy;
static const char **keys, **values, *model;
static size_t options;

static Delegate *made(void) {
    Delegate *delegate = create(keys, values, options, complain);
    expect(delegate != NULL && delegate->opaque_delegate_builder == NULL, "there is a delegate");
    return delegate;
}

static void *thread(void *shared) {
    for (int round = 0; round < 10; round++) {
        Interpreter *it = interpreter(model);
        Delegate *own = round % 2 ? made() : NULL;
        live(it, own ? own : shared);
        if (own) destroy(own);
        end_kernel(it);
        end_model(it);
        end_interpreter(it);
    }
    return NULL;
}

int main(int count, char **arguments) {
    expect(count >= 4 && count % 2 == 0, "host LIBRARY MODEL ORDER [KEY VALUE]..");
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    expect(library != NULL, "the library can be loaded");
    create = (Create)dlsym(library, "tflite_plugin_create_delegate");
    destroy = (Destroy)dlsym(library, "tflite_plugin_destroy_delegate");
    expect(create && destroy, "both functions are there");
    model = arguments[2];
    const char *order = arguments[3];
    options = (count - 4) / 2;
    keys = calloc(options + 1, sizeof *keys);
    values = calloc(options + 1, sizeof *values);
    for (size_t at = 0; at < options; at++) {
        keys[at] = arguments[4 + 2 * at];
        values[at] = arguments[5 + 2 * at];
    }
    destroy(NULL);
    Delegate *none = create(&(const char *){"nonsense"}, &(const char *){"1"}, 1, keep);
    expect(none == NULL && strstr(kept, "\"nonsense\"; known are device"), "a wrong option is refused");
    Delegate *delegate = made();
    if (!strcmp(order, "threads")) {
        pthread_t threads[4];
        for (int at = 0; at < 4; at++) pthread_create(&threads[at], NULL, thread, delegate);
        for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
        destroy(delegate);
    } else if (!strcmp(order, "pipeline")) {
        for (int turn = 0; turn < 4; turn++) {
            Interpreter *it = interpreter(model);
            /* TFLite's own loader in C++, which NNStreamer goes through, wants no reports. */
            Delegate *own = create(keys, values, options, NULL);
            expect(own != NULL, "there is a delegate without reports");
            stream(it, own, turn % 2 ? DYNAMIC : ARENA_RW);
            destroy(own);
            end_model(it);
            end_kernel(it);
            end_interpreter(it);
        }
        destroy(delegate);
    } else {
        Interpreter *it = interpreter(model);
        live(it, delegate);
        if (!strcmp(order, "right")) {
            end_kernel(it);
            destroy(delegate);
            end_model(it);
        } else if (!strcmp(order, "delegate-first")) {
            destroy(delegate);
            invoke(it);
            end_kernel(it);
            end_model(it);
        } else if (!strcmp(order, "model-first")) {
            destroy(delegate);
            end_model(it);
            invoke(it);
            end_kernel(it);
        } else {
            expect(!strcmp(order, "nothing-freed"), "the order is known");
            return 0;
        }
        end_interpreter(it);
    }
    dlclose(library);
    free(keys);
    free(values);
    return 0;
}
