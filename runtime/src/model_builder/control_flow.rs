//! IF and WHILE, and the graphs that they refer to.

use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType, OperationType, Subgraph};

use super::{ModelBuilder, OperandId};

/// A graph of the model that is a branch, a condition or a loop's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphRef {
    model: u32,
    /// Position in `Model::referenced`.
    at: u32,
}

impl ModelBuilder {
    /// A graph of its own, for [`ModelBuilder::if_else`] and [`ModelBuilder::while_loop`]: `build`
    /// gets this builder with an empty graph and says its inputs, operations and outputs. It can't
    /// read operands of other graphs, constants included: what it needs comes in by its inputs or
    /// is made in it.
    ///
    /// ```
    /// use nnburst::{ModelBuilder, hal::Operand};
    ///
    /// let mut graph = ModelBuilder::new();
    /// let negative = graph.input(Operand::bool8([1]));
    /// let x = graph.input(Operand::float32([4]));
    /// let then = graph.subgraph(|graph| {
    ///     let x = graph.input(Operand::float32([4]));
    ///     let y = graph.neg(x).done();
    ///     graph.output(y);
    /// });
    /// let otherwise = graph.subgraph(|graph| {
    ///     let x = graph.input(Operand::float32([4]));
    ///     let y = graph.relu(x).done();
    ///     graph.output(y);
    /// });
    /// for y in graph.if_else(negative, then, otherwise, &[x]) {
    ///     graph.output(y);
    /// }
    /// graph.build()?;
    /// # Ok::<(), nnburst::RuntimeError>(())
    /// ```
    pub fn subgraph(&mut self, build: impl FnOnce(&mut Self)) -> GraphRef {
        let at = u32::try_from(self.model.referenced.len()).unwrap_or(u32::MAX);
        self.model.referenced.push(Subgraph::default());
        let outer = std::mem::replace(&mut self.graph, at.saturating_add(1));
        build(self);
        self.graph = outer;
        GraphRef { model: self.number, at }
    }

    /// IF: one of two graphs, which take the same inputs and give the same outputs, by a BOOL8 of
    /// one element.
    pub fn if_else(
        &mut self,
        condition: OperandId,
        then: GraphRef,
        otherwise: GraphRef,
        inputs: &[OperandId],
    ) -> Vec<OperandId> {
        let (then_at, else_at) = (self.refer(then), self.refer(otherwise));
        let arguments: Vec<_> =
            [condition, then_at, else_at].into_iter().chain(inputs.iter().copied()).collect();
        let mut outputs = self.outputs_of(then);
        // Extents that differ between the branches are known when one has run.
        for (output, other) in std::iter::zip(&mut outputs, self.outputs_of(otherwise)) {
            forget_differences(output, &other);
        }
        self.operation_with_outputs(OperationType::If, &arguments, outputs)
    }

    /// WHILE: a body that runs as long as a condition holds. Both take the values of the loop; the
    /// body gives the first of them anew, which are the outputs when it is over, the others stay.
    /// The condition gives a BOOL8 of one element.
    ///
    /// ```
    /// use nnburst::{ModelBuilder, hal::Operand};
    ///
    /// let mut graph = ModelBuilder::new();
    /// let start = graph.input(Operand::float32([1]));
    /// let below_ten = graph.subgraph(|graph| {
    ///     let x = graph.input(Operand::float32([1]));
    ///     let ten = graph.constant_of(Operand::float32([1]), &[10.0f32]);
    ///     let less = graph.less(x, ten).done();
    ///     graph.output(less);
    /// });
    /// let double = graph.subgraph(|graph| {
    ///     let x = graph.input(Operand::float32([1]));
    ///     let twice = graph.add(x, x).done();
    ///     graph.output(twice);
    /// });
    /// for end in graph.while_loop(below_ten, double, &[start]) {
    ///     graph.output(end);
    /// }
    /// graph.build()?;
    /// # Ok::<(), nnburst::RuntimeError>(())
    /// ```
    pub fn while_loop(
        &mut self,
        condition: GraphRef,
        body: GraphRef,
        values: &[OperandId],
    ) -> Vec<OperandId> {
        let (condition, body_at) = (self.refer(condition), self.refer(body));
        let arguments: Vec<_> =
            [condition, body_at].into_iter().chain(values.iter().copied()).collect();
        let outputs = self.outputs_of(body);
        self.operation_with_outputs(OperationType::While, &arguments, outputs)
    }

    /// The operand that refers to a graph.
    fn refer(&mut self, graph: GraphRef) -> OperandId {
        if graph.model != self.number {
            self.breaks(format!("graph {} is of another model", graph.at.saturating_add(1)));
        }
        let mut operand = Operand::scalar(OperandType::Subgraph);
        operand.location = DataLocation { offset: graph.at, ..DataLocation::default() };
        self.push(operand.with_lifetime(OperandLifeTime::Subgraph))
    }

    /// Returns the outputs of a graph, as operands of another.
    fn outputs_of(&self, graph: GraphRef) -> Vec<Operand> {
        let Some(graph) = self.model.referenced.get(graph.at as usize) else { return Vec::new() };
        let outputs = graph.output_indexes.iter();
        let operands = outputs.filter_map(|&at| graph.operands.get(at as usize));
        operands.map(|operand| Operand { number_of_consumers: 0, ..operand.clone() }).collect()
    }
}

/// Keeps of a shape what another one says as well.
fn forget_differences(operand: &mut Operand, other: &Operand) {
    if operand.dimensions.len() != other.dimensions.len() {
        operand.dimensions.clear();
    }
    for (extent, &other) in std::iter::zip(&mut operand.dimensions, &other.dimensions) {
        if *extent != other {
            *extent = 0;
        }
    }
}
