/*
 * The vendor extension dev.nnburst.tflite: operators of TFLite with TFLite's arithmetic. docs/extension.md has the types
 * that each operation takes, and how it computes.
 *
 * An operation's number is the operator's BuiltinOperator code in the schema of .tflite files; custom operators have
 * numbers from 1024 on. Its inputs are the operator's tensors, those left out without a value; then its options, each a
 * scalar, in the order below; and last an ANEURALNETWORKS_INT32 whose bit i says that tensor i has no dimension in
 * TFLite, though it has one of 1 here.
 *
 * The numbers count within the extension. ANeuralNetworksModel_getExtensionOperandType and
 * ANeuralNetworksModel_getExtensionOperationType (NeuralNetworksExtensions.h) give what stands for them in a process.
 */
#ifndef NNBURST_EXTENSIONS_TFLITE_EXTENSION_H
#define NNBURST_EXTENSIONS_TFLITE_EXTENSION_H

#define NNBURST_TFLITE_EXTENSION_NAME "dev.nnburst.tflite"

/* Operand types: tensors without parameters. */
enum {
    NNBURST_TFLITE_TENSOR_INT64 = 0,
    NNBURST_TFLITE_TENSOR_UINT32 = 1,
    NNBURST_TFLITE_TENSOR_UINT16 = 2,
    NNBURST_TFLITE_TENSOR_UINT64 = 3,
    NNBURST_TFLITE_TENSOR_FLOAT64 = 4,
    /* Pairs of 32-bit floating point: real and imaginary part. */
    NNBURST_TFLITE_TENSOR_COMPLEX64 = 5,
};

