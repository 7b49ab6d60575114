//! Custom operators that the program imports itself, and what their importers see of the file.

use nnburst_hal::{Operand, OperandType, OperationType};

use super::{Import, Lower, Lowered, Refusal};
use crate::model::Route;
use crate::registry::{CustomCall, CustomOperator, CustomOperators, CustomSite};
use crate::schema::{Builtin, Operator};

impl<'a> Import<'a> {
    /// The program's own importer of an operator, and the registry that has it.
    pub(super) fn registered(
        &self,
        op: &Operator<'_>,
    ) -> Option<(&'a dyn CustomOperator, &'a CustomOperators)> {
        let code = &self.file.codes[op.code];
        let customs = self.customs?;
        let name = code.custom.as_deref().filter(|_| code.builtin == Builtin::Custom)?;
        Some((customs.get(name)?, customs))
    }

    /// Lowers a custom operator as the program says.
    pub(super) fn by_program(
        &mut self,
        op: &'a Operator<'a>,
        operator: &dyn CustomOperator,
        registry: &CustomOperators,
    ) -> Result<Route, Refusal> {
        let first = self.builder.graph.operations.len();
        let mark = self.mark();
        let mut lower = Lower { import: &mut *self, op };
        let mut call = CustomCall::new(&mut lower, operator, registry);
        let imported = operator.import(&mut call).map_err(Refusal::Unsupported);
        let given = |&index: &usize| self.values[index].is_some();
        let checked = imported.and_then(|()| match op.outputs.iter().all(given) {
            true => self.check_operations(first),
            false => Err("the program gives no value to one of its results".into()),
        });
        if checked.is_err() {
            self.rewind(&mark);
        }
        checked.map(|()| Route::Program)
    }
}

/// A refusal in words.
fn told<T>(lowered: Lowered<T>) -> Result<T, String> {
    lowered.map_err(|refusal| match refusal {
        Refusal::Format(error) => error.to_string(),
        Refusal::Unsupported(why) => why,
    })
}

impl<'a> CustomSite<'a> for Lower<'_, 'a> {
    fn options(&self) -> &'a [u8] {
        self.op.custom
    }

    fn input_count(&self) -> usize {
        self.op.inputs.len()
    }

    fn has_input(&self, index: usize) -> bool {
        self.has(index)
    }

    fn input(&mut self, index: usize) -> Result<u32, String> {
        let tensor = told(self.tensor_index(index))?;
        told(self.import.own_value(tensor))
    }

    fn constant(&self, index: usize) -> Option<&'a [u8]> {
        let tensor = self.op.inputs.get(index).copied().flatten()?;
        self.import.file.data(&self.import.graph.tensors[tensor])
    }

    fn operand(&self, index: u32) -> Option<&Operand> {
        self.import.builder.graph.operands.get(usize::try_from(index).ok()?)
    }

    fn output(&mut self, index: usize) -> Result<u32, String> {
        told(self.own_output(index, false))
    }

    fn temporary(&mut self, kind: OperandType, dimensions: &[u32]) -> u32 {
        self.import.builder.temporary(kind, dimensions.to_vec())
    }

    fn like(&mut self, model: u32) -> u32 {
        let dimensions = self.import.builder.dims(model).to_vec();
        self.import.builder.like(model, dimensions)
    }

    fn int(&mut self, value: i32) -> u32 {
        self.import.builder.int(value)
    }

    fn float(&mut self, value: f32) -> u32 {
        self.import.builder.float(value)
    }

    fn boolean(&mut self, value: bool) -> u32 {
        self.import.builder.boolean(value)
    }

    fn tensor(&mut self, operand: Operand, bytes: &[u8]) -> u32 {
        self.import.builder.made_constant(operand, bytes)
    }

    fn operation(&mut self, kind: OperationType, inputs: &[u32], outputs: &[u32]) {
        self.emit(kind, inputs, outputs);
    }
}
