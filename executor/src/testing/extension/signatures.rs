//! The tensors that each operation of `dev.nnburst.tflite` takes and gives.

/// Tensors that an operation takes and gives: a letter each, see
/// [`Draft::input`](super::draft::Draft::input) and [`Draft::output`](super::draft::Draft::output).
pub(super) struct Signature {
    pub(super) names: &'static [&'static str],
    pub(super) ranks: (u32, u32),
    pub(super) inputs: &'static str,
    pub(super) outputs: &'static str,
}

const fn of(
    names: &'static [&'static str],
    low: u32,
    high: u32,
    inputs: &'static str,
    outputs: &'static str,
) -> Signature {
    Signature { names, ranks: (low, high), inputs, outputs }
}

pub(super) const SIGNATURES: &[Signature] = &[
    of(
        &[
            "ADD",
            "SUB",
            "MUL",
            "DIV",
            "MAXIMUM",
            "MINIMUM",
            "POW",
            "FLOOR_DIV",
            "FLOOR_MOD",
            "SQUARED_DIFFERENCE",
            "ATAN2",
            "BITWISE_XOR",
            "RIGHT_SHIFT",
            "PRELU",
        ],
        1,
        5,
        "de",
        "k",
    ),
    of(&["LESS", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "EQUAL", "NOT_EQUAL"], 1, 5, "de", "b"),
    of(&["LOGICAL_OR", "LOGICAL_AND"], 1, 4, "cc", "b"),
    of(&["AVERAGE_POOL_2D", "MAX_POOL_2D"], 4, 4, "d", "k"),
    of(&["DEPTH_TO_SPACE", "SPACE_TO_DEPTH"], 4, 4, "d", "k"),
    of(&["CONCATENATION", "PACK", "ADD_N"], 1, 4, "ddd", "k"),
    of(&["CONV_2D"], 4, 4, "dwz", "k"),
    of(&["DEPTHWISE_CONV_2D"], 4, 4, "dWz", "k"),
    of(&["TRANSPOSE_CONV"], 4, 4, "oTdz", "k"),
    of(&["DEQUANTIZE", "IMAG", "REAL", "COMPLEX_ABS"], 1, 4, "d", "f"),
    of(&["EMBEDDING_LOOKUP"], 1, 4, "xd", "k"),
    // With scales of blocks.
    of(&["EMBEDDING_LOOKUP"], 1, 1, "x09", "f"),
    of(
        &[
            "FLOOR",
            "LOGISTIC",
            "RELU",
            "RELU_N1_TO_1",
            "RELU6",
            "TANH",
            "EXP",
            "NEG",
            "SIN",
            "LOG",
            "SQRT",
            "RSQRT",
            "SQUARE",
            "ZEROS_LIKE",
            "LEAKY_RELU",
            "ABS",
        ],
        1,
        5,
        "d",
        "k",
    ),
    of(
        &[
            "CEIL",
            "COS",
            "ELU",
            "ROUND",
            "GELU",
            "RELU_0_TO_1",
            "SIGN",
            "SOFTMAX",
            "MATRIX_DIAG",
            "L2_NORMALIZATION",
        ],
        1,
        5,
        "d",
        "k",
    ),
    of(&["FAKE_QUANT"], 1, 5, "A", "f"),
    of(
        &[
            "STABLEHLO_ADD",
            "STABLEHLO_MULTIPLY",
            "STABLEHLO_MAXIMUM",
            "STABLEHLO_AND",
            "STABLEHLO_MINIMUM",
            "STABLEHLO_SHIFT_LEFT",
        ],
        1,
        5,
        "dd",
        "k",
    ),
    of(&["LOGICAL_NOT"], 1, 4, "c", "b"),
    of(&["FULLY_CONNECTED"], 1, 4, "dmz", "k"),
    // With scales of blocks.
    of(&["FULLY_CONNECTED"], 1, 4, "&0Z9", "f"),
    of(&["RESHAPE", "BROADCAST_TO"], 1, 5, "dv", "k"),
    of(&["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"], 4, 4, "dh", "k"),
    of(&["PAD", "MIRROR_PAD"], 1, 5, "dp", "k"),
    of(&["PADV2"], 1, 5, "dps", "k"),
    of(&["GATHER"], 1, 5, "dx", "k"),
    of(&["BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"], 4, 4, "dhP", "k"),
    of(&["TRANSPOSE"], 1, 5, "dO", "k"),
    of(
        &["MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "SQUEEZE", "REVERSE_V2"],
        1,
        5,
        "dl",
        "k",
    ),
    of(&["REDUCE_ANY", "REDUCE_ALL"], 1, 5, "cl", "b"),
    of(&["STRIDED_SLICE"], 1, 4, "drrr", "k"),
    of(&["TOPK_V2"], 1, 4, "dk", "ki"),
    of(&["SPLIT"], 1, 4, "ad", "kk"),
    of(&["CAST", "BITCAST", "QUANTIZE"], 1, 4, "d", "?"),
    of(&["ARG_MAX", "ARG_MIN"], 1, 4, "da", "i"),
    of(&["SELECT"], 1, 4, "cdd", "k"),
    of(&["SELECT_V2"], 1, 4, "cde", "k"),
    of(&["SLICE"], 1, 5, "drr", "k"),
    of(&["SPARSE_TO_DENSE"], 1, 3, "yvVs", "k"),
    of(&["TILE"], 1, 5, "dr", "k"),
    of(&["EXPAND_DIMS", "CUMSUM"], 1, 5, "da", "k"),
    of(&["SHAPE", "RANK"], 1, 5, "d", "i"),
    of(&["ONE_HOT"], 1, 3, "xkss", "k"),
    of(&["UNPACK"], 1, 4, "d", "kk"),
    of(&["FILL"], 1, 4, "rs", "k"),
    of(&["RANGE"], 1, 1, "sss", "k"),
    of(&["SPLIT_V"], 1, 4, "dra", "kk"),
    of(&["UNIQUE"], 1, 1, "d", "ki"),
    of(&["GATHER_ND"], 1, 4, "dy", "k"),
    of(&["WHERE"], 1, 4, "d", "I"),
    of(&["REVERSE_SEQUENCE"], 2, 4, "dg", "k"),
    of(&["MATRIX_SET_DIAG"], 2, 4, "dG", "k"),
    of(&["NON_MAX_SUPPRESSION_V4"], 1, 1, "BSktt", "ii"),
    of(&["NON_MAX_SUPPRESSION_V5"], 1, 1, "BSkttt", "ifi"),
    of(&["SCATTER_ND"], 1, 3, "yVv", "k"),
    of(&["SEGMENT_SUM"], 1, 4, "dg", "k"),
    of(
        &[
            "UNSORTED_SEGMENT_PROD",
            "UNSORTED_SEGMENT_MAX",
            "UNSORTED_SEGMENT_SUM",
            "UNSORTED_SEGMENT_MIN",
        ],
        1,
        4,
        "dgk",
        "k",
    ),
    of(&["BATCH_MATMUL"], 2, 4, "dM", "k"),
    of(&["BROADCAST_ARGS"], 1, 4, "vv", "i"),
    of(&["BUCKETIZE"], 1, 4, "dt", "i"),
    of(&["DYNAMIC_UPDATE_SLICE"], 1, 4, "dUr", "k"),
    of(&["HASHTABLE_LOOKUP"], 1, 4, "nnd", "ku"),
    of(&["LSH_PROJECTION"], 1, 4, "HdN", "i"),
    of(&["RNN"], 2, 2, "AmRZ1", "ff"),
    of(&["UNIDIRECTIONAL_SEQUENCE_RNN"], 3, 3, "AmRZ2", "ff"),
    of(&["LSTM"], 2, 2, "A33334444555ZZZZ4Z11ZZZZ", "fff"),
    // With the BASIC kernel.
    of(&["LSTM"], 2, 2, "!@#$%", "u%"),
    of(&["UNIDIRECTIONAL_SEQUENCE_LSTM"], 3, 3, "A33334444555ZZZZ4Z22ZZZZ", "fff"),
    of(&["SVDF"], 2, 2, "*mEzK", "kM"),
    of(&["LOG_SOFTMAX"], 1, 4, "d", "L"),
    of(&["RFFT2D"], 2, 4, "AF", "C"),
    of(&["CONV_3D"], 5, 5, "AXZ", "f"),
    of(&["CONV_3D_TRANSPOSE"], 5, 5, "QYAZ", "f"),
    of(&["RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"], 1, 4, "v", "f"),
    of(&["MULTINOMIAL"], 2, 2, "Ak", "i"),
    of(&["EMBEDDING_LOOKUP_SPARSE"], 2, 4, "nqhNA", "f"),
    of(&["STABLEHLO_SCATTER"], 1, 4, "dyVlOO", "k"),
    of(&["STABLEHLO_PAD"], 1, 5, "dsrrr", "k"),
    of(&["STABLEHLO_REDUCE_WINDOW"], 1, 4, "dsrrrrp", "k"),
    of(&["STABLEHLO_GATHER"], 1, 4, "dy6lOr", "k"),
    of(&["DILATE"], 1, 5, "drs", "k"),
    of(&["STABLEHLO_RNG_BIT_GENERATOR"], 1, 3, "7", "WS"),
    of(&["REDUCE_WINDOW"], 1, 5, "dsrrr", "k"),
    of(&["CONVOLUTION_2D_TRANSPOSE_BIAS"], 4, 4, "ADZ", "f"),
    of(&["MAX_POOLING_WITH_ARGMAX_2D"], 4, 4, "A", "fj"),
    of(&["MAX_UNPOOLING_2D"], 4, 4, "AJ", "f"),
    of(&["AUDIO_SPECTROGRAM"], 2, 2, "A", "f"),
    of(&["MFCC"], 3, 3, "A8", "f"),
    of(&["HADAMARD_ROTATION"], 2, 3, "A", "f"),
];

#[cfg(test)]
mod tests {
    use nnburst_hal::tflite_extension::OPERATIONS;

    use super::*;

    #[test]
    fn every_operation_has_a_signature() {
        for about in OPERATIONS {
            let count = SIGNATURES.iter().filter(|it| it.names.contains(&about.name)).count();
            // Those whose inputs may be of several kinds have a signature for each.
            let has_two = matches!(about.name, "EMBEDDING_LOOKUP" | "FULLY_CONNECTED" | "LSTM");
            let forms = if has_two { 2 } else { 1 };
            assert_eq!(count, forms, "{}", about.name);
        }
    }
}