/* Operations. */
enum {
    /* Tensors: a: T, b: T, which broadcast. Results: T. Options: activation: INT32, pot_scale_int16: BOOL. */
    NNBURST_TFLITE_ADD = 0,
    /* Tensors: image: T [n, h, w, c]. Results: T. Options: padding: INT32, stride_w: INT32, stride_h: INT32,
     * filter_width: INT32, filter_height: INT32, activation: INT32. */
    NNBURST_TFLITE_AVERAGE_POOL_2D = 1,
    /* Tensors: x: T, any number of times. Results: T. Options: axis: INT32, activation: INT32. */
    NNBURST_TFLITE_CONCATENATION = 2,
    /* Tensors: image: T [n, h, w, c], filter: W [o, fh, fw, c / groups], bias [o], may be left out. Results: T.
     * Options: padding: INT32, stride_w: INT32, stride_h: INT32, activation: INT32, dilation_w_factor: INT32,
     * dilation_h_factor: INT32. */
    NNBURST_TFLITE_CONV_2D = 3,
    /* Tensors: image: T [n, h, w, c], filter: W [1, fh, fw, o], bias [o], may be left out. Results: T. Options:
     * padding: INT32, stride_w: INT32, stride_h: INT32, activation: INT32, dilation_w_factor: INT32,
     * dilation_h_factor: INT32. */
    NNBURST_TFLITE_DEPTHWISE_CONV_2D = 4,
    /* Tensors: image: T [n, h, w, c]. Results: T. Options: block_size: INT32. */
    NNBURST_TFLITE_DEPTH_TO_SPACE = 5,
    /* Tensors: x: T. Results: F32. */
    NNBURST_TFLITE_DEQUANTIZE = 6,
    /* Tensors: lookups: Q16, I32 or I64, table: T. Results: T. */
    NNBURST_TFLITE_EMBEDDING_LOOKUP = 7,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_FLOOR = 8,
    /* Tensors: x: T, weights: W [units, depth], bias [units], may be left out. Results: T. Options: activation:
     * INT32, keep_num_dims: BOOL, asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_FULLY_CONNECTED = 9,
    /* Tensors: lookups: I32 [n], keys: I32 [rows], ascending, values: T [rows, ..]. Results: values: T, hits: Q8
     * [n]. */
    NNBURST_TFLITE_HASHTABLE_LOOKUP = 10,
    /* Tensors: x: T, over the last dimension. Results: T. Options: activation: INT32. */
    NNBURST_TFLITE_L2_NORMALIZATION = 11,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_LOGISTIC = 14,
    /* Tensors: hash functions: F32 [functions, bits], items: T [items, ..], weights: F32 [items], may be left out.
     * Results: I32. Options: type: INT32. */
    NNBURST_TFLITE_LSH_PROJECTION = 15,
    /* Tensors: x: Q8 unsigned [n, depth], result before: Q8 unsigned [n, units], weights of input, new value,
     * forget and output gate: Q8 unsigned [4 units, depth + units], biases: I32 [4 units], cell state: Q16 [n, units];
     * or x: F32 [n, depth], weights of input, forget, cell and output gate: Q8 signed [units, depth], recurrent
     * weights: Q8 signed [units, outputs], peepholes of input, forget and output gate: Q8 signed [units], biases: F32
     * [units], projection: Q8 signed [outputs, units], its bias: F32 [outputs], states: F32 [n, outputs] and [n,
     * units], coefficients of normalisation: F32 [units]; all of the input gate may be left out, and peepholes,
     * projection, its bias and coefficients. Results: Q8 unsigned, next cell state: Q16; or F32 [n, outputs], next
     * states. Options: activation: INT32, cell_clip: FLOAT32, proj_clip: FLOAT32, asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_LSTM = 16,
    /* Tensors: image: T [n, h, w, c]. Results: T. Options: padding: INT32, stride_w: INT32, stride_h: INT32,
     * filter_width: INT32, filter_height: INT32, activation: INT32. */
    NNBURST_TFLITE_MAX_POOL_2D = 17,
    /* Tensors: a: T, b: T, which broadcast. Results: T. Options: activation: INT32. */
    NNBURST_TFLITE_MUL = 18,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_RELU = 19,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_RELU_N1_TO_1 = 20,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_RELU6 = 21,
    /* Tensors: x: T, shape: I [rank], one of which may be -1. Results: T. */
    NNBURST_TFLITE_RESHAPE = 22,
    /* Tensors: image: T [n, h, w, c], height and width: I [2]. Results: T. Options: align_corners: BOOL,
     * half_pixel_centers: BOOL. */
    NNBURST_TFLITE_RESIZE_BILINEAR = 23,
    /* Tensors: x: F32 [n, depth], weights: Q8 signed [units, depth], recurrent weights: Q8 signed [units, units],
     * bias: F32 [units], state: F32 [n, units]. Results: F32 [n, units], next state. Options: activation: INT32,
     * asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_RNN = 24,
    /* Tensors: x: T. Results: T. Options: beta: FLOAT32. */
    NNBURST_TFLITE_SOFTMAX = 25,
    /* Tensors: image: T [n, h, w, c]. Results: T. Options: block_size: INT32. */
    NNBURST_TFLITE_SPACE_TO_DEPTH = 26,
    /* Tensors: x: T [n, depth], features: Q8 [filters, depth], time: U [filters, memory], bias: V [units], may be
     * left out, state: W [n, memory * filters]. Results: T [n, units], next state: W. Options: rank: INT32,
     * activation: INT32, asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_SVDF = 27,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_TANH = 28,
    /* Tensors: ids: I32 [n], places: I32 [n, depth], shape of what the places are in: I [depth], weights: F32 [n],
     * table: F32 [rows, ..]. Results: F32. Options: combiner: INT32. */
    NNBURST_TFLITE_EMBEDDING_LOOKUP_SPARSE = 33,
    /* Tensors: x: T, in front and behind of each dimension: I [rank, 2]. Results: T. */
    NNBURST_TFLITE_PAD = 34,
    /* Tensors: x: F32 [n, steps, depth] or [steps, n, depth], weights: Q8 signed [units, depth], recurrent weights:
     * Q8 signed [units, units], bias: F32 [units], state: F32 [n, units]. Results: F32 [.., .., units], next state.
     * Options: time_major: BOOL, activation: INT32, asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN = 35,
    /* Tensors: x: T, indices: I. Results: T. Options: axis: INT32, batch_dims: INT32. */
    NNBURST_TFLITE_GATHER = 36,
    /* Tensors: x: T, block: I [m], crops or borders: I [m, 2]. Results: T. */
    NNBURST_TFLITE_BATCH_TO_SPACE_ND = 37,
    /* Tensors: x: T, block: I [m], crops or borders: I [m, 2]. Results: T. */
    NNBURST_TFLITE_SPACE_TO_BATCH_ND = 38,
    /* Tensors: x: T, order: I [rank]. Results: T. */
    NNBURST_TFLITE_TRANSPOSE = 39,
    /* Tensors: x: T, axes: I. Results: T. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_MEAN = 40,
    /* Tensors: a: T, b: T, which broadcast. Results: T. Options: activation: INT32, pot_scale_int16: BOOL. */
    NNBURST_TFLITE_SUB = 41,
    /* Tensors: a: T, b: T, which broadcast. Results: T. Options: activation: INT32. */
    NNBURST_TFLITE_DIV = 42,
    /* Tensors: x: T, axes: I, may be left out. Results: T. */
    NNBURST_TFLITE_SQUEEZE = 43,
    /* Tensors: x: F32 [n, steps, depth] or [steps, n, depth], weights of input, forget, cell and output gate: Q8
     * signed [units, depth], recurrent weights: Q8 signed [units, outputs], peepholes of input, forget and output
     * gate: Q8 signed [units], biases: F32 [units], projection: Q8 signed [outputs, units], its bias: F32 [outputs],
     * states: F32 [n, outputs] and [n, units], coefficients of normalisation: F32 [units]; all of the input gate may
     * be left out, and peepholes, projection, its bias and coefficients. Results: F32 [.., .., outputs], next
     * states. Options: activation: INT32, cell_clip: FLOAT32, proj_clip: FLOAT32, time_major: BOOL,
     * asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM = 44,
    /* Tensors: x: T, begin: I, end: I, strides: I. Results: T. Options: begin_mask: INT32, end_mask: INT32,
     * ellipsis_mask: INT32, new_axis_mask: INT32, shrink_axis_mask: INT32, offset: BOOL. */
    NNBURST_TFLITE_STRIDED_SLICE = 45,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_EXP = 47,
    /* Tensors: x: T, k: I. Results: values: T, places: I32 or Q16. */
    NNBURST_TFLITE_TOPK_V2 = 48,
    /* Tensors: axis: I, x: T. Results: T, as many as there are. */
    NNBURST_TFLITE_SPLIT = 49,
    /* Tensors: x: T, over the last dimension. Results: T. */
    NNBURST_TFLITE_LOG_SOFTMAX = 50,
    /* Tensors: x: T. Results: U. */
    NNBURST_TFLITE_CAST = 53,
    /* Tensors: x: T, alpha: T, which broadcast. Results: T. */
    NNBURST_TFLITE_PRELU = 54,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_MAXIMUM = 55,
    /* Tensors: x: T, axis: I. Results: I32 or I64. */
    NNBURST_TFLITE_ARG_MAX = 56,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_MINIMUM = 57,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_LESS = 58,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_NEG = 59,
    /* Tensors: x: T, in front and behind of each dimension: I [rank, 2], value: T. Results: T. */
    NNBURST_TFLITE_PADV2 = 60,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_GREATER = 61,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_GREATER_EQUAL = 62,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_LESS_EQUAL = 63,
    /* Tensors: condition: B, a: T, b: T of one shape. Results: T. */
    NNBURST_TFLITE_SELECT = 64,
    /* Tensors: x: T, begin: I [rank], size: I [rank], -1 for the rest. Results: T. */
    NNBURST_TFLITE_SLICE = 65,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_SIN = 66,
    /* Tensors: shape of the result: I32 [4], filter: W [o, fh, fw, c], image: T, bias [o], may be left out.
     * Results: T. Options: padding: INT32, stride_w: INT32, stride_h: INT32, activation: INT32. */
    NNBURST_TFLITE_TRANSPOSE_CONV = 67,
    /* Tensors: positions: I, shape: I, values: T, default: T. Results: T. */
    NNBURST_TFLITE_SPARSE_TO_DENSE = 68,
    /* Tensors: x: T, times: I [rank]. Results: T. */
    NNBURST_TFLITE_TILE = 69,
    /* Tensors: x: T, axis: I. Results: T. */
    NNBURST_TFLITE_EXPAND_DIMS = 70,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_EQUAL = 71,
    /* Tensors: a: T, b: T, which broadcast. Results: B. */
    NNBURST_TFLITE_NOT_EQUAL = 72,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_LOG = 73,
    /* Tensors: x: T, axes: I. Results: T. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_SUM = 74,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_SQRT = 75,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_RSQRT = 76,
    /* Tensors: x: T. Results: I32, I64 or U32. */
    NNBURST_TFLITE_SHAPE = 77,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_POW = 78,
    /* Tensors: x: T, axis: I. Results: I32 or I64. */
    NNBURST_TFLITE_ARG_MIN = 79,
    /* Tensors: x: F32. Results: F32. Options: min: FLOAT32, max: FLOAT32, num_bits: INT32, narrow_range: BOOL. */
    NNBURST_TFLITE_FAKE_QUANT = 80,
    /* Tensors: x: T, axes: I. Results: T. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_REDUCE_PROD = 81,
    /* Tensors: x: T, axes: I. Results: T. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_REDUCE_MAX = 82,
    /* Tensors: x: T, any number of times. Results: T. Options: axis: INT32. */
    NNBURST_TFLITE_PACK = 83,
    /* Tensors: a: B, b: B, which broadcast. Results: B. */
    NNBURST_TFLITE_LOGICAL_OR = 84,
    /* Tensors: indices: I, depth: I, on: T, off: T. Results: T. Options: axis: INT32. */
    NNBURST_TFLITE_ONE_HOT = 85,
    /* Tensors: a: B, b: B, which broadcast. Results: B. */
    NNBURST_TFLITE_LOGICAL_AND = 86,
    /* Tensors: x: B. Results: B. */
    NNBURST_TFLITE_LOGICAL_NOT = 87,
    /* Tensors: x: T. Results: T, as many as the extent. Options: axis: INT32. */
    NNBURST_TFLITE_UNPACK = 88,
    /* Tensors: x: T, axes: I. Results: T. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_REDUCE_MIN = 89,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_FLOOR_DIV = 90,
    /* Tensors: x: B, axes: I. Results: B. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_REDUCE_ANY = 91,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_SQUARE = 92,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_ZEROS_LIKE = 93,
    /* Tensors: shape: I, value: T. Results: T. */
    NNBURST_TFLITE_FILL = 94,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_FLOOR_MOD = 95,
    /* Tensors: start: T, limit: T, delta: T. Results: T. */
    NNBURST_TFLITE_RANGE = 96,
    /* Tensors: image: T [n, h, w, c], height and width: I [2]. Results: T. Options: align_corners: BOOL,
     * half_pixel_centers: BOOL. */
    NNBURST_TFLITE_RESIZE_NEAREST_NEIGHBOR = 97,
    /* Tensors: x: T. Results: T. Options: alpha: FLOAT32. */
    NNBURST_TFLITE_LEAKY_RELU = 98,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_SQUARED_DIFFERENCE = 99,
    /* Tensors: x: T, in front and behind of each dimension: I [rank, 2]. Results: T. Options: mode: INT32. */
    NNBURST_TFLITE_MIRROR_PAD = 100,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_ABS = 101,
    /* Tensors: x: T, sizes: I, axis: I. Results: T, as many as there are. */
    NNBURST_TFLITE_SPLIT_V = 102,
    /* Tensors: x: T [n]. Results: values: T, places: I32 or I64. */
    NNBURST_TFLITE_UNIQUE = 103,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_CEIL = 104,
    /* Tensors: x: T, axes: I. Results: T. */
    NNBURST_TFLITE_REVERSE_V2 = 105,
    /* Tensors: x: T of one shape, any number of times. Results: T. */
    NNBURST_TFLITE_ADD_N = 106,
    /* Tensors: x: T, positions: I [.., depth]. Results: T. */
    NNBURST_TFLITE_GATHER_ND = 107,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_COS = 108,
    /* Tensors: x: T. Results: positions: I64 [found, rank]. */
    NNBURST_TFLITE_WHERE = 109,
    /* Tensors: x: T. Results: I32, I64 or U32. */
    NNBURST_TFLITE_RANK = 110,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_ELU = 111,
    /* Tensors: x: T, lengths: I. Results: T. Options: seq_dim: INT32, batch_dim: INT32. */
    NNBURST_TFLITE_REVERSE_SEQUENCE = 112,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_MATRIX_DIAG = 113,
    /* Tensors: x: T. Results: U. */
    NNBURST_TFLITE_QUANTIZE = 114,
    /* Tensors: x: T, diagonal: T. Results: T. */
    NNBURST_TFLITE_MATRIX_SET_DIAG = 115,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_ROUND = 116,
    /* Tensors: boxes: F32 [n, 4], scores: F32 [n], most: I, overlap: F32, least score: F32. Results: places:
     * I32 [most], count: I32. */
    NNBURST_TFLITE_NON_MAX_SUPPRESSION_V4 = 120,
    /* Tensors: boxes: F32 [n, 4], scores: F32 [n], most: I, overlap: F32, least score: F32, sigma: F32.
     * Results: places: I32 [most], scores: F32 [most], count: I32. */
    NNBURST_TFLITE_NON_MAX_SUPPRESSION_V5 = 121,
    /* Tensors: positions: I [.., depth], updates: T, shape: I. Results: T. */
    NNBURST_TFLITE_SCATTER_ND = 122,
    /* Tensors: condition: B, a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_SELECT_V2 = 123,
    /* Tensors: x: T, ids: I [n], sorted. Results: T. */
    NNBURST_TFLITE_SEGMENT_SUM = 125,
    /* Tensors: a: T [.., m, k], b: U [.., k, n], whose batches broadcast. Results: T. Options: adj_x: BOOL,
     * adj_y: BOOL, asymmetric_quantize_inputs: BOOL. */
    NNBURST_TFLITE_BATCH_MATMUL = 126,
    /* Tensors: x: T, axis: I. Results: T. Options: exclusive: BOOL, reverse: BOOL. */
    NNBURST_TFLITE_CUMSUM = 128,
    /* Tensors: x: T, shape: I. Results: T. */
    NNBURST_TFLITE_BROADCAST_TO = 130,
    /* Tensors: x: F32 [.., h, w], sizes: I [2], powers of two. Results: COMPLEX64
     * [.., sizes[0], sizes[1] / 2 + 1]. */
    NNBURST_TFLITE_RFFT2D = 131,
    /* Tensors: volume: F32 [n, d, h, w, c], filter: F32 [fd, fh, fw, c, o], bias: F32 [o], may be left out.
     * Results: F32. Options: padding: INT32, stride_d: INT32, stride_w: INT32, stride_h: INT32, activation: INT32,
     * dilation_d_factor: INT32, dilation_w_factor: INT32, dilation_h_factor: INT32. */
    NNBURST_TFLITE_CONV_3D = 132,
    /* Tensors: x: COMPLEX64. Results: F32. */
    NNBURST_TFLITE_IMAG = 133,
    /* Tensors: x: COMPLEX64. Results: F32. */
    NNBURST_TFLITE_REAL = 134,
    /* Tensors: x: COMPLEX64. Results: F32. */
    NNBURST_TFLITE_COMPLEX_ABS = 135,
    /* Tensors: x: B, axes: I. Results: B. Options: keep_dims: BOOL. */
    NNBURST_TFLITE_REDUCE_ALL = 140,
    /* Tensors: shape of the result: I [5], filter: F32 [fd, fh, fw, o, c], volume: F32 [n, d, h, w, c], bias: F32
     * [o], may be left out. Results: F32. Options: padding: INT32, stride_d: INT32, stride_w: INT32, stride_h: INT32,
     * activation: INT32, dilation_d_factor: INT32, dilation_w_factor: INT32, dilation_h_factor: INT32. */
    NNBURST_TFLITE_CONV_3D_TRANSPOSE = 141,
    /* Tensors: a: I, b: I, shapes. Results: I32, I64 or U32. */
    NNBURST_TFLITE_BROADCAST_ARGS = 145,
    /* Tensors: shape: I. Results: F32. Options: seed: INT32, seed2: INT32. */
    NNBURST_TFLITE_RANDOM_STANDARD_NORMAL = 146,
    /* Tensors: x: T, boundaries: F32. Results: I32. */
    NNBURST_TFLITE_BUCKETIZE = 147,
    /* Tensors: shape: I. Results: F32. Options: seed: INT32, seed2: INT32. */
    NNBURST_TFLITE_RANDOM_UNIFORM = 148,
    /* Tensors: logits: F32 [batches, classes], samples: I. Results: I32 or I64 [batches, samples]. Options: seed:
     * INT32, seed2: INT32. */
    NNBURST_TFLITE_MULTINOMIAL = 149,
    /* Tensors: x: T. Results: T. Options: approximate: BOOL. */
    NNBURST_TFLITE_GELU = 150,
    /* Tensors: x: T, update: T, start: I32 or I64 [rank]. Results: T. */
    NNBURST_TFLITE_DYNAMIC_UPDATE_SLICE = 151,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_RELU_0_TO_1 = 152,
    /* Tensors: x: T, ids: I, count: I. Results: T. */
    NNBURST_TFLITE_UNSORTED_SEGMENT_PROD = 153,
    /* Tensors: x: T, ids: I, count: I. Results: T. */
    NNBURST_TFLITE_UNSORTED_SEGMENT_MAX = 154,
    /* Tensors: x: T, ids: I, count: I. Results: T. */
    NNBURST_TFLITE_UNSORTED_SEGMENT_SUM = 155,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_ATAN2 = 156,
    /* Tensors: x: T, ids: I, count: I. Results: T. */
    NNBURST_TFLITE_UNSORTED_SEGMENT_MIN = 157,
    /* Tensors: x: T. Results: T. */
    NNBURST_TFLITE_SIGN = 158,
    /* Tensors: x: T. Results: U. */
    NNBURST_TFLITE_BITCAST = 159,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_BITWISE_XOR = 160,
    /* Tensors: a: T, b: T, which broadcast. Results: T. */
    NNBURST_TFLITE_RIGHT_SHIFT = 161,
    /* Tensors: a: T, b: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_ADD = 163,
    /* Tensors: a: T, b: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_MULTIPLY = 165,
    /* Tensors: a: T, b: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_MAXIMUM = 166,
    /* Tensors: a: T, b: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_AND = 176,
    /* Tensors: a: T, b: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_MINIMUM = 181,
    /* Tensors: x: T, positions: I, updates: T, update_window_dims: I, inserted_window_dims: I,
     * scatter_dims_to_operand_dims: I; lists without entries may be left out. Results: T. Options:
     * index_vector_dim: INT32, combination: INT32. */
    NNBURST_TFLITE_STABLEHLO_SCATTER = 190,
    /* Tensors: x: T, filler: T, edge_padding_low: I [rank], edge_padding_high: I [rank], interior_padding: I
     * [rank]. Results: T. */
    NNBURST_TFLITE_STABLEHLO_PAD = 195,
    /* Tensors: x: T, first: T, window_dimensions: I [rank], window_strides: I [rank], base_dilations: I [rank],
     * window_dilations: I [rank], padding: I [rank, 2]. Results: T. Options: combination: INT32. */
    NNBURST_TFLITE_STABLEHLO_REDUCE_WINDOW = 198,
    /* Tensors: x: T, positions: I, offset_dims: I, collapsed_slice_dims: I, start_index_map: I, slice_sizes: I
     * [rank]; lists without entries may be left out. Results: T. Options: index_vector_dim: INT32. */
    NNBURST_TFLITE_STABLEHLO_GATHER = 201,
    /* Tensors: x: T, steps: I [rank], filler: T. Results: T. */
    NNBURST_TFLITE_DILATE = 203,
    /* Tensors: state: TENSOR_UINT64 [2] or [3]. Results: next state: TENSOR_UINT64, bits of the shape that is
     * declared: I32, I64, U32 or TENSOR_UINT64. Options: algorithm: INT32. */
    NNBURST_TFLITE_STABLEHLO_RNG_BIT_GENERATOR = 204,
    /* Tensors: x: T, first: T, window_dimensions: I [rank], window_strides: I [rank], window_dilations: I [rank].
     * Results: T. Options: reduce_function: INT32. */
    NNBURST_TFLITE_REDUCE_WINDOW = 205,
    /* Custom operators of MediaPipe, of TFLite's perception kernels, and of networks of speech. */

