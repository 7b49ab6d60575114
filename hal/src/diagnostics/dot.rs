//! A model as a picture: Graphviz text.

use std::fmt::{self, Write};

use super::vlog::{VlogTag, vlog_is_on};
use crate::types::{Model, Operand, OperandLifeTime, OperandType};

/// The model's main graph as Graphviz text, under a name that goes into the first line.
///
/// Operations are boxes `n<index>`, operands ellipses `d<index>` with type, shape and, of constants
/// and what is left out, the lifetime; scalar constants show their value. Inputs and outputs of the
/// model are white on black. Edges are numbered where there are several. Referenced graphs are
/// counted in a comment.
///
/// ```
/// use nnburst_hal::{Model, dot};
///
/// assert!(dot(&Model::default(), "empty").starts_with("// empty\ndigraph {\n"));
/// ```
pub fn dot(model: &Model, name: &str) -> String {
    let mut text = String::new();
    // Writing to a string doesn't fail.
    let _ = write_dot(model, name, &mut text);
    text
}

/// Logs the lines of [`dot`] under the tag `compilation`, an event each; nothing where the tag is
/// off or nobody listens.
pub fn log_dot(model: &Model, name: &str) {
    const TARGET: &str = VlogTag::Compilation.target();
    if vlog_is_on(VlogTag::Compilation) && tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
    {
        for line in dot(model, name).lines() {
            tracing::debug!(target: TARGET, "{line}");
        }
    }
}

fn write_dot(model: &Model, name: &str, out: &mut String) -> fmt::Result {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "// {name}\ndigraph {{")?;
    if !model.referenced.is_empty() {
        writeln!(out, "    // {} referenced graphs are not drawn", model.referenced.len())?;
    }
    let main = &model.main;
    for (index, operand) in main.operands.iter().enumerate() {
        write_operand(model, index, operand, out)?;
    }
    for (index, operation) in main.operations.iter().enumerate() {
        writeln!(out, "    n{index} [shape=box label=\"{index}: {}\"]", operation.kind)?;
        let (inputs, outputs) = (&operation.inputs, &operation.outputs);
        for (position, input) in inputs.iter().enumerate() {
            writeln!(out, "    d{input} -> n{index}{}", EdgeLabel(position, inputs.len()))?;
        }
        for (position, output) in outputs.iter().enumerate() {
            writeln!(out, "    n{index} -> d{output}{}", EdgeLabel(position, outputs.len()))?;
        }
    }
    writeln!(out, "}}")
}

fn write_operand(model: &Model, index: usize, operand: &Operand, out: &mut String) -> fmt::Result {
    write!(out, "    d{index} [shape=ellipse")?;
    if matches!(operand.lifetime, OperandLifeTime::SubgraphInput | OperandLifeTime::SubgraphOutput)
    {
        write!(out, " style=filled fillcolor=black fontcolor=white")?;
    }
    write!(out, " label=\"{index}: {}", short_type(operand.kind))?;
    if !operand.dimensions.is_empty() {
        write!(out, "{:?}", operand.dimensions)?;
    }
    match operand.lifetime {
        OperandLifeTime::ConstantCopy => write!(out, " COPY")?,
        OperandLifeTime::ConstantReference => write!(out, " REF")?,
        OperandLifeTime::NoValue => write!(out, " NO")?,
        OperandLifeTime::Subgraph => write!(out, " GRAPH {}", operand.location.offset)?,
        _ => {}
    }
    if let Some(bytes) = scalar_bytes(model, operand) {
        match operand.kind {
            OperandType::Float32 => write!(out, " = {}", f32::from_le_bytes(bytes))?,
            OperandType::Int32 => write!(out, " = {}", i32::from_le_bytes(bytes))?,
            OperandType::Uint32 => write!(out, " = {}", u32::from_le_bytes(bytes))?,
            _ => {}
        }
    }
    writeln!(out, "\"]")
}

