//! Recipes for a file of each operator.

mod draws;
mod elementwise;
mod gates;
mod images;
mod indices;
mod layers;
mod loops;
mod moves;
mod sets;
mod speech;
mod stablehlo;
mod stored_gates;
mod volumes;

use nnburst_tflite::TensorKind::{self, Bool, Float16, Float32, Int8, Int16, Int32, Int64, Uint8};

use crate::net::Net;

/// An operator and how a file of it is made.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Net, &'static str),
}

macro_rules! recipes {
    ($($make:expr => [$($name:literal),*];)*) => {
        /// Every operator, some of them several times.
        pub(crate) const RECIPES: &[Recipe] = &[$($(Recipe { name: $name, make: $make },)*)*];
    };
}

const STORED: &[TensorKind] = &[Int8, Uint8, Int16];

recipes! {
    |net, name| elementwise::unary(net, name, &[Float32, Int8, Uint8, Int16]) =>
        ["RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "LEAKY_RELU"];
    |net, name| elementwise::unary(net, name, &[Float32, Int8, Uint8]) => ["RELU_0_TO_1"];
    |net, name| elementwise::unary(net, name, &[Float32, Int32, Int64]) => ["ZEROS_LIKE"];
    |net, name| elementwise::unary(net, name, &[Float32, Int8, Int16]) =>
        ["ABS", "EXP", "GELU"];
    |net, name| elementwise::unary(net, name, &[Float16]) => ["LOGISTIC", "TANH", "GELU"];
    |net, name| elementwise::unary(net, name, &[Float32]) => ["FLOOR", "CEIL", "ROUND", "SIN", "COS", "SQUARE"];
    |net, name| elementwise::unary(net, name, &[Float32, Int32, Int64, Int8, Int16]) => ["NEG"];
    |net, name| elementwise::unary(net, name, &[Float32, Int32]) => ["SIGN"];
    |net, name| elementwise::unary(net, name, &[Bool]) => ["LOGICAL_NOT"];
    |net, name| elementwise::positive(net, name, &[Float32, Int8, Int16]) => ["RSQRT", "LOG", "SQRT"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["ADD", "SUB", "MUL", "ADD", "SUB", "MUL"];
    elementwise::plain_words => ["ADD", "MUL"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Uint8]) => ["DIV"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["MAXIMUM", "MINIMUM"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Int8]) => ["SQUARED_DIFFERENCE"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Int64]) => ["FLOOR_DIV", "FLOOR_MOD"];
    |net, name| elementwise::binary(net, name, &[Float32, Float16]) => ["ATAN2"];
    |net, name| elementwise::binary(net, name, &[Float16]) => ["MAXIMUM", "MINIMUM"];
    elementwise::power => ["POW"];
    elementwise::add_n => ["ADD_N"];
    |net, name| elementwise::binary(net, name, &[Int32, Int8, Int16]) => ["BITWISE_XOR", "RIGHT_SHIFT"];
    |net, name| elementwise::binary(net, name, &[Bool]) => ["LOGICAL_AND", "LOGICAL_OR"];
    |net, name| elementwise::binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"];
    elementwise::prelu => ["PRELU"];
    elementwise::quantize => ["QUANTIZE", "QUANTIZE"];
    elementwise::dequantize => ["DEQUANTIZE"];
    elementwise::cast => ["CAST", "CAST"];
    |net, name| elementwise::reduce(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["MEAN", "MEAN", "REDUCE_MAX", "REDUCE_MIN"];
    |net, name| elementwise::reduce(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["SUM"];
    |net, name| elementwise::reduce(net, name, &[Float32, Int32, Int64]) => ["REDUCE_PROD"];
    |net, name| elementwise::reduce(net, name, STORED) => ["REDUCE_PROD"];
    |net, name| elementwise::reduce(net, name, &[Bool]) =>
        ["REDUCE_ANY", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"];
    layers::fully_connected => ["FULLY_CONNECTED", "FULLY_CONNECTED", "FULLY_CONNECTED"];
    layers::batch_matmul => ["BATCH_MATMUL", "BATCH_MATMUL"];
    layers::convolution => ["CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTHWISE_CONV_2D"];
    layers::transposed => ["TRANSPOSE_CONV"];
    layers::pool => ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"];
    layers::svdf => ["SVDF"];
    layers::rnn => ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"];
    gates::lstm => ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"];
    stored_gates::lstm => ["UNIDIRECTIONAL_SEQUENCE_LSTM"];
    stored_gates::basic => ["LSTM"];
    gates::bidirectional_rnn => ["BIDIRECTIONAL_SEQUENCE_RNN"];
    layers::softmax => ["SOFTMAX", "LOG_SOFTMAX"];
    layers::normalisation => ["L2_NORMALIZATION"];
    layers::resize => ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"];
    moves::transpose => ["TRANSPOSE"];
    moves::reshape => ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"];
    moves::slice => ["SLICE"];
    moves::strided_slice => ["STRIDED_SLICE", "STRIDED_SLICE"];
    moves::pad => ["PAD", "PADV2", "MIRROR_PAD"];
    moves::concatenation => ["CONCATENATION", "PACK"];
    moves::split => ["SPLIT", "UNPACK"];
    moves::tile => ["TILE", "BROADCAST_TO"];
    indices::gather => ["GATHER", "GATHER"];
    indices::gather_nd => ["GATHER_ND", "SCATTER_ND"];
    indices::select => ["SELECT_V2", "SELECT"];
    indices::top_k => ["TOPK_V2", "ARG_MAX", "ARG_MIN"];
    elementwise::cumsum => ["CUMSUM"];
    moves::reverse => ["REVERSE_V2"];
    indices::one_hot => ["ONE_HOT"];
    moves::update => ["DYNAMIC_UPDATE_SLICE"];
    volumes::convolution => ["CONV_3D", "CONV_3D_TRANSPOSE"];
    volumes::transform => ["RFFT2D"];
    draws::distributed => ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"];
    draws::multinomial => ["MULTINOMIAL"];
    draws::hashtable_lookup => ["HASHTABLE_LOOKUP"];
    draws::lsh_projection => ["LSH_PROJECTION"];
    stablehlo::elementwise =>
        ["STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM"];
    stablehlo::bits => ["STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT"];
    stablehlo::scatter => ["STABLEHLO_SCATTER"];
    stablehlo::gather => ["STABLEHLO_GATHER"];
    stablehlo::pad => ["STABLEHLO_PAD", "DILATE"];
    stablehlo::window => ["REDUCE_WINDOW", "STABLEHLO_REDUCE_WINDOW"];
    stablehlo::random_bits => ["STABLEHLO_RNG_BIT_GENERATOR"];
    stablehlo::fake_quant => ["FAKE_QUANT"];
    stablehlo::sparse_lookup => ["EMBEDDING_LOOKUP_SPARSE"];
    speech::spectrogram => ["AudioSpectrogram"];
    speech::mfcc => ["Mfcc"];
    images::batches => ["SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"];
    images::channels => ["SPACE_TO_DEPTH", "DEPTH_TO_SPACE"];
    images::local_response => ["LOCAL_RESPONSE_NORMALIZATION"];
    images::suppression => ["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"];
    images::detection => ["TFLite_Detection_PostProcess"];
    images::diagonal => ["MATRIX_DIAG", "MATRIX_SET_DIAG"];
    sets::places => ["WHERE"];
    sets::unique => ["UNIQUE"];
    sets::range => ["RANGE"];
    sets::fill => ["FILL"];
    sets::extents => ["SHAPE", "RANK"];
    sets::segments => [
        "SEGMENT_SUM", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX",
        "UNSORTED_SEGMENT_MIN"
    ];
    sets::bucketize => ["BUCKETIZE"];
    sets::sparse => ["SPARSE_TO_DENSE"];
    sets::reverse_sequence => ["REVERSE_SEQUENCE"];
    sets::split => ["SPLIT_V"];
    sets::embedding => ["EMBEDDING_LOOKUP"];
    sets::complex => ["REAL", "IMAG", "COMPLEX_ABS", "MUL"];
    sets::bitcast => ["BITCAST"];
    sets::broadcast => ["BROADCAST_ARGS"];
    sets::variable => ["VAR_HANDLE"];
    sets::graphs => ["STABLEHLO_COMPOSITE", "STABLEHLO_CASE"];
    loops::growing => ["WHILE", "WHILE"];
    loops::branches => ["IF"];
    loops::empty => ["CONCATENATION", "SHAPE", "RESHAPE", "PAD", "SUM", "ADD"];
}

impl Net {
    /// Sets a quantisation.
    fn fix(&mut self, tensor: i32, scale: f32, zero_point: i64) {
        self.file.quantize(tensor, &[scale], &[zero_point], 0);
    }
}

/// Two shapes that broadcast, and the wide one.
fn pair(net: &mut Net, most: i32) -> [Vec<i32>; 3] {
    let wide = net.shape((1, most));
    let mut own = [wide.clone(), wide.clone()];
    let which = usize::from(net.random.flag());
    match net.random.below(4) {
        0 => {
            for extent in &mut own[which] {
                if net.random.flag() {
                    *extent = 1;
                }
            }
        }
        1 => {
            let cut = usize::try_from(net.random.below(i32::try_from(wide.len()).unwrap_or(1)));
            own[which].drain(..cut.unwrap_or(0));
        }
        _ => {}
    }
    let [a, b] = own;
    [a, b, wide]
}

const ANY: &[TensorKind] = &[Float32, Int8, Uint8, Int16, Int32, Int64];

fn at(values: &[i32], index: i32) -> i32 {
    values[usize::try_from(index).unwrap_or(0)]
}

fn rank(shape: &[i32]) -> i32 {
    i32::try_from(shape.len()).unwrap_or(0)
}
