/* Shapes known early, late, in part, or wrongly: each is accepted, refused or found out by the call that has to.
 *
 *     sum = ADD(a, column); out = TRANSPOSE(sum, order left out)
 *
 * One operand at a time is told as exactly as the case says, in the model and again with its argument; then the rows of
 * one operand are told wrongly, and the memory for the output made too small or too large. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

enum exactness { ALL, RANK_ONLY, NOTHING, NO_TYPE };
enum operand { A, COLUMN, SUM, ORDER, OUT, A_GIVEN, ORDER_GIVEN, OUT_GIVEN, OPERANDS };
enum room { HALF, EXACT, DOUBLE };

enum { ROWS = 2, WRONG_ROWS = 3 };

struct shape_case {
    enum exactness told[OPERANDS];
    enum operand wrong; /* OPERANDS: none */
    enum room room;
    bool order_is_input, in_memory;
    int32_t kind;
};

struct type {
    ANeuralNetworksOperandType type;
    uint32_t extents[2];
};

/* Extents of 0 stand for the rows. */
static void make(struct type* made, const struct shape_case* c, enum operand at, uint32_t rank,
                 uint32_t first, uint32_t second) {
    const uint32_t rows = c->wrong == at ? WRONG_ROWS : ROWS, asked[] = {first, second};
    memset(made, 0, sizeof *made);
    made->type.type = rank == 1 ? ANEURALNETWORKS_TENSOR_INT32 : c->kind;
    made->type.scale = made->type.type == ANEURALNETWORKS_TENSOR_QUANT8_ASYMM ? 1.0f : 0.0f;
    if (c->told[at] == NOTHING) return;
    for (uint32_t axis = 0; axis < rank; axis++) {
        made->extents[axis] = asked[axis] == 0 ? rows : c->told[at] == ALL ? asked[axis] : 0;
    }
    made->type.dimensionCount = rank;
    made->type.dimensions = made->extents;
}

static uint32_t element(const struct shape_case* c) {
    return c->kind == ANEURALNETWORKS_TENSOR_FLOAT32 ? 4 : 1;
}

static void fill(const struct shape_case* c, void* to, const uint8_t* values, int count) {
    for (int at = 0; at < count; at++) {
        if (element(c) == 4) {
            ((float*)to)[at] = values[at];
        } else {
            ((uint8_t*)to)[at] = values[at];
        }
    }
}

/* What a shape told with an argument may not be: less exact than the model's, or another. */
static bool contradicts(const struct shape_case* c, enum operand model, enum operand given) {
    bool is_wrong = c->wrong == model || c->wrong == given;
    switch (c->told[given]) {
        case ALL: return is_wrong && c->told[model] != NOTHING;
        case RANK_ONLY: return c->told[model] == ALL || (is_wrong && c->told[model] == RANK_ONLY);
        case NOTHING: return c->told[model] != NOTHING;
        default: return false;
    }
}

static int want_input(const struct shape_case* c) {
    enum exactness known = c->told[A_GIVEN] == NO_TYPE ? c->told[A] : c->told[A_GIVEN];
    bool is_open = known != ALL;
    bool has_wrong_size = c->told[A_GIVEN] == NO_TYPE && c->wrong == A;
    return is_open || has_wrong_size || contradicts(c, A, A_GIVEN) ? ANEURALNETWORKS_BAD_DATA : 0;
}

static int want_output(const struct shape_case* c) {
    enum exactness known = c->told[OUT_GIVEN] == NO_TYPE ? c->told[OUT] : c->told[OUT_GIVEN];
    bool has_wrong_size = c->room != EXACT || (c->told[OUT_GIVEN] == NO_TYPE && c->wrong == OUT);
    return (known == ALL && has_wrong_size) || contradicts(c, OUT, OUT_GIVEN)
               ? ANEURALNETWORKS_BAD_DATA
               : 0;
}

static int want_compute(const struct shape_case* c) {
    if (c->wrong != OPERANDS) return ANEURALNETWORKS_OP_FAILED;
    return c->room == HALF ? ANEURALNETWORKS_OUTPUT_INSUFFICIENT_SIZE : 0;
}

/* A buffer, or a memory that holds the same. */
struct place {
    int fd;
    ANeuralNetworksMemory* memory;
};

