//! Element by element: arithmetic, comparisons, functions, types.

use nnburst::hal::{Operand, OperandType, OperationType};
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::{bools, plane, plane_and_row};

/// The output of an operation on one input, or on two, with setters in between.
macro_rules! of {
    ($graph:ident, $x:expr => $name:ident $(.$setter:ident($($value:expr)?))*) => {{
        let x = $x;
        vec![$graph.$name(x)$(.$setter($($value)?))*.done()]
    }};
    ($graph:ident, $a:expr, $b:expr => $name:ident) => {{
        let (a, b) = ($a, $b);
        vec![$graph.$name(a, b).done()]
    }};
}

/// The output of an operation on a plane and a row.
macro_rules! of_pair {
    ($graph:ident => $name:ident $(.$setter:ident())?) => {{
        let (a, b) = plane_and_row($graph);
        vec![$graph.$name(a, b)$(.$setter())?.done()]
    }};
}

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::Add => of_pair!(graph => add.relu6()),
        Op::Sub => of_pair!(graph => sub),
        Op::Mul => of_pair!(graph => mul.relu()),
        Op::Div => of_pair!(graph => div.relu1()),
        Op::Maximum => of_pair!(graph => maximum),
        Op::Minimum => of_pair!(graph => minimum),
        Op::Pow => of_pair!(graph => pow),
        Op::Prelu => of_pair!(graph => prelu),
        Op::Equal => of_pair!(graph => equal),
        Op::NotEqual => of_pair!(graph => not_equal),
        Op::Greater => of_pair!(graph => greater),
        Op::GreaterEqual => of_pair!(graph => greater_equal),
        Op::Less => of_pair!(graph => less),
        Op::LessEqual => of_pair!(graph => less_equal),
        Op::LogicalAnd => of!(graph, bools(graph), bools(graph) => logical_and),
        Op::LogicalOr => of!(graph, bools(graph), bools(graph) => logical_or),
        Op::LogicalNot => of!(graph, bools(graph) => logical_not),
        Op::Select => {
            let (condition, a, b) = (bools(graph), plane(graph), plane(graph));
            vec![graph.select(condition, a, b).done()]
        }
        Op::Abs => of!(graph, plane(graph) => abs),
        Op::Exp => of!(graph, plane(graph) => exp),
        Op::Floor => of!(graph, plane(graph) => floor),
        Op::Log => of!(graph, plane(graph) => log),
        Op::Neg => of!(graph, plane(graph) => neg),
        Op::Rsqrt => of!(graph, plane(graph) => rsqrt),
        Op::Sin => of!(graph, plane(graph) => sin),
        Op::Sqrt => of!(graph, plane(graph) => sqrt),
        Op::Relu => of!(graph, plane(graph) => relu),
        Op::Relu1 => of!(graph, plane(graph) => relu1),
        Op::Relu6 => of!(graph, plane(graph) => relu6),
        Op::Elu => of!(graph, plane(graph) => elu.alpha(0.5)),
        Op::HardSwish => of!(graph, plane(graph) => hard_swish),
        Op::Logistic => {
            of!(graph, graph.input(Operand::quant8_signed([2, 3], 0.5, 1)) => logistic)
        }
        Op::Tanh => of!(graph, graph.input(Operand::quant8([2, 3], 0.5, 1)) => tanh),
        Op::Cast => of!(graph, plane(graph) => cast.to(OperandType::TensorInt32)),
        Op::Quantize => {
            let x = plane(graph);
            let unsigned = graph.quantize(x).quantized(0.5, 3).done();
            let signed = OperandType::TensorQuant8AsymmSigned;
            let signed = graph.quantize(x).to(signed).quantized(0.5, 3).done();
            vec![unsigned, signed]
        }
        Op::Dequantize => {
            let x = graph.input(Operand::quant8([2, 3], 0.5, 1));
            let float = graph.dequantize(x).done();
            let half = graph.dequantize(x).to(OperandType::TensorFloat16).done();
            vec![float, half]
        }
        _ => return None,
    };
    Some(outputs)
}
