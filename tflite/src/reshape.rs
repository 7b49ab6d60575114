//! Shapes of the file that do not hold: those of inputs that were given others, of what operators
//! make of them, and of what branches and loops are given.
//!
//! What is forgotten here is worked out again, operator by operator, by `lower::infer`.

use crate::error::ImportError;
use crate::flatbuffer::Budget;
use crate::schema::{Builtin, File, Graph, Tensor};

/// Gives tensors of the file's entry other shapes. Where that changes any, the file's shapes of
/// what operators compute hold no more, nor do those of graphs that operators refer to. With
/// `infer` they hold no more in any case.
pub(crate) fn reshape(file: &mut File<'_>, shapes: &[(usize, Vec<u32>)], infer: bool) {
    let mut graphs = std::mem::take(&mut file.graphs);
    let mut is_changed = infer;
    for (tensor, shape) in shapes {
        let tensor = &mut graphs[file.entry].tensors[*tensor];
        is_changed |= tensor.shape != *shape;
        tensor.give_shape(shape);
    }
    if is_changed {
        for (number, graph) in graphs.iter_mut().enumerate() {
            match number == file.entry {
                true => forget_computed(file, graph),
                false => forget_all(file, graph),
            }
        }
    }
    file.graphs = graphs;
}

/// Adds copies of the graphs other than the entry, without the shapes that follow from what they
/// are given.
///
/// # Errors
/// The copies are too large for a file of this size.
pub(crate) fn open_graphs(file: &mut File<'_>, budget: &Budget) -> Result<(), ImportError> {
    if file.graphs.len() == 1 {
        return Ok(());
    }
    let bytes = file.graphs.iter().map(bytes_of).fold(0, usize::saturating_add);
    if !budget.take(bytes) {
        let what = "its graphs have too many tensors for a file of this size";
        return Err(ImportError::Interface(what.to_owned()));
    }
    let mut opened = file.graphs.clone();
    let others = opened.iter_mut().enumerate().filter(|(number, _)| *number != file.entry);
    others.for_each(|(_, graph)| forget_all(file, graph));
    file.opened = opened;
    Ok(())
}

/// The memory that a copy of a graph takes, more or less.
fn bytes_of(graph: &Graph<'_>) -> usize {
    let tensor = |tensor: &Tensor| {
        let lists = tensor.shape.len() + tensor.signature.len() + tensor.quantization.scales.len();
        size_of::<Tensor>() + tensor.name.len() + 8 * lists
    };
    let operator = 256 * graph.operators.len();
    graph.tensors.iter().map(tensor).fold(operator, usize::saturating_add)
}

/// Forgets the shapes of a graph that an operator refers to.
fn forget_all(file: &File<'_>, graph: &mut Graph<'_>) {
    // Files whose tensors never say that they have a rank leave nothing open: an empty shape is
    // that of a scalar.
    if !graph.tensors.iter().any(|tensor| tensor.has_rank) {
        graph.tensors.iter_mut().for_each(|tensor| tensor.has_rank = true);
    }
    for &input in &graph.inputs.clone() {
        forget(&mut graph.tensors[input]);
    }
    forget_computed(file, graph);
}

/// Forgets the shapes of what operators compute, except for shapes themselves, whose number of
/// elements is a rank.
fn forget_computed(file: &File<'_>, graph: &mut Graph<'_>) {
    // At first all constants. Those without elements have no data in the file.
    let mut of_shapes: Vec<bool> = graph.tensors.iter().map(|it| !it.is_variable).collect();
    graph.inputs.iter().for_each(|&input| of_shapes[input] = false);
    for operator in &graph.operators {
        let mut inputs = operator.inputs.iter().copied().flatten();
        let is_shape = match file.codes[operator.code].builtin {
            Builtin::Shape | Builtin::Rank => true,
            Builtin::Range | Builtin::Where | Builtin::Unique => false,
            _ => inputs.all(|input| of_shapes[input]),
        };
        for &output in &operator.outputs {
            of_shapes[output] = is_shape;
            if !is_shape {
                forget(&mut graph.tensors[output]);
            }
        }
    }
}

/// Forgets the file's shape of a tensor; scalars stay scalars, and shapes that were given hold.
fn forget(tensor: &mut Tensor) {
    let is_scalar = tensor.shape.is_empty() && tensor.has_rank;
    if !is_scalar && !tensor.is_shape_given {
        tensor.forget_shape();
    }
}