static struct place place(const struct shape_case* c, const void* bytes, size_t length) {
    struct place made = {-1, NULL};
    if (!c->in_memory) return made;
    made.fd = memfd_create("shapes", 0);
    TRUE_THAT(write(made.fd, bytes, length) == (ssize_t)length);
    OK(ANeuralNetworksMemory_createFromFd(length, PROT_READ | PROT_WRITE, made.fd, 0, &made.memory));
    return made;
}

static void leave(struct place place) {
    ANeuralNetworksMemory_free(place.memory);
    if (place.fd >= 0) close(place.fd);
}

static void execute(const struct shape_case* c, const ANeuralNetworksCompilation* compiled,
                    uint32_t columns) {
    static const uint8_t numbers[] = {1, 2, 3, 4, 5, 6}, none[16] = {0};
    static const uint8_t one_column[] = {2, 4}, two_columns[] = {2, 5, 3, 6};
    ANeuralNetworksCompilation* compilation = (ANeuralNetworksCompilation*)compiled;
    ANeuralNetworksExecution* execution = NULL;
    struct type type;
    float a[6], out[8];
    fill(c, a, numbers, 6);
    fill(c, out, none, 8);
    OK(ANeuralNetworksExecution_create(compilation, &execution));
    make(&type, c, A_GIVEN, 2, 0, columns);
    const ANeuralNetworksOperandType* given = c->told[A_GIVEN] == NO_TYPE ? NULL : &type.type;
    size_t length = (c->wrong == A_GIVEN ? WRONG_ROWS : ROWS) * columns * element(c);
    struct place in = place(c, a, length), to = {-1, NULL};
    int want = want_input(c);
    EXPECT(want, c->in_memory ? ANeuralNetworksExecution_setInputFromMemory(execution, 0, given,
                                                                            in.memory, 0, length)
                              : ANeuralNetworksExecution_setInput(execution, 0, given, a, length));
    if (want != 0) goto done;
    if (c->order_is_input) {
        make(&type, c, ORDER_GIVEN, 1, 2, 0);
        given = c->told[ORDER_GIVEN] == NO_TYPE ? NULL : &type.type;
        want = contradicts(c, ORDER, ORDER_GIVEN) ? ANEURALNETWORKS_BAD_DATA : 0;
        EXPECT(want, ANeuralNetworksExecution_setInput(execution, 1, given, NULL, 0));
        if (want != 0) goto done;
    }
    make(&type, c, OUT_GIVEN, 2, columns, 0);
    given = c->told[OUT_GIVEN] == NO_TYPE ? NULL : &type.type;
    length = (c->wrong == OUT_GIVEN ? WRONG_ROWS : ROWS) * columns * element(c);
    length = c->room == HALF ? length / 2 : c->room == DOUBLE ? 2 * length : length;
    to = place(c, out, length);
    want = want_output(c);
    EXPECT(want, c->in_memory ? ANeuralNetworksExecution_setOutputFromMemory(execution, 0, given,
                                                                             to.memory, 0, length)
                              : ANeuralNetworksExecution_setOutput(execution, 0, given, out, length));
    if (want != 0) goto done;
    want = want_compute(c);
    EXPECT(want, ANeuralNetworksExecution_compute(execution));
    uint32_t shape[2] = {0, 0};
    if (want == ANEURALNETWORKS_OP_FAILED) {
        BAD_STATE(ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, shape));
        goto done;
    }
    EXPECT(want, ANeuralNetworksExecution_getOutputOperandDimensions(execution, 0, shape));
    TRUE_THAT(shape[0] == columns && shape[1] == ROWS);
    if (want == 0) {
        float sum[4];
        fill(c, sum, columns == 1 ? one_column : two_columns, (int)(ROWS * columns));
        size_t bytes = ROWS * columns * element(c);
        if (c->in_memory) TRUE_THAT(pread(to.fd, out, bytes, 0) == (ssize_t)bytes);
        TRUE_THAT(memcmp(out, sum, bytes) == 0);
    }
done:
    leave(in);
    leave(to);
    ANeuralNetworksExecution_free(execution);
}

