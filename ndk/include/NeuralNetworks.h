/*
 * The Android Neural Networks API, level 30, for Linux: the C interface of nnburst.
 *
 * Include it by this name, or as <android/NeuralNetworks.h>. Link with -lneuralnetworks, or find the functions with
 * dlopen("libneuralnetworks.so") and dlsym.
 *
 * The life of an inference:
 *
 *     model         create, addOperand, setOperandValue, addOperation, identifyInputsAndOutputs, finish
 *     compilation   create (or createForDevices), finish
 *     execution     create, setInput, setOutput, compute, free            once for every inference
 *
 * Rules that hold for all functions:
 *
 *   - They answer a ResultCode. Why a call failed, nnburst_lastError() says in words.
 *   - Objects are held by pointers that can't be followed. A pointer that is null gives UNEXPECTED_NULL; one
 *     whose object was freed, or that is of another kind of object, gives BAD_STATE. Freeing null, or a second
 *     time, does nothing.
 *   - Objects may be freed in any order: what is still needed by others lives on until they are gone.
 *   - Where a function makes an object and fails, it stores null.
 *   - What the library can't check is the caller's duty: a pointer that is not null points to as many readable
 *     (or writable) elements as the argument beside it says, and strings end with a 0.
 *   - Calls on different objects may be made from different threads at a time; calls on one object wait for each
 *     other, but for those that say that they answer BAD_STATE meanwhile.
 *
 * What holds for the program around it:
 *
 *   - Objects belong to the process that made them. In a child after fork() each call on one of them answers OP_FAILED
 *     at once, freeing it does nothing, and exit() does nothing to the parent. What the child makes itself works.
 *   - Calls need 256 KiB of stack. On a thread with less left they run on a thread of the library's, 0.1 ms slower;
 *     OUT_OF_MEMORY says that there was none. Coroutines' stacks aren't measured: theirs to be large enough.
 *   - Threads of the library block all signals but SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS and SIGTRAP. No function
 *     may be called from a signal handler.
 *   - Once a memory is mapped that its owner can cut short, the library handles SIGBUS, and passes on to the handler
 *     before it what is not its own. A handler installed later is put behind when the next such memory is mapped:
 *     one that is installed first, or calls the one before it, gets all that is meant for it.
 *   - dlclose() doesn't unload the library.
 *
 * "Level 29" and the like say since when Android has a function; all of them are here.
 */
#ifndef ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_H
#define ANDROID_FRAMEWORKS_ML_NN_RUNTIME_NEURAL_NETWORKS_H

#include <android/hardware_buffer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an operand is: the type field of ANeuralNetworksOperandType. */
typedef enum {
    /* A 32-bit floating point scalar. */
    ANEURALNETWORKS_FLOAT32 = 0,
    /* A signed 32-bit integer scalar. */
    ANEURALNETWORKS_INT32 = 1,
    /* An unsigned 32-bit integer scalar. */
    ANEURALNETWORKS_UINT32 = 2,
    /* A tensor of 32-bit floating point values. */
    ANEURALNETWORKS_TENSOR_FLOAT32 = 3,
    /* A tensor of signed 32-bit integers. */
    ANEURALNETWORKS_TENSOR_INT32 = 4,
    /* Unsigned 8-bit; value = (stored - zeroPoint) * scale. */
    ANEURALNETWORKS_TENSOR_QUANT8_ASYMM = 5,
    /* A truth value in 8 bits: 0 is false. Level 29. */
    ANEURALNETWORKS_BOOL = 6,
    /* Signed 16-bit; value = stored * scale. Level 29. */
    ANEURALNETWORKS_TENSOR_QUANT16_SYMM = 7,
    /* A tensor of IEEE 754 half precision values. Level 29. */
    ANEURALNETWORKS_TENSOR_FLOAT16 = 8,
    /* A tensor of truth values of 8 bits each. Level 29. */
    ANEURALNETWORKS_TENSOR_BOOL8 = 9,
    /* An IEEE 754 half precision scalar. Level 29. */
    ANEURALNETWORKS_FLOAT16 = 10,
    /* Signed 8-bit, a scale for each channel; see ANeuralNetworksModel_setOperandSymmPerChannelQuantParams. Level 29. */
    ANEURALNETWORKS_TENSOR_QUANT8_SYMM_PER_CHANNEL = 11,
    /* Unsigned 16-bit; value = (stored - zeroPoint) * scale. Level 29. */
    ANEURALNETWORKS_TENSOR_QUANT16_ASYMM = 12,
    /* Signed 8-bit; value = stored * scale. Level 29. */
    ANEURALNETWORKS_TENSOR_QUANT8_SYMM = 13,
    /* Signed 8-bit; value = (stored - zeroPoint) * scale. Level 30. */
    ANEURALNETWORKS_TENSOR_QUANT8_ASYMM_SIGNED = 14,
    /* A reference to another model. Level 30. */
    ANEURALNETWORKS_MODEL = 15,
} OperandCode;