/// The bytes of a constant of four bytes, wherever they are.
fn scalar_bytes(model: &Model, operand: &Operand) -> Option<[u8; 4]> {
    if !matches!(operand.kind, OperandType::Float32 | OperandType::Int32 | OperandType::Uint32)
        || operand.location.length != 4
    {
        return None;
    }
    match operand.lifetime {
        OperandLifeTime::ConstantCopy => {
            let start = usize::try_from(operand.location.offset).ok()?;
            model.operand_values.get(start..start.checked_add(4)?)?.try_into().ok()
        }
        OperandLifeTime::ConstantReference => {
            let pool = usize::try_from(operand.location.pool_index).ok()?;
            let mut bytes = [0; 4];
            let memory = model.pools.get(pool)?;
            memory.read_at(u64::from(operand.location.offset), &mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}

/// Short names for the types that most models are made of.
fn short_type(kind: OperandType) -> String {
    let short = match kind {
        OperandType::Float32 => "F32",
        OperandType::Int32 => "I32",
        OperandType::Uint32 => "U32",
        OperandType::Float16 => "F16",
        OperandType::TensorFloat32 => "TF32",
        OperandType::TensorFloat16 => "TF16",
        OperandType::TensorInt32 => "TI32",
        OperandType::TensorBool8 => "TB8",
        OperandType::TensorQuant8Asymm => "TQ8A",
        OperandType::TensorQuant8AsymmSigned => "TQ8AS",
        OperandType::TensorQuant8Symm => "TQ8S",
        OperandType::TensorQuant8SymmPerChannel => "TQ8SPC",
        OperandType::TensorQuant16Asymm => "TQ16A",
        OperandType::TensorQuant16Symm => "TQ16S",
        OperandType::TensorOemByte => "TOEMB",
        other => return other.to_string(),
    };
    short.to_owned()
}

/// The position of an edge among several; nothing for one alone.
struct EdgeLabel(usize, usize);

impl fmt::Display for EdgeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 > 1 { write!(f, " [label={}]", self.0) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DataLocation, Operation, OperationType, Subgraph};

    #[test]
    fn a_small_model_looks_like_this() {
        use OperandLifeTime as L;
        let tensor = |lifetime| {
            Operand::tensor(OperandType::TensorFloat32, vec![1, 2]).with_lifetime(lifetime)
        };
        let mut activation = Operand::scalar(OperandType::Int32).with_lifetime(L::ConstantCopy);
        activation.location = DataLocation { pool_index: 0, offset: 0, length: 4 };
        let model = Model {
            main: Subgraph {
                operands: vec![
                    tensor(L::SubgraphInput),
                    activation,
                    tensor(L::TemporaryVariable),
                    tensor(L::SubgraphOutput),
                ],
                operations: vec![
                    Operation { kind: OperationType::Add, inputs: vec![0, 0, 1], outputs: vec![2] },
                    Operation { kind: OperationType::Floor, inputs: vec![2], outputs: vec![3] },
                ],
                input_indexes: vec![0],
                output_indexes: vec![3],
            },
            referenced: vec![Subgraph::default()],
            operand_values: 3i32.to_le_bytes().to_vec(),
            ..Model::default()
        };
        let expected = r#"// two lines
digraph {
    // 1 referenced graphs are not drawn
    d0 [shape=ellipse style=filled fillcolor=black fontcolor=white label="0: TF32[1, 2]"]
    d1 [shape=ellipse label="1: I32 COPY = 3"]
    d2 [shape=ellipse label="2: TF32[1, 2]"]
    d3 [shape=ellipse style=filled fillcolor=black fontcolor=white label="3: TF32[1, 2]"]
    n0 [shape=box label="0: ADD"]
    d0 -> n0 [label=0]
    d0 -> n0 [label=1]
    d1 -> n0 [label=2]
    n0 -> d2
    n1 [shape=box label="1: FLOOR"]
    d2 -> n1
    n1 -> d3
}
"#;
        assert_eq!(dot(&model, "two\nlines"), expected);
    }

    #[test]
    fn nothing_in_a_broken_model_breaks_the_picture() {
        let mut constant =
            Operand::scalar(OperandType::Float32).with_lifetime(OperandLifeTime::ConstantCopy);
        constant.location = DataLocation { pool_index: 9, offset: u32::MAX, length: 4 };
        let mut referring = constant.clone();
        referring.lifetime = OperandLifeTime::ConstantReference;
        let mut model = Model::default();
        model.main.operands = vec![constant, referring];
        assert!(dot(&model, "").contains("d1"));
    }
}
