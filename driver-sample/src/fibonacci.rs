//! The vendor extension `com.example.fibonacci`, in the shape of the driver guide's example: a
//! scalar type, a tensor type with parameters of its own, and one operation.
//!
//! | number | type                           | description |
//! |--------|--------------------------------|---|
//! | 0      | `EXAMPLE_INT64`                | scalar of 64 bits |
//! | 1      | `EXAMPLE_TENSOR_QUANT64_ASYMM` | 64-bit, asymmetric; [`QuantParams`] |
//!
//! Operation 0, `EXAMPLE_FIBONACCI`: input `n`, an `EXAMPLE_INT64` or a TENSOR_FLOAT32 of one
//! element; output the first `n` Fibonacci numbers, a tensor of `[n]` in TENSOR_FLOAT32 or
//! `EXAMPLE_TENSOR_QUANT64_ASYMM`.

use nnburst_executor::{ExtensionExecutor, Isa, Label, Lowered, OpBuilder, OpError, Shape, Words};
use nnburst_hal::{
    Extension, ExtensionOperandType, ExtraParams, Model, OperandType, Operation, OperationType,
    Subgraph,
};

/// The extension's name.
pub const FIBONACCI_EXTENSION: &str = "com.example.fibonacci";

/// Its only operation.
const FIBONACCI: u16 = 0;

const INT64: u16 = 0;
const TENSOR_QUANT64_ASYMM: u16 = 1;

const TYPES: [ExtensionOperandType; 2] = [
    ExtensionOperandType { number: INT64, is_tensor: false, byte_size: 8 },
    ExtensionOperandType { number: TENSOR_QUANT64_ASYMM, is_tensor: true, byte_size: 8 },
];

pub(crate) fn extension() -> Extension {
    Extension { name: FIBONACCI_EXTENSION.to_owned(), operand_types: TYPES.to_vec() }
}

/// Returns whether this is the extension's operation, with types that it takes: of this extension
/// too, whatever prefixes stand for it, for the numbers of other extensions' types mean something
/// else.
pub(crate) fn takes(operation: &Operation, graph: &Subgraph, model: &Model) -> bool {
    let OperationType::Extension(code) = operation.kind else { return false };
    let operand = |operands: &[u32]| match operands {
        &[one] => graph.operands.get(usize::try_from(one).ok()?),
        _ => None,
    };
    let (Some(input), Some(output)) = (operand(&operation.inputs), operand(&operation.outputs))
    else {
        return false;
    };
    let is_own = |kind: OperandType| match kind {
        OperandType::Extension(code) => is_ours(code.prefix, model),
        _ => true,
    };
    is_ours(code.prefix, model)
        && code.number == FIBONACCI
        && is_own(input.kind)
        && is_own(output.kind)
        && (is_float(input.kind) || number(input.kind) == Some(INT64))
        && (is_float(output.kind) || quant_params(output.kind, &output.extra_params).is_some())
}

/// Returns whether a prefix stands for this extension in a model.
fn is_ours(prefix: u16, model: &Model) -> bool {
    let mut named = model.extension_name_to_prefix.iter().filter(|entry| entry.prefix == prefix);
    named.next().is_some_and(|entry| entry.name == FIBONACCI_EXTENSION) && named.next().is_none()
}

fn is_float(kind: OperandType) -> bool {
    kind == OperandType::TensorFloat32
}

/// The number of an extension's type: of this one, as [`takes`] has found.
fn number(kind: OperandType) -> Option<u16> {
    match kind {
        OperandType::Extension(code) => Some(code.number),
        _ => None,
    }
}

/// The parameters that `EXAMPLE_TENSOR_QUANT64_ASYMM` adds: 16 bytes, an f64 and an i64,
/// little-endian.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QuantParams {
    scale: f64,
    zero_point: i64,
}

fn quant_params(kind: OperandType, params: &ExtraParams) -> Option<QuantParams> {
    let ExtraParams::Extension(bytes) = params else { return None };
    let ([scale, zero_point], []) = bytes.as_chunks::<8>() else { return None };
    let params = QuantParams {
        scale: f64::from_le_bytes(*scale),
        zero_point: i64::from_le_bytes(*zero_point),
    };
    let usable = number(kind) == Some(TENSOR_QUANT64_ASYMM) && params.scale > 0.0;
    usable.then_some(params)
}

/// Executes the extension's operation.
#[derive(Debug)]
pub(crate) struct Fibonacci;

impl ExtensionExecutor for Fibonacci {
    fn operand_types(&self) -> &[ExtensionOperandType] {
        &TYPES
    }