/* What an operation computes. Arguments, types and shapes of each are in docs/operations.md. */
typedef enum {
    /* Sum of two tensors, broadcast. */
    ANEURALNETWORKS_ADD = 0,
    /* Mean of each window. */
    ANEURALNETWORKS_AVERAGE_POOL_2D = 1,
    /* Tensors joined along a dimension. */
    ANEURALNETWORKS_CONCATENATION = 2,
    /* Two-dimensional convolution. */
    ANEURALNETWORKS_CONV_2D = 3,
    /* Convolution of each channel by itself. */
    ANEURALNETWORKS_DEPTHWISE_CONV_2D = 4,
    /* Depth rearranged into blocks of height and width. */
    ANEURALNETWORKS_DEPTH_TO_SPACE = 5,
    /* Quantised values as floating point. */
    ANEURALNETWORKS_DEQUANTIZE = 6,
    /* Rows picked by index. */
    ANEURALNETWORKS_EMBEDDING_LOOKUP = 7,
    /* Largest integer not above each element. */
    ANEURALNETWORKS_FLOOR = 8,
    /* Product with a weight matrix, plus bias. */
    ANEURALNETWORKS_FULLY_CONNECTED = 9,
    /* Rows picked by key. */
    ANEURALNETWORKS_HASHTABLE_LOOKUP = 10,
    /* Vectors scaled to length 1. */
    ANEURALNETWORKS_L2_NORMALIZATION = 11,
    /* Root of the mean square of each window. */
    ANEURALNETWORKS_L2_POOL_2D = 12,
    /* Elements scaled by their neighbourhood of channels. */
    ANEURALNETWORKS_LOCAL_RESPONSE_NORMALIZATION = 13,
    /* 1 / (1 + exp(-x)). */
    ANEURALNETWORKS_LOGISTIC = 14,
    /* Locality-sensitive hash of the input. */
    ANEURALNETWORKS_LSH_PROJECTION = 15,
    /* One step of a long short-term memory. */
    ANEURALNETWORKS_LSTM = 16,
    /* Maximum of each window. */
    ANEURALNETWORKS_MAX_POOL_2D = 17,
    /* Product of two tensors, broadcast. */
    ANEURALNETWORKS_MUL = 18,
    /* max(x, 0). */
    ANEURALNETWORKS_RELU = 19,
    /* min(max(x, -1), 1). */
    ANEURALNETWORKS_RELU1 = 20,
    /* min(max(x, 0), 6). */
    ANEURALNETWORKS_RELU6 = 21,
    /* The same elements in another shape. */
    ANEURALNETWORKS_RESHAPE = 22,
    /* Pictures resized with linear interpolation. */
    ANEURALNETWORKS_RESIZE_BILINEAR = 23,
    /* One step of a basic recurrent network. */
    ANEURALNETWORKS_RNN = 24,
    /* exp(beta x), normalised to a sum of 1. */
    ANEURALNETWORKS_SOFTMAX = 25,
    /* Blocks of height and width rearranged into depth. */
    ANEURALNETWORKS_SPACE_TO_DEPTH = 26,
    /* One step of a rank-decomposed filter over time. */
    ANEURALNETWORKS_SVDF = 27,
    /* Hyperbolic tangent. */
    ANEURALNETWORKS_TANH = 28,
    /* Batches rearranged into blocks of space. Level 28. */
    ANEURALNETWORKS_BATCH_TO_SPACE_ND = 29,
    /* Quotient of two tensors, broadcast. Level 28. */
    ANEURALNETWORKS_DIV = 30,
    /* Mean over dimensions. Level 28. */
    ANEURALNETWORKS_MEAN = 31,
    /* Zeros around a tensor. Level 28. */
    ANEURALNETWORKS_PAD = 32,
    /* Blocks of space rearranged into batches. Level 28. */
    ANEURALNETWORKS_SPACE_TO_BATCH_ND = 33,
    /* Dimensions of extent 1 removed. Level 28. */
    ANEURALNETWORKS_SQUEEZE = 34,
    /* A part of a tensor, in strides. Level 28. */
    ANEURALNETWORKS_STRIDED_SLICE = 35,
    /* Difference of two tensors, broadcast. Level 28. */
    ANEURALNETWORKS_SUB = 36,
    /* Dimensions in another order. Level 28. */
    ANEURALNETWORKS_TRANSPOSE = 37,
    /* Absolute value. Level 29. */
    ANEURALNETWORKS_ABS = 38,
    /* Index of the largest element along a dimension. Level 29. */
    ANEURALNETWORKS_ARGMAX = 39,
    /* Index of the smallest element along a dimension. Level 29. */
    ANEURALNETWORKS_ARGMIN = 40,
    /* Boxes moved and resized by deltas. Level 29. */
    ANEURALNETWORKS_AXIS_ALIGNED_BBOX_TRANSFORM = 41,
    /* LSTM over a sequence, forwards and backwards. Level 29. */
    ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_LSTM = 42,
    /* RNN over a sequence, forwards and backwards. Level 29. */
    ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_RNN = 43,
    /* Boxes chosen greedily by score, overlaps suppressed. Level 29. */
    ANEURALNETWORKS_BOX_WITH_NMS_LIMIT = 44,
    /* Elements as another type. Level 29. */
    ANEURALNETWORKS_CAST = 45,
    /* Channels interleaved by groups. Level 29. */
    ANEURALNETWORKS_CHANNEL_SHUFFLE = 46,
    /* Boxes decoded, chosen and sorted. Level 29. */
    ANEURALNETWORKS_DETECTION_POSTPROCESSING = 47,
    /* x == y, element by element. Level 29. */
    ANEURALNETWORKS_EQUAL = 48,
    /* e to the power of x. Level 29. */
    ANEURALNETWORKS_EXP = 49,
    /* A dimension of extent 1 inserted. Level 29. */
    ANEURALNETWORKS_EXPAND_DIMS = 50,
    /* Slices picked by index. Level 29. */
    ANEURALNETWORKS_GATHER = 51,
    /* Regions proposed from scores and deltas. Level 29. */
    ANEURALNETWORKS_GENERATE_PROPOSALS = 52,
    /* x > y, element by element. Level 29. */
    ANEURALNETWORKS_GREATER = 53,
    /* x >= y, element by element. Level 29. */
    ANEURALNETWORKS_GREATER_EQUAL = 54,
    /* Convolution of groups of channels by themselves. Level 29. */
    ANEURALNETWORKS_GROUPED_CONV_2D = 55,
    /* Where heat maps have their maxima. Level 29. */
    ANEURALNETWORKS_HEATMAP_MAX_KEYPOINT = 56,
    /* Each channel of each picture to mean 0 and variance 1. Level 29. */
    ANEURALNETWORKS_INSTANCE_NORMALIZATION = 57,
    /* x < y, element by element. Level 29. */
    ANEURALNETWORKS_LESS = 58,
    /* x <= y, element by element. Level 29. */
    ANEURALNETWORKS_LESS_EQUAL = 59,
    /* Natural logarithm. Level 29. */
    ANEURALNETWORKS_LOG = 60,
    /* Both true. Level 29. */
    ANEURALNETWORKS_LOGICAL_AND = 61,
    /* Not true. Level 29. */
    ANEURALNETWORKS_LOGICAL_NOT = 62,
    /* At least one true. Level 29. */
    ANEURALNETWORKS_LOGICAL_OR = 63,
    /* Logarithm of the softmax. Level 29. */
    ANEURALNETWORKS_LOG_SOFTMAX = 64,
    /* The larger of two, element by element. Level 29. */
    ANEURALNETWORKS_MAXIMUM = 65,
    /* The smaller of two, element by element. Level 29. */
    ANEURALNETWORKS_MINIMUM = 66,
    /* -x. Level 29. */
    ANEURALNETWORKS_NEG = 67,
    /* x != y, element by element. Level 29. */
    ANEURALNETWORKS_NOT_EQUAL = 68,
    /* A value around a tensor. Level 29. */
    ANEURALNETWORKS_PAD_V2 = 69,
    /* x to the power of y. Level 29. */
    ANEURALNETWORKS_POW = 70,
    /* x, or alpha x where that is negative. Level 29. */
    ANEURALNETWORKS_PRELU = 71,
    /* Floating point as quantised values. Level 29. */
    ANEURALNETWORKS_QUANTIZE = 72,
    /* One LSTM step, 8-bit with a 16-bit state. Level 29. */
    ANEURALNETWORKS_QUANTIZED_16BIT_LSTM = 73,
    /* Samples from a distribution. Level 29. */
    ANEURALNETWORKS_RANDOM_MULTINOMIAL = 74,
    /* All true over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_ALL = 75,
    /* At least one true over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_ANY = 76,
    /* Maximum over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_MAX = 77,
    /* Minimum over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_MIN = 78,
    /* Product over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_PROD = 79,
    /* Sum over dimensions. Level 29. */
    ANEURALNETWORKS_REDUCE_SUM = 80,
    /* Regions resampled with interpolation. Level 29. */
    ANEURALNETWORKS_ROI_ALIGN = 81,
    /* Maxima over the bins of regions. Level 29. */
    ANEURALNETWORKS_ROI_POOLING = 82,
    /* 1 / square root. Level 29. */
    ANEURALNETWORKS_RSQRT = 83,
    /* One of two, by a condition. Level 29. */
    ANEURALNETWORKS_SELECT = 84,
    /* Sine. Level 29. */
    ANEURALNETWORKS_SIN = 85,
    /* A part of a tensor. Level 29. */
    ANEURALNETWORKS_SLICE = 86,
    /* A tensor in equal parts. Level 29. */
    ANEURALNETWORKS_SPLIT = 87,
    /* Square root. Level 29. */
    ANEURALNETWORKS_SQRT = 88,
    /* A tensor repeated. Level 29. */
    ANEURALNETWORKS_TILE = 89,
    /* The k largest elements and their indexes. Level 29. */
    ANEURALNETWORKS_TOPK_V2 = 90,
    /* Transposed (fractionally strided) convolution. Level 29. */
    ANEURALNETWORKS_TRANSPOSE_CONV_2D = 91,
    /* LSTM over a sequence. Level 29. */
    ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM = 92,
    /* RNN over a sequence. Level 29. */
    ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_RNN = 93,
    /* Pictures resized to the nearest pixel. Level 29. */
    ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR = 94,
    /* One LSTM step, 8-bit, with all its gates and norms. Level 30. */
    ANEURALNETWORKS_QUANTIZED_LSTM = 95,
    /* One of two models, by a condition. Level 30. */
    ANEURALNETWORKS_IF = 96,
    /* A model, as long as another says. Level 30. */
    ANEURALNETWORKS_WHILE = 97,
    /* x, or alpha (exp(x) - 1) where x is negative. Level 30. */
    ANEURALNETWORKS_ELU = 98,
    /* x min(max(x + 3, 0), 6) / 6. Level 30. */
    ANEURALNETWORKS_HARD_SWISH = 99,
    /* A tensor of one value. Level 30. */
    ANEURALNETWORKS_FILL = 100,
    /* How many dimensions a tensor has. Level 30. */
    ANEURALNETWORKS_RANK = 101,
} OperationCode;

