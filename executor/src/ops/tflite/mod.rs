//! The vendor extension `dev.nnburst.tflite`: operators of TFLite with TFLite's arithmetic.
//!
//! ```text
//!   number ──table──► family ── OperatorCall: tensors and options ──► shapes, steps
//! ```
//!
//! Integers are those of TFLite's reference kernels to the bit; sums of floats may be in another
//! order. Source: the operators of the .tflite schema and the interpreter's reference kernels.

mod arg;
mod audio;
mod basic_lstm;
mod bilinear;
mod binary;
mod bits;
mod blocks;
mod blockwise;
mod byte_matmul;
mod choose;
mod combine;
mod conv;
mod convert;
mod convolutions;
mod copy;
mod custom;
mod dense;
mod depthwise;
mod dots;
mod fourier;
mod gelu;
mod half_bytes;
mod heap;
mod hybrid_conv;
mod hybrid_groups;
mod hybrid_transpose;
mod image;
mod index;
mod log_softmax;
mod logistic;
mod lookup;
mod lstm;
mod math;
mod moves;
mod on_the_fly;
mod ordered_conv;
mod pieces;
mod products;
mod random;
mod reduce;
mod rnn;
mod row_products;
mod scatter;
mod segments;
mod shapes;
mod slopes;
mod softmax;
mod svdf;
mod tables;
mod unary;
mod volume;
mod windows;

use nnburst_hal::tflite_extension::{self, ExtensionType, NAME};
use nnburst_hal::{
    ExtensionOperandType, Model, Operand, OperandType, Operation, OperationType, Subgraph,
};
use nnburst_kernels::tensor::OpError;

use self::arg::{Activation, ElementKind, OperatorCall};
use self::binary::{Arithmetic, Choice};
use self::combine::{BitCombination, Combination};
use self::random::Distribution;
use self::segments::Combine;
use crate::lowering::{ExtensionExecutor, Lowered, OpBuilder};
use crate::ops::compare::{Logic, Test};

/// Executes the operations of `dev.nnburst.tflite`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TfliteExecutor;

impl ExtensionExecutor for TfliteExecutor {
    fn operand_types(&self) -> &[ExtensionOperandType] {
        const TYPES: [ExtensionOperandType; 6] = {
            let mut types = [ExtensionOperandType { number: 0, is_tensor: true, byte_size: 8 }; 6];
            let mut at = 0;
            while at < types.len() {
                let kind = ExtensionType::ALL[at];
                types[at].number = kind.number();
                types[at].byte_size = kind.element_bytes();
                at += 1;
            }
            types
        };
        &TYPES
    }

    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered {
        let lower = lowering(number).ok_or_else(|| unknown(number))?;
        lower(&mut OperatorCall::new(number, op)?)
    }
}

fn unknown(number: u16) -> OpError {
    OpError::rule(format!("the extension has no operation {number}"))
}

/// Returns whether an operation is one of this extension that the executor computes, with operands
/// of types that it knows and as many options as the operation has.
pub fn takes_tflite(operation: &Operation, graph: &Subgraph, model: &Model) -> bool {
    let OperationType::Extension(code) = operation.kind else { return false };
    let is_ours = |prefix: u16| {
        let mut named = model.extension_name_to_prefix.iter().filter(|it| it.prefix == prefix);
        named.next().is_some_and(|entry| entry.name == NAME) && named.next().is_none()
    };
    let Some(about) = tflite_extension::operation(code.number) else { return false };
    let operand = |&index: &u32| graph.operands.get(usize::try_from(index).ok()?);
    let is_tensor = |operand: &Operand| match operand.kind {
        OperandType::Extension(code) => {
            is_ours(code.prefix) && ExtensionType::from_number(code.number).is_some()
        }
        kind => ElementKind::of(kind).is_some(),
    };
    let Some(tensors) = operation.inputs.len().checked_sub(about.options.len() + 1) else {
        return false;
    };
    let (tensors, options) = operation.inputs.split_at(tensors);
    is_ours(code.prefix)
        && lowering(code.number).is_some()
        && tensors.iter().all(|index| operand(index).is_some_and(is_tensor))
        && operation.outputs.iter().all(|index| operand(index).is_some_and(is_tensor))
        && options.iter().all(|index| operand(index).is_some_and(|it| it.kind.is_scalar()))
        && has_types(code.number, |input| {
            ElementKind::of(tensors.get(input).and_then(operand)?.kind)
        })
}

