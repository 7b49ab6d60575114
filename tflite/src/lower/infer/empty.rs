//! Operators on tensors without elements whose results have none either: nothing is computed.

use crate::lower::{Lower, Lowered};
use crate::schema::Builtin;

impl Lower<'_, '_> {
    /// Binds the results as constants without elements, where the shapes of the inputs, one of
    /// which has no elements, say that none of the results has any. False where they don't.
    pub(in crate::lower) fn results_without_elements(&mut self) -> Lowered<bool> {
        let mut inputs = (0..self.op.inputs.len()).filter_map(|at| self.optional_tensor(at));
        // What a loop gives may have another shape than what it was given.
        if self.builtin() == Builtin::While
            || !inputs.any(|index| self.import.has_no_elements(index))
        {
            return Ok(false);
        }
        self.import.counts_empty.set(true);
        let results = 0..self.op.outputs.len();
        let dims: Option<Vec<_>> = results.map(|result| self.known_result(result)).collect();
        self.import.counts_empty.set(false);
        let is_empty = |dims: &Vec<u32>| dims.contains(&0);
        let Some(dims) = dims.filter(|all| !all.is_empty() && all.iter().all(is_empty)) else {
            return Ok(false);
        };
        for (result, dims) in dims.into_iter().enumerate() {
            self.bind_empty(result, dims)?;
        }
        Ok(true)
    }

    /// Binds a result as a constant without elements of this shape.
    pub(super) fn bind_empty(&mut self, result: usize, dims: Vec<u32>) -> Lowered {
        let mut operand = self.import.own_operand(self.output_tensor(result)?)?;
        operand.dimensions = dims;
        let nothing = self.import.builder.made_constant(operand, &[]);
        self.bind(result, nothing)
    }
}