/* An activation computed along with an operation: the value of an INT32 operand of it. */
typedef enum {
    /* None. */
    ANEURALNETWORKS_FUSED_NONE = 0,
    /* max(x, 0). */
    ANEURALNETWORKS_FUSED_RELU = 1,
    /* min(max(x, -1), 1). */
    ANEURALNETWORKS_FUSED_RELU1 = 2,
    /* min(max(x, 0), 6). */
    ANEURALNETWORKS_FUSED_RELU6 = 3,
} FuseCode;

/* How a window may reach beyond the edges: the value of an INT32 operand. */
typedef enum {
    /* As many zeros around the input as make the output as large as input / stride, rounded up. */
    ANEURALNETWORKS_PADDING_SAME = 1,
    /* None. */
    ANEURALNETWORKS_PADDING_VALID = 2,
} PaddingCode;

/* What ANeuralNetworksCompilation_setPreference takes. */
typedef enum {
    /* Little energy. */
    ANEURALNETWORKS_PREFER_LOW_POWER = 0,
    /* One answer, soon; the default. */
    ANEURALNETWORKS_PREFER_FAST_SINGLE_ANSWER = 1,
    /* Many answers in a row, such as frames of a camera. */
    ANEURALNETWORKS_PREFER_SUSTAINED_SPEED = 2,
} PreferenceCode;

