//! WHILE, whose variables may change their shapes from one iteration to the next.
//!
//! Of such variables the file has the shapes of an example. Here a variable begins with the shape
//! of its first value; where the body gives another one, what differs is open, and both graphs are
//! lowered again, until what goes in has the shapes of what comes out.
//!
//! ```text
//!   [1, 0] ─body─► [1, 1]: [1, ?] ─body─► [1, ?]
//! ```

use nnburst_hal::OperationType;

use super::control::GraphCall;
use super::{Lower, Lowered};
use crate::flatbuffer::Field;
use crate::graph::is_open;
use crate::schema::options::OptionsKind;

impl Lower<'_, '_> {
    /// WHILE: both graphs and the loop's variables.
    pub(super) fn repeated(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(93, "WhileOptions");
        const CONDITION: Field = Field::new(0, "WhileOptions.cond_subgraph_index");
        const BODY: Field = Field::new(1, "WhileOptions.body_subgraph_index");
        let options = self.options(KIND)?;
        self.repeat([options.int(CONDITION, 0)?, options.int(BODY, 0)?])
    }

    /// A loop of a condition and a body, which are graphs of the file.
    fn repeat(&mut self, graphs: [i32; 2]) -> Lowered {
        let (mut call, values) = self.graph_call(0, &graphs)?;
        let keeps =
            graphs.iter().enumerate().all(|(at, &it)| self.keeps_shapes(it, &call, at == 1));
        let numbers = self.open_first(
            &mut call,
            |this, call| {
                let (numbers, differs) = this.open_graphs(graphs, call)?;
                let values = call.shapes.iter().zip(&call.handles);
                let mut values = values.filter(|(_, handle)| handle.is_none());
                let is_known = values.all(|(shape, _)| !is_open(shape));
                Ok((numbers, is_known || differs || !keeps))
            },
            |this, call| this.loop_graphs(graphs, call),
        )?;
        let mut inputs: Vec<u32> = numbers.iter().map(|&number| self.refer_to(number)).collect();
        inputs.extend(values);
        let mut outputs = Vec::new();
        for result in 0..self.op.outputs.len() {
            // A loop gives the handles back that it takes.
            if let Some(name) = call.handles.get(result).cloned().flatten() {
                self.import.handles.insert(self.op.outputs[result], name);
                continue;
            }
            let output = self.own_output(result, false)?;
            if let Some(shape) = call.shapes.get(result).filter(|_| call.opens) {
                self.builder().operand_mut(output).dimensions.clone_from(shape);
            }
            outputs.push(output);
        }
        outputs.extend(self.next_variables(&call));
        self.emit(OperationType::While, &inputs, &outputs);
        Ok(())
    }

    fn loop_graphs(&mut self, [test, body]: [i32; 2], call: &GraphCall) -> Lowered<[u32; 2]> {
        Ok([self.referenced(test, call, true)?, self.referenced(body, call, false)?])
    }

    /// Both graphs, where their variables have whatever shapes come of their first values; and
    /// whether some variable changes a shape that is known.
    fn open_graphs(&mut self, graphs: [i32; 2], call: &mut GraphCall) -> Lowered<([u32; 2], bool)> {
        let is_value = |at: &usize| call.handles[*at].is_none();
        let variables: Vec<usize> = (0..call.handles.len()).filter(is_value).collect();
        let mut differs = false;
        loop {
            let mark = self.import.mark();
            let numbers = self.loop_graphs(graphs, call)?;
            let mut is_settled = true;
            for (&variable, result) in variables.iter().zip(self.results_of(numbers[1])) {
                let shape = &mut call.shapes[variable];
                let merged = merge(shape, result);
                is_settled &= *shape == merged;
                differs |= *shape != merged && !is_open(shape) && !is_open(result);
                *shape = merged;
            }
            if is_settled {
                return Ok((numbers, differs));
            }
            // Each time an extent is opened, or a rank, so this ends.
            self.import.rewind(&mark);
        }
    }
}

/// The extents that two shapes share; 0 where they differ, none where their ranks do.
pub(super) fn merge(a: &[u32], b: &[u32]) -> Vec<u32> {
    match a.len() == b.len() {
        true => a.iter().zip(b).map(|(&a, &b)| if a == b { a } else { 0 }).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn what_differs_is_open() {
        assert_eq!(merge(&[1, 2, 3], &[1, 4, 3]), [1, 0, 3]);
        assert_eq!(merge(&[1, 0], &[1, 7]), [1, 0]);
        assert!(merge(&[1, 2], &[2]).is_empty() && merge(&[], &[2]).is_empty());
    }
}