    fn lower(&self, operation: u16, op: &mut OpBuilder<'_>) -> Lowered {
        if operation != FIBONACCI || op.input_count() != 1 || op.output_count() != 1 {
            let what = format!("operation {operation} with {} inputs", op.input_count());
            return Err(OpError::rule(what).into());
        }
        let count = count(op)?;
        let output = op.output(0)?.kind;
        let params = quant_params(output, op.output_params(0)?);
        op.set_output(0, Shape::new([count])?)?;
        let label = Label {
            kernel: "fibonacci",
            form: Isa::Scalar,
            shape: Words::new(move |f| write!(f, "[{count}]")),
            operations: u64::try_from(count).unwrap_or(u64::MAX),
        };
        match params {
            Some(params) => op.emit(label, move |io| {
                let stored = |value: f64| {
                    // Saturates where the number is beyond what 64 bits stand for.
                    #[expect(clippy::cast_possible_truncation, reason = "saturating is meant")]
                    let steps = (value / params.scale).round() as i64;
                    steps.saturating_add(params.zero_point)
                };
                io.output::<i64>(0).fill(numbers().map(stored));
                Ok(())
            }),
            None if is_float(output) => op.emit(label, |io| {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rounded to what is asked for"
                )]
                io.output::<f32>(0).fill(numbers().map(|value| value as f32));
                Ok(())
            }),
            None => return Err(OpError::output(0, format!("{output} is not computed")).into()),
        }
        Ok(())
    }
}

/// Returns the number of elements that are wanted: at least one.
fn count(op: &OpBuilder<'_>) -> Lowered<usize> {
    let kind = op.input_kind(0)?;
    let wanted = if is_float(kind) {
        let value = op.value(0)?.typed::<f32>().first().copied().unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
        let wanted = value as i64;
        wanted
    } else if number(kind) == Some(INT64) {
        op.value(0)?.typed::<i64>().first().copied().unwrap_or(0)
    } else {
        return Err(OpError::input(0, format!("{kind} is no count")).into());
    };
    usize::try_from(wanted)
        .ok()
        .filter(|&count| count > 0)
        .ok_or_else(|| OpError::input(0, format!("{wanted} numbers are wanted")).into())
}

/// 1, 1, 2, 3, 5 ...: exact up to the 78th, and infinity in the end.
fn numbers() -> impl Iterator<Item = f64> {
    let next = |&(this, next): &(f64, f64)| Some((next, this + next));
    std::iter::successors(Some((1.0, 1.0)), next).map(|(this, _)| this)
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{ExtensionCode, ExtensionNameAndPrefix, Operand, OperandLifeTime};

    use super::*;

    fn model(operation: u16, [input, output]: [u16; 2], names: &[(&str, u16)]) -> Model {
        let code = |prefix, number| ExtensionCode { prefix, number };
        let kind = |prefix, number| OperandType::Extension(code(prefix, number));
        let params = [1.0f64.to_le_bytes(), 0i64.to_le_bytes()].concat();
        let operands = vec![
            Operand {
                number_of_consumers: 1,
                ..Operand::scalar(kind(input, INT64)).with_lifetime(OperandLifeTime::SubgraphInput)
            },
            Operand {
                extra_params: ExtraParams::Extension(params),
                ..Operand::tensor(kind(output, TENSOR_QUANT64_ASYMM), vec![0])
                    .with_lifetime(OperandLifeTime::SubgraphOutput)
            },
        ];
        let kind = OperationType::Extension(code(operation, FIBONACCI));
        let operations = vec![Operation { kind, inputs: vec![0], outputs: vec![1] }];
        let main =
            Subgraph { operands, operations, input_indexes: vec![0], output_indexes: vec![1] };
        let entry = |&(name, prefix): &(&str, u16)| ExtensionNameAndPrefix {
            name: name.to_owned(),
            prefix,
        };
        let extension_name_to_prefix = names.iter().map(entry).collect();
        Model { main, extension_name_to_prefix, ..Model::default() }
    }

    #[test]
    fn only_types_of_this_extension_are_taken() {
        let names = &[(FIBONACCI_EXTENSION, 3), ("com.example.other", 4)][..];
        for (what, operation, types, names, taken) in [
            ("all of it", 3, [3, 3], names, true),
            ("an input of another", 3, [4, 3], names, false),
            ("an output of another", 3, [3, 4], names, false),
            ("types of nobody", 3, [5, 5], names, false),
            ("an operation of another", 4, [3, 3], names, false),
            ("an operation of nobody", 5, [3, 3], names, false),
            ("two names for a prefix", 3, [3, 3], &[names[0], ("com.example.other", 3)], false),
        ] {
            let model = model(operation, types, names);
            assert_eq!(takes(&model.main.operations[0], &model.main, &model), taken, "{what}");
        }
    }
}