/* What ANeuralNetworksDevice_getType tells. */
typedef enum {
    /* The driver does not say. Level 29. */
    ANEURALNETWORKS_DEVICE_UNKNOWN = 0,
    /* None of the below. Level 29. */
    ANEURALNETWORKS_DEVICE_OTHER = 1,
    /* The processor. Level 29. */
    ANEURALNETWORKS_DEVICE_CPU = 2,
    /* A graphics processor, for other work as well. Level 29. */
    ANEURALNETWORKS_DEVICE_GPU = 3,
    /* A device for neural networks. Level 29. */
    ANEURALNETWORKS_DEVICE_ACCELERATOR = 4,
} DeviceTypeCode;

/* What calls answer. */
typedef enum {
    /* Success. */
    ANEURALNETWORKS_NO_ERROR = 0,
    /* Memory could not be had. */
    ANEURALNETWORKS_OUT_OF_MEMORY = 1,
    /* Not used. */
    ANEURALNETWORKS_INCOMPLETE = 2,
    /* A pointer that may not be null is. */
    ANEURALNETWORKS_UNEXPECTED_NULL = 3,
    /* An argument, or the model, is not acceptable. */
    ANEURALNETWORKS_BAD_DATA = 4,
    /* An operation, or a call to the driver, failed. */
    ANEURALNETWORKS_OP_FAILED = 5,
    /* Not now: the object is in another phase of its life. */
    ANEURALNETWORKS_BAD_STATE = 6,
    /* A memory can't be mapped. */
    ANEURALNETWORKS_UNMAPPABLE = 7,
    /* A buffer for an output is too small; its shape can be asked for. Level 29. */
    ANEURALNETWORKS_OUTPUT_INSUFFICIENT_SIZE = 8,
    /* The device is offline or busy. Level 29. */
    ANEURALNETWORKS_UNAVAILABLE_DEVICE = 9,
    /* Too late; another attempt may be in time. Level 30. */
    ANEURALNETWORKS_MISSED_DEADLINE_TRANSIENT = 10,
    /* Too late, and so will other attempts be. Level 30. */
    ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT = 11,
    /* The driver is short of something; another attempt may succeed. Level 30. */
    ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT = 12,
    /* The driver is short of something, and will be. Level 30. */
    ANEURALNETWORKS_RESOURCE_EXHAUSTED_PERSISTENT = 13,
    /* The driver's process died. Level 30. */
    ANEURALNETWORKS_DEAD_OBJECT = 14,
} ResultCode;

