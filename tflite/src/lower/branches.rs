//! IF and STABLEHLO_CASE, whose graphs become graphs of the model.
//!
//! What branches give may differ in shape, and may have other shapes than the file says, which are
//! those of an example.

use nnburst_hal::{Operand, OperandLifeTime, OperandType, OperationType};

use super::control::GraphCall;
use super::loops::merge;
use super::{Import, Lower, Lowered};
use crate::flatbuffer::Field;
use crate::graph::is_open;
use crate::schema::options::OptionsKind;

impl Lower<'_, '_> {
    /// IF: the condition, both graphs, and what they take.
    pub(super) fn conditional(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(92, "IfOptions");
        const THEN: Field = Field::new(0, "IfOptions.then_subgraph_index");
        const ELSE: Field = Field::new(1, "IfOptions.else_subgraph_index");
        let options = self.options(KIND)?;
        let condition = self.input(0)?;
        self.builder().close(condition);
        let graphs = [options.int(THEN, 0)?, options.int(ELSE, 0)?];
        self.choose_one(condition, graphs)
    }

    /// STABLEHLO_CASE: the graph whose number the index is; the last for what is no graph's number.
    ///
    /// ```text
    ///   IF index == 0 THEN graph 0 ELSE { IF index == 1 THEN graph 1 ELSE { .. graph n } }
    /// ```
    pub(super) fn case(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(23, "StablehloCaseOptions");
        const GRAPHS: Field = Field::new(0, "StablehloCaseOptions.branch_subgraph_indices");
        let graphs = self.op.options_2.of(KIND)?.ints(GRAPHS)?;
        let (&last, first) = graphs.split_last().ok_or("a case without graphs")?;
        // Of one graph alone, whatever the index.
        let first = if first.is_empty() { &graphs[..] } else { first };
        let index = self.input(0)?;
        self.choose(index, first, last)
    }

    /// Adds an IF, and within its second graph one for each further of `first`.
    fn choose(&mut self, index: u32, first: &[i32], last: i32) -> Lowered {
        let graphs: Vec<i32> = first.iter().copied().chain([last]).collect();
        let (mut call, values) = self.graph_call(1, &graphs)?;
        let types = |import: &Import<'_>, operands: &[u32]| -> Vec<Operand> {
            operands.iter().map(|&operand| import.builder.operand(operand).clone()).collect()
        };
        // Graphs beside one that goes on choosing take the index, too.
        let chosen = self.import.builder.operand(index).clone();
        let given = types(self.import, &values);
        let mut branches = self.branches(&graphs, &mut call, Some(&chosen))?;
        let mut outputs = Vec::new();
        for result in 0..self.op.outputs.len() {
            outputs.push(self.own_output(result, false)?);
        }
        self.open_where_branches_differ(&branches, &outputs);
        outputs.extend(self.next_variables(&call));
        let results = types(self.import, &outputs);
        let mut rest = branches.pop().ok_or("a case without graphs")?;
        for (at, branch) in branches.into_iter().enumerate().rev() {
            let inner = at > 0;
            let takes_index = at + 2 < graphs.len();
            let (index, values, outputs) = if inner {
                self.builder().enter();
                let builder = self.builder();
                let mut input = |operand: &Operand| {
                    builder.add(operand.clone().with_lifetime(OperandLifeTime::SubgraphInput))
                };
                let index = input(&chosen);
                let values: Vec<u32> = given.iter().map(&mut input).collect();
                let output = |operand: &Operand| {
                    operand.clone().with_lifetime(OperandLifeTime::SubgraphOutput)
                };
                let outputs = results.iter().map(|operand| builder.add(output(operand)));
                (index, values, outputs.collect::<Vec<_>>())
            } else {
                (index, values.clone(), outputs.clone())
            };
            let number = i32::try_from(at).unwrap_or(i32::MAX);
            let number = self.builder().ints(&[number]);
            let condition = self.builder().temporary(OperandType::TensorBool8, vec![1]);
            self.emit(OperationType::Equal, &[index, number], &[condition]);
            let mut inputs = vec![condition, self.refer_to(branch), self.refer_to(rest)];
            inputs.extend(takes_index.then_some(index));
            inputs.extend(&values);
            self.emit(OperationType::If, &inputs, &outputs);
            if inner {
                let builder = self.builder();
                builder.graph.input_indexes = std::iter::once(index).chain(values).collect();
                builder.graph.output_indexes = outputs;
                rest = builder.leave(true);
            }
        }
        Ok(())
    }

    /// Adds an IF: the condition, both graphs, the operator's other inputs, and last the variables
    /// with a name that the graphs use, which come back behind the results.
    fn choose_one(&mut self, condition: u32, graphs: [i32; 2]) -> Lowered {
        let (mut call, values) = self.graph_call(1, &graphs)?;
        let branches = self.branches(&graphs, &mut call, None)?;
        let mut inputs = vec![condition];
        for &branch in &branches {
            inputs.push(self.refer_to(branch));
        }
        inputs.extend(values);
        let mut outputs = Vec::new();
        for result in 0..self.op.outputs.len() {
            outputs.push(self.own_output(result, false)?);
        }
        self.open_where_branches_differ(&branches, &outputs);
        outputs.extend(self.next_variables(&call));
        self.emit(OperationType::If, &inputs, &outputs);
        Ok(())
    }

    /// What becomes of each graph. All but the last two take the index that chooses, too, if there
    /// is one.
    fn branches(
        &mut self,
        graphs: &[i32],
        call: &mut GraphCall,
        chosen: Option<&Operand>,
    ) -> Lowered<Vec<u32>> {
        let lower = |lower: &mut Self, call: &mut GraphCall| -> Lowered<Vec<u32>> {
            let mut branches = Vec::new();
            for (at, &graph) in graphs.iter().enumerate() {
                call.unused = chosen.filter(|_| at + 2 < graphs.len()).cloned();
                branches.push(lower.referenced(graph, call, false)?);
            }
            Ok(branches)
        };
        let keeps = graphs.iter().all(|&graph| self.keeps_shapes(graph, call, false));
        self.open_first(
            call,
            |this, call| {
                let branches = lower(this, call)?;
                let is_known = branches.iter().all(|&branch| {
                    let mut shapes = this.results_of(branch);
                    shapes.all(|shape| !is_open(shape))
                });
                Ok((branches, is_known || !keeps))
            },
            lower,
        )
    }

    /// Results have the shape of whichever branch is taken: what differs between them is open.
    fn open_where_branches_differ(&mut self, graphs: &[u32], outputs: &[u32]) {
        for (at, &output) in outputs.iter().enumerate() {
            let shapes = graphs.iter().filter_map(|&graph| self.results_of(graph).nth(at));
            let merged = shapes.map(<[u32]>::to_vec).reduce(|a, b| merge(&a, &b));
            if let Some(merged) = merged {
                self.builder().operand_mut(output).dimensions = merged;
            }
        }
    }
}