    /* Tensors: a: T, places: T, of one shape. Results: T. */
    NNBURST_TFLITE_STABLEHLO_SHIFT_LEFT = 207,
    /* Tensors: image: F32 [n, h, w, c], filter: F32 [o, fh, fw, c], bias: F32 [o]. Results: F32. Options: padding:
     * INT32, stride_w: INT32, stride_h: INT32. */
    NNBURST_TFLITE_CONVOLUTION_2D_TRANSPOSE_BIAS = 1024,
    /* Tensors: image: F32 [n, h, w, c]. Results: values: F32, places: F32 (taps) or I32 (elements). Options:
     * padding: INT32, stride_w: INT32, stride_h: INT32, filter_width: INT32, filter_height: INT32,
     * activation: INT32. */
    NNBURST_TFLITE_MAX_POOLING_WITH_ARGMAX_2D = 1025,
    /* Tensors: values: F32 [n, h, w, c], places: F32 (taps) or I32 (elements). Results: F32. Options: padding:
     * INT32, stride_w: INT32, stride_h: INT32, filter_width: INT32, filter_height: INT32, activation: INT32. */
    NNBURST_TFLITE_MAX_UNPOOLING_2D = 1026,
    /* Tensors: samples: F32 [time, channels]. Results: F32 [channels, windows, frequencies]. Options: window_size:
     * INT32, stride: INT32, magnitude_squared: BOOL. */
    NNBURST_TFLITE_AUDIO_SPECTROGRAM = 1027,
    /* Tensors: squared spectrogram: F32 [channels, windows, frequencies], samples a second: I32 [1]. Results: F32
     * [channels, windows, coefficients]. Options: upper_frequency_limit: FLOAT32, lower_frequency_limit: FLOAT32,
     * filterbank_channel_count: INT32, dct_coefficient_count: INT32. */
    NNBURST_TFLITE_MFCC = 1028,
    /* Tensors: x: F32 [.., features, depth] of rank 2 or 3. Results: F32. Options: hadamard_size: INT32. */
    NNBURST_TFLITE_HADAMARD_ROTATION = 1029,
};

#endif