/* What ANeuralNetworksExecution_getDuration can tell, in nanoseconds. */
typedef enum {
    /* Computing alone. Level 29. */
    ANEURALNETWORKS_DURATION_ON_HARDWARE = 0,
    /* From the request's arrival in the driver to its answer. Level 29. */
    ANEURALNETWORKS_DURATION_IN_DRIVER = 1,
    /* Computing alone, from the last dependency on. Level 30. */
    ANEURALNETWORKS_FENCED_DURATION_ON_HARDWARE = 2,
    /* In the driver, from the last dependency on. Level 30. */
    ANEURALNETWORKS_FENCED_DURATION_IN_DRIVER = 3,
} DurationCode;

/* What ANeuralNetworksCompilation_setPriority takes. */
typedef enum {
    /* After the others. Level 30. */
    ANEURALNETWORKS_PRIORITY_LOW = 90,
    /* As most. Level 30. */
    ANEURALNETWORKS_PRIORITY_MEDIUM = 100,
    /* Before the others. Level 30. */
    ANEURALNETWORKS_PRIORITY_HIGH = 110,
    /* What holds where nothing is set. Level 30. */
    ANEURALNETWORKS_PRIORITY_DEFAULT = ANEURALNETWORKS_PRIORITY_MEDIUM,
} PriorityCode;
enum {
    /* Values of operands up to so many bytes are copied by ANeuralNetworksModel_setOperandValue. */
    ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = 128,
    /* Bytes of the token of ANeuralNetworksCompilation_setCaching. Level 29. */
    ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN = 32,
};

typedef struct ANeuralNetworksMemory ANeuralNetworksMemory;
typedef struct ANeuralNetworksModel ANeuralNetworksModel;
typedef struct ANeuralNetworksCompilation ANeuralNetworksCompilation;
typedef struct ANeuralNetworksExecution ANeuralNetworksExecution;
typedef struct ANeuralNetworksEvent ANeuralNetworksEvent;
typedef struct ANeuralNetworksDevice ANeuralNetworksDevice;         /* Level 29. */
typedef struct ANeuralNetworksBurst ANeuralNetworksBurst;           /* Level 29. */
typedef struct ANeuralNetworksMemoryDesc ANeuralNetworksMemoryDesc; /* Level 30. */

/* An OperationCode, or a number from ANeuralNetworksModel_getExtensionOperationType. */
typedef int32_t ANeuralNetworksOperationType;

/* Type, shape and quantisation of an operand. */
typedef struct ANeuralNetworksOperandType {
    /* An OperandCode, or a number from ANeuralNetworksModel_getExtensionOperandType. */
    int32_t type;
    /* 0 for scalars, and for tensors of unknown rank. */
    uint32_t dimensionCount;
    /* Extents, outermost first, 0 for one that is not known; null exactly if dimensionCount is 0. */
    const uint32_t* dimensions;
    /* Of quantised types; 0 for others. */
    float scale;
    /* The stored value that stands for 0, of types that have one; 0 for others. */
    int32_t zeroPoint;
} ANeuralNetworksOperandType;

/* Scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL. Level 29. */
typedef struct ANeuralNetworksSymmPerChannelQuantParams {
    /* The dimension that counts channels. */
    uint32_t channelDim;
    /* The extent of that dimension. */
    uint32_t scaleCount;
    /* A scale above 0 for each channel. */
    const float* scales;
} ANeuralNetworksSymmPerChannelQuantParams;

/* ---- Devices -------------------------------------------------------------------------------------------- */

/* How many devices there are. The list is made at the first question and stays: the services in nnburst's
 * directory of services, then "nnapi-reference", the processor in this process. Level 29. */
int ANeuralNetworks_getDeviceCount(uint32_t* numDevices);

/* A device by its place in the list. It lives as long as the process, nobody frees it. BAD_DATA for a place that
 * is not in the list. Level 29. */
int ANeuralNetworks_getDevice(uint32_t devIndex, ANeuralNetworksDevice** device);

/* The name of a device, in UTF-8; the library keeps it. Level 29. */
int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** name);

/* The version of the driver, in UTF-8, "UNKNOWN" for drivers before HAL 1.2; the library keeps it. Level 29. */
int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** version);

/* A DeviceTypeCode. Level 29. */
int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* type);

/* The newest level all of which the device can be asked for: 27 to 30. Level 29. */
int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device,
                                          int64_t* featureLevel);

/* Waits until a device whose driver died is back. Returns at once for one that lives. Level 30. */
int ANeuralNetworksDevice_wait(const ANeuralNetworksDevice* device);

/* ---- Models --------------------------------------------------------------------------------------------- */

/* An empty model, to be filled by the calls below and then finished. */
int ANeuralNetworksModel_create(ANeuralNetworksModel** model);

/* Frees a model, finished or not. Compilations made from it keep what they need. */
void ANeuralNetworksModel_free(ANeuralNetworksModel* model);

/* Checks the model as a whole and closes it. BAD_DATA for a model that breaks a rule, which is of no use any more
 * after that. Every later change, and a second finish, gives BAD_STATE. */
int ANeuralNetworksModel_finish(ANeuralNetworksModel* model);

