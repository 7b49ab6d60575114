//! The table of the extension's operations.

use super::{ExtensionOperation, OperationOption, OptionType};

macro_rules! operations {
    ($($number:literal $name:ident [$($option:ident $kind:ident),*];)*) => {
        /// Every operation of the extension, sorted by number.
        pub const OPERATIONS: &[ExtensionOperation] = &[$(ExtensionOperation {
            number: $number,
            name: stringify!($name),
            options: &[$(OperationOption {
                name: stringify!($option),
                kind: OptionType::$kind,
            }),*],
        }),*];
    };
}

operations! {
    0 ADD [activation Int, pot_scale_int16 Bool];
    1 AVERAGE_POOL_2D [padding Int, stride_w Int, stride_h Int, filter_width Int, filter_height Int, activation Int];
    2 CONCATENATION [axis Int, activation Int];
    3 CONV_2D [padding Int, stride_w Int, stride_h Int, activation Int, dilation_w_factor Int, dilation_h_factor Int];
    4 DEPTHWISE_CONV_2D [padding Int, stride_w Int, stride_h Int, activation Int, dilation_w_factor Int, dilation_h_factor Int];
    5 DEPTH_TO_SPACE [block_size Int];
    6 DEQUANTIZE [];
    7 EMBEDDING_LOOKUP [];
    8 FLOOR [];
    9 FULLY_CONNECTED [activation Int, keep_num_dims Bool, asymmetric_quantize_inputs Bool];
    10 HASHTABLE_LOOKUP [];
    11 L2_NORMALIZATION [activation Int];
    14 LOGISTIC [];
    15 LSH_PROJECTION [type Int];
    16 LSTM [activation Int, cell_clip Float, proj_clip Float, asymmetric_quantize_inputs Bool];
    17 MAX_POOL_2D [padding Int, stride_w Int, stride_h Int, filter_width Int, filter_height Int, activation Int];
    18 MUL [activation Int];
    19 RELU [];
    20 RELU_N1_TO_1 [];
    21 RELU6 [];
    22 RESHAPE [];
    23 RESIZE_BILINEAR [align_corners Bool, half_pixel_centers Bool];
    24 RNN [activation Int, asymmetric_quantize_inputs Bool];
    25 SOFTMAX [beta Float];
    26 SPACE_TO_DEPTH [block_size Int];
    27 SVDF [rank Int, activation Int, asymmetric_quantize_inputs Bool];
    28 TANH [];
    33 EMBEDDING_LOOKUP_SPARSE [combiner Int];
    34 PAD [];
    35 UNIDIRECTIONAL_SEQUENCE_RNN [time_major Bool, activation Int, asymmetric_quantize_inputs Bool];
    36 GATHER [axis Int, batch_dims Int];
    37 BATCH_TO_SPACE_ND [];
    38 SPACE_TO_BATCH_ND [];
    39 TRANSPOSE [];
    40 MEAN [keep_dims Bool];
    41 SUB [activation Int, pot_scale_int16 Bool];
    42 DIV [activation Int];
    43 SQUEEZE [];
    44 UNIDIRECTIONAL_SEQUENCE_LSTM [activation Int, cell_clip Float, proj_clip Float, time_major Bool, asymmetric_quantize_inputs Bool];
    45 STRIDED_SLICE [begin_mask Int, end_mask Int, ellipsis_mask Int, new_axis_mask Int, shrink_axis_mask Int, offset Bool];
    47 EXP [];
    48 TOPK_V2 [];
    49 SPLIT [];
    50 LOG_SOFTMAX [];
    53 CAST [];
    54 PRELU [];
    55 MAXIMUM [];
    56 ARG_MAX [];
    57 MINIMUM [];
    58 LESS [];
    59 NEG [];
    60 PADV2 [];
    61 GREATER [];
    62 GREATER_EQUAL [];
    63 LESS_EQUAL [];
    64 SELECT [];
    65 SLICE [];
    66 SIN [];
    67 TRANSPOSE_CONV [padding Int, stride_w Int, stride_h Int, activation Int];
    68 SPARSE_TO_DENSE [];
    69 TILE [];
    70 EXPAND_DIMS [];
    71 EQUAL [];
    72 NOT_EQUAL [];
    73 LOG [];
    74 SUM [keep_dims Bool];
    75 SQRT [];
    76 RSQRT [];
    77 SHAPE [];
    78 POW [];
    79 ARG_MIN [];
    80 FAKE_QUANT [min Float, max Float, num_bits Int, narrow_range Bool];
    81 REDUCE_PROD [keep_dims Bool];
    82 REDUCE_MAX [keep_dims Bool];
    83 PACK [axis Int];
    84 LOGICAL_OR [];
    85 ONE_HOT [axis Int];
    86 LOGICAL_AND [];
    87 LOGICAL_NOT [];
    88 UNPACK [axis Int];
    89 REDUCE_MIN [keep_dims Bool];
    90 FLOOR_DIV [];
    91 REDUCE_ANY [keep_dims Bool];
    92 SQUARE [];
    93 ZEROS_LIKE [];
    94 FILL [];
    95 FLOOR_MOD [];
    96 RANGE [];
    97 RESIZE_NEAREST_NEIGHBOR [align_corners Bool, half_pixel_centers Bool];
    98 LEAKY_RELU [alpha Float];
    99 SQUARED_DIFFERENCE [];
    100 MIRROR_PAD [mode Int];
    101 ABS [];
    102 SPLIT_V [];
    103 UNIQUE [];
    104 CEIL [];
    105 REVERSE_V2 [];
    106 ADD_N [];
    107 GATHER_ND [];
    108 COS [];
    109 WHERE [];
    110 RANK [];
    111 ELU [];
    112 REVERSE_SEQUENCE [seq_dim Int, batch_dim Int];
    113 MATRIX_DIAG [];
    114 QUANTIZE [];
    115 MATRIX_SET_DIAG [];
    116 ROUND [];
    120 NON_MAX_SUPPRESSION_V4 [];
    121 NON_MAX_SUPPRESSION_V5 [];
    122 SCATTER_ND [];
    123 SELECT_V2 [];
    125 SEGMENT_SUM [];
    126 BATCH_MATMUL [adj_x Bool, adj_y Bool, asymmetric_quantize_inputs Bool];
    128 CUMSUM [exclusive Bool, reverse Bool];
    130 BROADCAST_TO [];
    131 RFFT2D [];
    132 CONV_3D [padding Int, stride_d Int, stride_w Int, stride_h Int, activation Int, dilation_d_factor Int, dilation_w_factor Int, dilation_h_factor Int];
    133 IMAG [];
    134 REAL [];
    135 COMPLEX_ABS [];
    140 REDUCE_ALL [keep_dims Bool];
    141 CONV_3D_TRANSPOSE [padding Int, stride_d Int, stride_w Int, stride_h Int, activation Int, dilation_d_factor Int, dilation_w_factor Int, dilation_h_factor Int];
    145 BROADCAST_ARGS [];
    146 RANDOM_STANDARD_NORMAL [seed Int, seed2 Int];
    147 BUCKETIZE [];
    148 RANDOM_UNIFORM [seed Int, seed2 Int];
    149 MULTINOMIAL [seed Int, seed2 Int];
    150 GELU [approximate Bool];
    151 DYNAMIC_UPDATE_SLICE [];
    152 RELU_0_TO_1 [];
    153 UNSORTED_SEGMENT_PROD [];
    154 UNSORTED_SEGMENT_MAX [];
    155 UNSORTED_SEGMENT_SUM [];
    156 ATAN2 [];
    157 UNSORTED_SEGMENT_MIN [];
    158 SIGN [];
    159 BITCAST [];
    160 BITWISE_XOR [];
    161 RIGHT_SHIFT [];
    163 STABLEHLO_ADD [];
    165 STABLEHLO_MULTIPLY [];
    166 STABLEHLO_MAXIMUM [];
    176 STABLEHLO_AND [];
    181 STABLEHLO_MINIMUM [];
    190 STABLEHLO_SCATTER [index_vector_dim Int, combination Int];
    195 STABLEHLO_PAD [];
    198 STABLEHLO_REDUCE_WINDOW [combination Int];
    201 STABLEHLO_GATHER [index_vector_dim Int];
    203 DILATE [];
    204 STABLEHLO_RNG_BIT_GENERATOR [algorithm Int];
    205 REDUCE_WINDOW [reduce_function Int];
    207 STABLEHLO_SHIFT_LEFT [];
    1024 CONVOLUTION_2D_TRANSPOSE_BIAS [padding Int, stride_w Int, stride_h Int];
    1025 MAX_POOLING_WITH_ARGMAX_2D [padding Int, stride_w Int, stride_h Int, filter_width Int, filter_height Int, activation Int];
    1026 MAX_UNPOOLING_2D [padding Int, stride_w Int, stride_h Int, filter_width Int, filter_height Int, activation Int];
    1027 AUDIO_SPECTROGRAM [window_size Int, stride Int, magnitude_squared Bool];
    1028 MFCC [upper_frequency_limit Float, lower_frequency_limit Float, filterbank_channel_count Int, dct_coefficient_count Int];
    1029 HADAMARD_ROTATION [hadamard_size Int];
}
