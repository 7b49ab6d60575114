//! Random models that fail, made small.

use nnburst_hal::{Operand, OperandLifeTime, Operation, Subgraph};

use super::RandomModel;

/// The smallest part of a model that fails still: the first operation that does with all that leads
/// to it, then as few of those as do. What they would have computed becomes an input, with the
/// value that `evaluate` finds: the bytes of each output of a model, by kernels that are trusted.
pub fn shrink(
    random: &RandomModel,
    fails: impl Fn(&RandomModel) -> bool,
    evaluate: impl Fn(&RandomModel) -> Option<Vec<Vec<u8>>>,
) -> RandomModel {
    let graph = &random.model.main;
    let prefixes = graph.operations.iter().map(|last| part(random, &last.outputs, &[]));
    let Some(mut smallest) = prefixes.into_iter().find(&fails) else { return random.clone() };
    loop {
        let smaller = without_one(&smallest, &evaluate).find(&fails);
        let Some(smaller) = smaller else { return smallest };
        smallest = smaller;
    }
}

/// The model with an operation's results as inputs, for each operation but the last.
fn without_one(
    random: &RandomModel,
    evaluate: &impl Fn(&RandomModel) -> Option<Vec<Vec<u8>>>,
) -> impl Iterator<Item = RandomModel> {
    let operations = &random.model.main.operations;
    let but_last = operations.len().saturating_sub(1);
    operations.iter().take(but_last).rev().filter_map(move |operation| {
        let values = evaluate(&part(random, &operation.outputs, &[]))?;
        let given: Vec<_> = operation.outputs.iter().copied().zip(values).collect();
        Some(part(random, &random.model.main.output_indexes, &given))
    })
}

/// What of a model leads to `outputs`, where the operands `given` are inputs with these bytes.
fn part(random: &RandomModel, outputs: &[u32], given: &[(u32, Vec<u8>)]) -> RandomModel {
    let graph = &random.model.main;
    let mut needed = outputs.to_vec();
    let mut kept: Vec<&Operation> = Vec::new();
    for operation in graph.operations.iter().rev() {
        let makes = |index: &u32| {
            needed.contains(index) && given.iter().all(|(operand, _)| operand != index)
        };
        if operation.outputs.iter().any(makes) {
            needed.extend(&operation.inputs);
            needed.extend(&operation.outputs);
            kept.push(operation);
        }
    }
    kept.reverse();
    let mut renumbered = Renumbered { from: graph, indexes: Vec::new(), part: Subgraph::default() };
    let mut inputs = Vec::new();
    let own = graph.input_indexes.iter().zip(&random.inputs).map(|(&index, bytes)| (index, bytes));
    for (index, bytes) in own.chain(given.iter().map(|(index, bytes)| (*index, bytes))) {
        if kept.iter().any(|operation| operation.inputs.contains(&index)) {
            let input = renumbered.index(index);
            renumbered.become_argument(input, OperandLifeTime::SubgraphInput);
            renumbered.part.input_indexes.push(input);
            inputs.push(bytes.clone());
        }
    }
    for operation in kept {
        let inputs = operation.inputs.iter().map(|&index| renumbered.index(index)).collect();
        let outputs = operation.outputs.iter().map(|&index| renumbered.index(index)).collect();
        renumbered.part.operations.push(Operation { kind: operation.kind, inputs, outputs });
    }
    // Also what nobody reads any more: a temporary without a reader is no valid one.
    let made = renumbered.part.operations.iter().flat_map(|operation| operation.outputs.clone());
    for output in made.collect::<Vec<_>>() {
        let mut read = renumbered.part.operations.iter();
        let is_asked = outputs.iter().any(|&index| renumbered.index_of(index) == Some(output));
        if is_asked || !read.any(|operation| operation.inputs.contains(&output)) {
            renumbered.become_argument(output, OperandLifeTime::SubgraphOutput);
            renumbered.part.output_indexes.push(output);
        }
    }
    let mut model = random.model.clone();
    model.main = renumbered.finish();
    RandomModel { model, inputs }
}

/// A part of a graph, its operands counted anew.
struct Renumbered<'g> {
    from: &'g Subgraph,
    /// The operands' places in the whole graph.
    indexes: Vec<u32>,
    part: Subgraph,
}

impl Renumbered<'_> {
    fn index_of(&self, whole: u32) -> Option<u32> {
        let at = self.indexes.iter().position(|&index| index == whole)?;
        u32::try_from(at).ok()
    }

    /// The place of an operand in the part, where it is put if it isn't there.
    fn index(&mut self, whole: u32) -> u32 {
        if let Some(found) = self.index_of(whole) {
            return found;
        }
        let operand = self.from.operands.get(whole as usize);
        let mut operand = operand.cloned().unwrap_or_else(|| {
            Operand::tensor(nnburst_hal::OperandType::TensorFloat32, Vec::new())
        });
        if operand.lifetime == OperandLifeTime::SubgraphOutput {
            operand.lifetime = OperandLifeTime::TemporaryVariable;
        }
        self.indexes.push(whole);
        self.part.operands.push(operand);
        u32::try_from(self.indexes.len() - 1).unwrap_or(u32::MAX)
    }

    fn become_argument(&mut self, index: u32, lifetime: OperandLifeTime) {
        if let Some(operand) = self.part.operands.get_mut(index as usize) {
            operand.lifetime = lifetime;
        }
    }

    fn finish(mut self) -> Subgraph {
        for (at, operand) in self.part.operands.iter_mut().enumerate() {
            let reads = self.part.operations.iter().flat_map(|operation| &operation.inputs);
            let count = reads.filter(|&&index| index as usize == at).count();
            operand.number_of_consumers = u32::try_from(count).unwrap_or(u32::MAX);
        }
        self.part
    }
}