/* Adds an operand. Operands are named by numbers: 0 for the first, 1 for the next, and so on. */
int ANeuralNetworksModel_addOperand(ANeuralNetworksModel* model,
                                    const ANeuralNetworksOperandType* type);

/* Makes an operand a constant of `length` bytes, in the order of the machine. Up to 128 bytes are copied; a larger
 * buffer must stay as it is until the model is finished. A null buffer with length 0 leaves an optional operand
 * out. BAD_DATA if the shape is not complete, or takes another number of bytes. */
int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel* model, int32_t index,
                                         const void* buffer, size_t length);

/* Gives a TENSOR_QUANT8_SYMM_PER_CHANNEL its scales, which are copied. Level 29. */
int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(
    ANeuralNetworksModel* model, int32_t index,
    const ANeuralNetworksSymmPerChannelQuantParams* channelQuant);

/* Makes an operand a constant that lies in a memory, at any offset. The bytes must stay as they are as long as the
 * model or something made of it is in use. BAD_DATA for bytes beyond the memory, memory from a descriptor, and
 * hardware buffers of formats other than BLOB. */
int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel* model, int32_t index,
                                                   const ANeuralNetworksMemory* memory,
                                                   size_t offset, size_t length);

/* Makes an operand of type MODEL stand for another model, which is finished (BAD_STATE otherwise). Level 30. */
int ANeuralNetworksModel_setOperandValueFromModel(ANeuralNetworksModel* model, int32_t index,
                                                  const ANeuralNetworksModel* value);

/* Adds an operation. Its operands are there and have their values; BAD_DATA if they are not what the operation
 * takes. Operations may be added in any order. */
int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model,
                                      ANeuralNetworksOperationType type, uint32_t inputCount,
                                      const uint32_t* inputs, uint32_t outputCount,
                                      const uint32_t* outputs);

/* Says which operands come in with an execution and which go out, in order. None may be a constant, and none may
 * be named twice. */
int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel* model, uint32_t inputCount,
                                                  const uint32_t* inputs, uint32_t outputCount,
                                                  const uint32_t* outputs);

/* Allows FLOAT32 to be computed with the range and precision of FLOAT16. Level 28. */
int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel* model, bool allow);

/* For each operation of a finished model, in the order in which they were added, whether one of the devices can
 * compute it. `supportedOps` has room for all of them. BAD_DATA if no device is given, or one twice. Level 29. */
int ANeuralNetworksModel_getSupportedOperationsForDevices(
    const ANeuralNetworksModel* model, const ANeuralNetworksDevice* const* devices,
    uint32_t numDevices, bool* supportedOps);

/* ---- Memories ------------------------------------------------------------------------------------------- */

/* `size` bytes of a file from `offset` on, aligned or not: any file that can be mapped, sealed or not. `protect` is
 * PROT_READ, or PROT_READ | PROT_WRITE for a memory that outputs go to. The descriptor is duplicated. */
int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int fd, size_t offset,
                                       ANeuralNetworksMemory** memory);

/* A hardware buffer as a memory, which keeps it. Level 29. */
int ANeuralNetworksMemory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb,
                                                    ANeuralNetworksMemory** memory);

/* Memory for what a finished descriptor names: in the device where that has memory of its own, else shared with
 * it. Its content is undefined until an execution or a copy has written it. Level 30. */
int ANeuralNetworksMemory_createFromDesc(const ANeuralNetworksMemoryDesc* desc,
                                         ANeuralNetworksMemory** memory);

/* Copies all of a memory to another. Both are of a size; values of memory from a descriptor are of a type and fit
 * each other's shapes; BAD_DATA otherwise, and for a source that nothing was written to. Level 30. */
int ANeuralNetworksMemory_copy(const ANeuralNetworksMemory* src, const ANeuralNetworksMemory* dst);

/* Frees a memory. Models and executions that use it keep it as long as they need it. */
void ANeuralNetworksMemory_free(ANeuralNetworksMemory* memory);

/* An empty descriptor of a memory: what it is going to be used for. Level 30. */
int ANeuralNetworksMemoryDesc_create(ANeuralNetworksMemoryDesc** desc);

/* Frees a descriptor. Level 30. */
void ANeuralNetworksMemoryDesc_free(ANeuralNetworksMemoryDesc* desc);

/* The memory is going to be input `index` of executions of a finished compilation, with a frequency above 0 and
 * up to 1 compared with other uses. BAD_DATA if it doesn't go together with the other uses. Level 30. */
int ANeuralNetworksMemoryDesc_addInputRole(ANeuralNetworksMemoryDesc* desc,
                                           const ANeuralNetworksCompilation* compilation,
                                           uint32_t index, float frequency);

/* As ANeuralNetworksMemoryDesc_addInputRole, for an output. Level 30. */
int ANeuralNetworksMemoryDesc_addOutputRole(ANeuralNetworksMemoryDesc* desc,
                                            const ANeuralNetworksCompilation* compilation,
                                            uint32_t index, float frequency);