static void run(const struct shape_case* c) {
    static const uint8_t ones[] = {1, 2};
    static const int32_t no_activation = ANEURALNETWORKS_FUSED_NONE;
    static const uint32_t add[] = {A, COLUMN, 5}, turn[] = {SUM, ORDER}, sum[] = {SUM}, out[] = {OUT};
    static const uint32_t ins[] = {A, ORDER};
    ANeuralNetworksModel* model = NULL;
    struct type type;
    float column[2];
    fill(c, column, ones, 2);
    OK(ANeuralNetworksModel_create(&model));
    const uint32_t shapes[][2] = {{0, 2}, {0, 1}, {0, 2}, {2, 0}, {2, 0}};
    for (enum operand at = A; at <= OUT; at++) {
        make(&type, c, at, at == ORDER ? 1 : 2, shapes[at][0], shapes[at][1]);
        OK(ANeuralNetworksModel_addOperand(model, &type.type));
    }
    const ANeuralNetworksOperandType activation = scalar(ANEURALNETWORKS_INT32);
    OK(ANeuralNetworksModel_addOperand(model, &activation));
    OK(ANeuralNetworksModel_setOperandValue(model, 5, &no_activation, sizeof no_activation));
    struct place constant = place(c, column, 2 * element(c));
    int want = c->told[COLUMN] != ALL || c->wrong == COLUMN ? ANEURALNETWORKS_BAD_DATA : 0;
    EXPECT(want, c->in_memory ? ANeuralNetworksModel_setOperandValueFromMemory(
                                    model, COLUMN, constant.memory, 0, 2 * element(c))
                              : ANeuralNetworksModel_setOperandValue(model, COLUMN, column,
                                                                     2 * element(c)));
    if (!c->order_is_input) OK(ANeuralNetworksModel_setOperandValue(model, ORDER, NULL, 0));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add, 1, sum));
    OK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_TRANSPOSE, 2, turn, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model, c->order_is_input ? 2 : 1, ins, 1, out));
    EXPECT(want, ANeuralNetworksModel_finish(model));
    if (want == 0) {
        /* That shapes contradict each other is for executions to find. */
        ANeuralNetworksCompilation* compilation = NULL;
        OK(ANeuralNetworksCompilation_create(model, &compilation));
        OK(ANeuralNetworksCompilation_finish(compilation));
        bool is_open = c->told[A] != ALL && c->told[SUM] != ALL && c->told[OUT] != ALL;
        for (uint32_t columns = is_open ? 1 : 2; columns <= 2; columns++) {
            execute(c, compilation, columns);
        }
        ANeuralNetworksCompilation_free(compilation);
    }
    leave(constant);
    ANeuralNetworksModel_free(model);
}

static void vary(enum operand model, enum operand given, bool may_be_wrong, bool has_memory) {
    for (enum exactness in_model = ALL; in_model <= NOTHING; in_model++) {
        for (enum exactness at_run = ALL; at_run <= (given == OPERANDS ? ALL : NO_TYPE); at_run++) {
            struct shape_case c = {
                .told = {RANK_ONLY, ALL, RANK_ONLY, ALL, RANK_ONLY, ALL, ALL, ALL}};
            c.told[model] = in_model;
            if (given != OPERANDS) c.told[given] = at_run;
            c.order_is_input = given == ORDER_GIVEN;
            const enum operand wrongs[] = {OPERANDS, model, given};
            for (int wrong = 0; wrong < (may_be_wrong ? 3 : 1); wrong++) {
                c.wrong = wrongs[wrong];
                if (wrong > 0 && (c.wrong == OPERANDS || c.told[c.wrong] >= NOTHING)) continue;
                for (int memory = 0; memory <= (has_memory ? 1 : 0); memory++) {
                    c.in_memory = memory;
                    for (c.room = HALF; c.room <= DOUBLE; c.room++) {
                        if (model != OUT && c.room != EXACT) continue;
                        c.kind = ANEURALNETWORKS_TENSOR_FLOAT32;
                        run(&c);
                        c.kind = ANEURALNETWORKS_TENSOR_QUANT8_ASYMM;
                        run(&c);
                    }
                }
            }
        }
    }
}

int main(void) {
    vary(A, A_GIVEN, true, true);
    vary(COLUMN, OPERANDS, true, true);
    vary(SUM, OPERANDS, true, false);
    vary(ORDER, ORDER_GIVEN, false, false);
    vary(ORDER, OPERANDS, false, false);
    vary(OUT, OUT_GIVEN, true, true);
    return 0;
}