/// Whether inputs have types that an operation takes, where other operations take them: those of
/// integers have other forms, or none.
fn has_types(number: u16, kind: impl Fn(usize) -> Option<ElementKind>) -> bool {
    match number {
        3 | 4 | 67 => kind(1) != Some(ElementKind::I16),
        // The basic LSTM has five inputs, and a form of integers.
        16 if kind(5).is_none() => true,
        16 | 24 | 35 | 44 => kind(0) == Some(ElementKind::F32),
        _ => true,
    }
}

/// The function that lowers an operation.
type Lower = fn(&mut OperatorCall<'_, '_>) -> Lowered;

/// The lowering of the operation with this number; `None` where there is none.
fn lowering(number: u16) -> Option<Lower> {
    Some(match number {
        0 => |call| binary::arithmetic(call, Arithmetic::Add),
        1 => |call| image::pool(call, false),
        2 => pieces::concatenation,
        3 => convolutions::conv_2d,
        4 => convolutions::depthwise_conv_2d,
        5 => blocks::depth_to_space,
        6 => convert::dequantize,
        7 => index::embedding_lookup,
        8 => |call| unary::real(call, f32::floor),
        9 => dense::fully_connected,
        10 => lookup::hashtable_lookup,
        11 => image::l2_normalization,
        14 => unary::logistic,
        15 => lookup::lsh_projection,
        16 => lstm::lstm,
        17 => |call| image::pool(call, true),
        18 => |call| binary::arithmetic(call, Arithmetic::Mul),
        19 => |call| unary::relu(call, Activation::Relu),
        20 => |call| unary::relu(call, Activation::ReluN1To1),
        21 => |call| unary::relu(call, Activation::Relu6),
        22 => moves::reshape,
        23 => bilinear::resize_bilinear,
        24 => rnn::rnn,
        25 => softmax::softmax,
        26 => blocks::space_to_depth,
        27 => svdf::svdf,
        28 => unary::tanh,
        33 => lookup::embedding_lookup_sparse,
        34 | 60 => moves::padded,
        35 => rnn::sequence,
        36 => index::gather,
        37 => blocks::batch_to_space,
        38 => blocks::space_to_batch,
        39 => moves::transpose,
        40 => |call| reduce::sum(call, true),
        41 => |call| binary::arithmetic(call, Arithmetic::Sub),
        42 => |call| binary::arithmetic(call, Arithmetic::Div),
        43 => moves::squeeze,
        44 => lstm::sequence,
        45 => moves::strided_slice,
        47 => |call| unary::real(call, f32::exp),
        48 => index::top_k,
        49 => pieces::split,
        50 => log_softmax::log_softmax,
        53 => convert::cast,
        54 => slopes::prelu,
        55 => |call| binary::choice(call, Choice::Maximum),
        56 => |call| index::arg(call, false),
        57 => |call| binary::choice(call, Choice::Minimum),
        58 => |call| binary::compare(call, Test::Less),
        59 => unary::neg,
        61 => |call| binary::compare(call, Test::Greater),
        62 => |call| binary::compare(call, Test::GreaterEqual),
        63 => |call| binary::compare(call, Test::LessEqual),
        64 => |call| choose::select(call, false),
        65 => moves::slice,
        66 => |call| unary::real(call, f32::sin),
        67 => convolutions::transpose_conv,
        68 => segments::sparse_to_dense,
        69 => moves::tile,
        70 => moves::expand_dims,
        71 => |call| binary::compare(call, Test::Equal),
        72 => |call| binary::compare(call, Test::NotEqual),
        73 => unary::log,
        74 => |call| reduce::sum(call, false),
        75 => unary::sqrt,
        76 => unary::rsqrt,
        77 => shapes::shape,
        78 => |call| binary::choice(call, Choice::Pow),
        79 => |call| index::arg(call, true),
        80 => convert::fake_quant,
        81 => reduce::product,
        82 => |call| reduce::extreme(call, false),
        83 => pieces::pack,
        84 => |call| binary::logical(call, Logic::Or),
        85 => shapes::one_hot,
        86 => |call| binary::logical(call, Logic::And),
        87 => unary::logical_not,
        88 => pieces::unpack,
        89 => |call| reduce::extreme(call, true),
        90 => |call| binary::choice(call, Choice::FloorDiv),
        91 => |call| reduce::any(call, false),
        92 => unary::square,
        93 => moves::zeros_like,
        94 => moves::fill,
        95 => |call| binary::choice(call, Choice::FloorMod),
        96 => shapes::range,
        97 => image::resize_nearest,
        98 => slopes::leaky_relu,
        99 => |call| binary::choice(call, Choice::SquaredDifference),
        100 => moves::mirror_pad,
        101 => unary::abs,
        102 => pieces::split_v,
        103 => index::unique,
        104 => unary::ceil,
        105 => moves::reverse,
        106 => unary::add_n,
        107 => index::gather_nd,
        108 => |call| unary::real(call, f32::cos),
        109 => index::where_true,
        110 => shapes::rank,
        111 => |call| unary::real(call, |x| if x < 0.0 { x.exp_m1() } else { x }),
        112 => index::reverse_sequence,
        113 => segments::matrix_diag,
        114 => convert::quantize,
        115 => segments::matrix_set_diag,
        116 => unary::round,
        120 => |call| segments::suppress(call, false),
        121 => |call| segments::suppress(call, true),
        122 => index::scatter_nd,
        123 => |call| choose::select(call, true),
        125 => segments::segment_sum,
        126 => dense::batch_matmul,
        128 => shapes::cumsum,
        130 => moves::broadcast_to,
        131 => fourier::rfft_2d,
        132 => volume::conv_3d,
        133 => |call| convert::part(call, |_, imaginary| imaginary),
        134 => |call| convert::part(call, |real, _| real),
        135 => |call| convert::part(call, convert::absolute),
        140 => |call| reduce::any(call, true),
        141 => volume::conv_3d_transpose,
        145 => moves::broadcast_args,
        146 => |call| random::distributed(call, Distribution::StandardNormal),
        147 => shapes::bucketize,
        148 => |call| random::distributed(call, Distribution::Uniform),
        149 => random::multinomial,
        150 => gelu::gelu,
        151 => moves::dynamic_update_slice,
        152 => unary::relu_0_to_1,
        153 => |call| segments::unsorted(call, Combine::Product),
        154 => |call| segments::unsorted(call, Combine::Greatest),
        155 => |call| segments::unsorted(call, Combine::Sum),
        156 => |call| binary::choice(call, Choice::Atan2),
        157 => |call| segments::unsorted(call, Combine::Least),
        158 => unary::sign,
        159 => moves::bitcast,
        160 => |call| binary::choice(call, Choice::Xor),
        161 => |call| binary::choice(call, Choice::RightShift),
        163 => |call| combine::elements(call, Combination::Add),
        165 => |call| combine::elements(call, Combination::Multiply),
        166 => |call| combine::elements(call, Combination::Maximum),
        176 => |call| combine::bits(call, BitCombination::And),
        181 => |call| combine::elements(call, Combination::Minimum),
        190 => scatter::scatter,
        195 => windows::stablehlo_pad,
        198 => windows::stablehlo_reduce_window,
        201 => scatter::gather,
        203 => windows::dilate,
        204 => bits::generator,
        205 => windows::reduce_window,
        207 => |call| combine::bits(call, BitCombination::ShiftLeft),
        1024 => custom::transpose_conv_bias,
        1025 => custom::max_pool_with_argmax,
        1026 => custom::max_unpooling,
        1027 => audio::spectrogram,
        1028 => audio::mfcc,
        1029 => fourier::hadamard_rotation,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_table_is_computed_and_no_other() {
        for number in 0..2000 {
            let is_listed = tflite_extension::operation(number).is_some();
            assert_eq!(lowering(number).is_some(), is_listed, "operation {number}");
        }
    }
}