/* What is known of the shape beyond what the uses say: 0 leaves an extent open, rank 0 the rank. Called several
 * times, all calls hold. Level 30. */
int ANeuralNetworksMemoryDesc_setDimensions(ANeuralNetworksMemoryDesc* desc, uint32_t rank,
                                            const uint32_t* dimensions);

/* Closes a descriptor; BAD_DATA if it names no use. Level 30. */
int ANeuralNetworksMemoryDesc_finish(ANeuralNetworksMemoryDesc* desc);

/* ---- Compilations --------------------------------------------------------------------------------------- */

/* A compilation of a finished model for the best devices there are. */
int ANeuralNetworksCompilation_create(ANeuralNetworksModel* model,
                                      ANeuralNetworksCompilation** compilation);

/* A compilation for devices that the caller chooses, without fallback to others. BAD_DATA if none is given, or one
 * twice. Level 29. */
int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model,
                                                const ANeuralNetworksDevice* const* devices,
                                                uint32_t numDevices,
                                                ANeuralNetworksCompilation** compilation);

/* Frees a compilation. Executions and bursts made from it keep what they need. */
void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation* compilation);

/* Options, before finish: BAD_STATE after that. */

/* A PreferenceCode. */
int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation* compilation,
                                             int32_t preference);

/* Lets drivers keep what they make of the model in a directory of the application's own. The token is 32 bytes that
 * differ for models that differ in anything. Where the directory is of no use, nothing is kept. Level 29. */
int ANeuralNetworksCompilation_setCaching(ANeuralNetworksCompilation* compilation,
                                          const char* cacheDir, const uint8_t* token);

/* A PriorityCode, among the models of this process. Level 30. */
int ANeuralNetworksCompilation_setPriority(ANeuralNetworksCompilation* compilation, int priority);

/* Nanoseconds that finish may take; 0 for no limit. BAD_DATA for compilations that are not for exactly one device of
 * the caller's choice. Level 30. */
int ANeuralNetworksCompilation_setTimeout(ANeuralNetworksCompilation* compilation,
                                          uint64_t duration);

/* Makes the model ready to run. BAD_DATA if no device computes one of the operations; BAD_STATE the second time. */
int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation* compilation);

/* ---- Executions ----------------------------------------------------------------------------------------- */

/* An execution of a finished compilation, for one run. Making one costs next to nothing. */
int ANeuralNetworksExecution_create(ANeuralNetworksCompilation* compilation,
                                    ANeuralNetworksExecution** execution);

/* Frees an execution. One that is underway goes on by itself; its buffers must stay until its event is over. */
void ANeuralNetworksExecution_free(ANeuralNetworksExecution* execution);

/* Arguments, before the run: BAD_STATE after its start, and for an argument that was set before. `index` counts
 * the model's inputs, or outputs. `type`, which may be null, completes the shape that the model leaves open, and
 * of it the dimensions alone. */

/* An input of `length` bytes, as many as its shape takes. The buffer stays as it is until the run is over. A null
 * buffer with length 0 leaves an optional input out. */
int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index,
                                      const ANeuralNetworksOperandType* type, const void* buffer,
                                      size_t length);

/* An input that lies in a memory. Memory from a descriptor, and hardware buffers of formats other than BLOB, are
 * used as a whole: offset 0, length 0. */
int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                const ANeuralNetworksOperandType* type,
                                                const ANeuralNetworksMemory* memory, size_t offset,
                                                size_t length);

/* Room for an output. Its shape may stay open; the room may then be larger than what comes out. */
int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index,
                                       const ANeuralNetworksOperandType* type, void* buffer,
                                       size_t length);

/* Room for an output in a memory; see ANeuralNetworksExecution_setInputFromMemory. */
int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution,
                                                 int32_t index,
                                                 const ANeuralNetworksOperandType* type,
                                                 const ANeuralNetworksMemory* memory,
                                                 size_t offset, size_t length);

/* Whether the run is to be measured. BAD_DATA for compilations that are not for exactly one device of the caller's
 * choice. Level 29. */
int ANeuralNetworksExecution_setMeasureTiming(ANeuralNetworksExecution* execution, bool measure);

/* Nanoseconds that the run may take; 0 for no limit. BAD_DATA as for setMeasureTiming. Level 30. */
int ANeuralNetworksExecution_setTimeout(ANeuralNetworksExecution* execution, uint64_t duration);

/* Nanoseconds that a WHILE may take, up to ANeuralNetworks_getMaximumLoopTimeout(). With 0 it ends when its
 * condition first holds. Level 30. */
int ANeuralNetworksExecution_setLoopTimeout(ANeuralNetworksExecution* execution, uint64_t duration);

/* Nanoseconds that a WHILE may take where nothing is set. Level 30. */
uint64_t ANeuralNetworks_getDefaultLoopTimeout(void);

/* Nanoseconds that a WHILE may be allowed. Level 30. */
uint64_t ANeuralNetworks_getMaximumLoopTimeout(void);

/* Runs, and returns when that is over. BAD_DATA while an argument is missing; BAD_STATE for an execution that has
 * run. Level 29. */
int ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution);

/* As compute, in a burst of the same compilation (BAD_DATA otherwise) that no other run is in (BAD_STATE
 * otherwise): the quickest way there is. Level 29. */
int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution* execution,
                                          ANeuralNetworksBurst* burst);

/* Starts a run and returns; its event tells how it ends. */
int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution,
                                          ANeuralNetworksEvent** event);

/* Starts a run that begins when all dependencies are over. `duration`, in nanoseconds, 0 for no limit, counts from
 * then; BAD_DATA for one with a compilation that is not for exactly one device of the caller's choice. The model
 * says the shapes of all outputs (BAD_DATA otherwise). Outputs in memories are there when the event is over; with
 * an output in a buffer the call waits for the end. Level 30. */
int ANeuralNetworksExecution_startComputeWithDependencies(
    ANeuralNetworksExecution* execution, const ANeuralNetworksEvent* const* dependencies,
    uint32_t num_dependencies, uint64_t duration, ANeuralNetworksEvent** event);

/* After the run: BAD_STATE before that, and after one that failed otherwise than by OUTPUT_INSUFFICIENT_SIZE. */

/* How many dimensions an output has. OUTPUT_INSUFFICIENT_SIZE, with the rank, for one whose room was too small.
 * Level 29. */
int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution* execution,
                                                  int32_t index, uint32_t* rank);

/* The extents of an output, as many as its rank. BAD_DATA for a scalar. Level 29. */
int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution* execution,
                                                        int32_t index, uint32_t* dimensions);

/* A DurationCode's time in nanoseconds, UINT64_MAX where the driver doesn't tell. BAD_STATE, with UINT64_MAX, for a
 * run that failed or was not measured. Level 29. */
int ANeuralNetworksExecution_getDuration(const ANeuralNetworksExecution* execution,
                                         int32_t durationCode, uint64_t* duration);

/* ---- Bursts --------------------------------------------------------------------------------------------- */

/* A channel to the driver of a finished compilation for many runs in a row. Where the driver has none, runs take
 * the ordinary way. Level 29. */
int ANeuralNetworksBurst_create(ANeuralNetworksCompilation* compilation,
                                ANeuralNetworksBurst** burst);

/* Frees a burst. Level 29. */
void ANeuralNetworksBurst_free(ANeuralNetworksBurst* burst);

/* ---- Events --------------------------------------------------------------------------------------------- */

/* Waits for the end, any number of times, and answers how the run ended. */
int ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event);

/* Waits for the end of the run, if it is that of one, and frees the event. */
void ANeuralNetworksEvent_free(ANeuralNetworksEvent* event);

/* An event for a fence: any descriptor above 0 that becomes readable when it signals, such as an eventfd, the read
 * end of a pipe, or a sync_file of the kernel's. The descriptor is duplicated. Level 30. */
int ANeuralNetworksEvent_createFromSyncFenceFd(int sync_fence_fd, ANeuralNetworksEvent** event);

/* A descriptor that becomes readable at the end; the caller closes it. OP_FAILED, with -1, for events without:
 * those of startCompute, and of runs that were over when they were launched. Level 30. */
int ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent* event, int* sync_fence_fd);

/* ---- nnburst's own -------------------------------------------------------------------------------------- */

/* Why the last call of this thread that failed did, in words, or the empty string; good until the thread's next
 * failure. Not in Android. */
const char* nnburst_lastError(void);

/* How both ends of a burst wait for each other. */
enum {
    /* As the setting burst-wait says; else NNBURST_WAIT_BLOCK for ANEURALNETWORKS_PREFER_LOW_POWER and
     * NNBURST_WAIT_ADAPTIVE for all others. */
    NNBURST_WAIT_AUTO = 0,
    /* Poll: the shortest latency, for a core each while executions come. */
    NNBURST_WAIT_SPIN = 1,
    /* Poll while answers come soon, then sleep. */
    NNBURST_WAIT_ADAPTIVE = 2,
    /* Sleep at once: two wake-ups for each execution. */
    NNBURST_WAIT_BLOCK = 3,
};

/* How bursts wait that are created from a compilation from now on: one of NNBURST_WAIT_*. It may be finished already.
 * BAD_DATA for another number. Not in Android. */
int nnburst_Compilation_setBurstWait(ANeuralNetworksCompilation* compilation, int wait);

/* ANeuralNetworksBurst_create for a burst that waits so, whatever its compilation says. Not in Android. */
int nnburst_Burst_create(ANeuralNetworksCompilation* compilation, int wait, ANeuralNetworksBurst** burst);

/* How long each later call of this thread may wait for drivers in other processes, in nanoseconds; 0 for as long as it
 * takes, as it is at first. A call that a driver has not answered by then, because it is stopped or does not come to an
 * end, answers MISSED_DEADLINE_TRANSIENT: compiling, executing (in bursts too), waiting for events, copying memory, asking
 * devices. Executions that it launches carry it as their deadline. Not in Android. */
int nnburst_setCallTimeout(uint64_t nanoseconds);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
