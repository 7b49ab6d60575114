//! The choice for each operator between NNAPI's operations and the extension's.

use nnburst_hal::{Operand, OperandType, OperationType, operation_since};

use super::{Import, Lower, Refusal};
use crate::error::{ImportError, UnsupportedOperator};
use crate::model::Route;
use crate::schema::Operator;

/// Lowers every operator; those that can't be are all reported, not only the first. `places` are
/// the operators' indices in the file.
pub(crate) fn lower_all(
    import: &mut Import<'_>,
    places: &[usize],
) -> Result<Vec<Route>, ImportError> {
    let graph = import.graph;
    let mut unsupported = Vec::new();
    let mut routes = Vec::new();
    for (index, op) in graph.operators.iter().enumerate() {
        import.builder.source = index;
        let why = match import.lower_one(op) {
            Ok(route) => {
                routes.push(route);
                continue;
            }
            Err(Refusal::Format(error)) => return Err(error.into()),
            Err(Refusal::Unsupported(why)) => why,
        };
        let name = import.file.codes[op.code].name();
        let index = places.get(index).copied().unwrap_or(index);
        unsupported.push(UnsupportedOperator { index, name, why });
        import.assume_outputs(op);
    }
    if unsupported.is_empty() {
        return Ok(routes);
    }
    Err(ImportError::Unsupported { operators: unsupported })
}

impl<'a> Import<'a> {
    /// Lowers an operator to NNAPI's operations where they have TFLite's results, else to the
    /// extension's, if it may be used and has it; else to NNAPI's whatever their results are.
    pub(crate) fn lower_one(&mut self, op: &'a Operator<'a>) -> Result<Route, Refusal> {
        let import = self;
        if let Some((operator, registry)) = import.registered(op) {
            return import.by_program(op, operator, registry);
        }
        if let Some(why) = (Lower { import: &mut *import, op }).misfit() {
            return Err(Refusal::Unsupported(why));
        }
        if !import.options.extension {
            return import.by_nnapi(op).map(|_| Route::Nnapi);
        }
        let mark = import.mark();
        let differs = Lower { import: &mut *import, op }.differs();
        let why = match differs {
            Some(why) => why.to_owned(),
            None => match import.by_nnapi(op) {
                Ok(first) if !(Lower { import: &mut *import, op }).goes_by_floats(first) => {
                    return Ok(Route::Nnapi);
                }
                Ok(_) => "NNAPI computes it in floats".to_owned(),
                Err(Refusal::Unsupported(why)) => why,
                Err(error) => return Err(error),
            },
        };
        import.rewind(&mark);
        let refusal = match (Lower { import: &mut *import, op }).extension() {
            Ok(()) => return Ok(Route::Extension(why)),
            Err(Refusal::Unsupported(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        import.rewind(&mark);
        match import.by_nnapi(op) {
            Err(Refusal::Unsupported(why)) => {
                import.rewind(&mark);
                Err(Refusal::Unsupported(format!("{why}; {refusal}")))
            }
            other => other.map(|_| Route::Nnapi),
        }
    }

    /// Lowers an operator to NNAPI's operations; the place of the first.
    fn by_nnapi(&mut self, op: &'a Operator<'a>) -> Result<usize, Refusal> {
        let first = self.builder.graph.operations.len();
        (Lower { import: &mut *self, op }).run()?;
        if self.options.extension {
            (Lower { import: &mut *self, op }).open_results();
        }
        self.check_operations(first)?;
        Ok(first)
    }

    /// Holds the operations from `first` on against the HAL's signatures: types and ranks that an
    /// operator has in the file need not be among those of its NNAPI namesake.
    pub(super) fn check_operations(&self, first: usize) -> Result<(), Refusal> {
        let graph = &self.builder.graph;
        for operation in graph.operations.iter().skip(first) {
            let operands = operation.inputs.iter().chain(&operation.outputs);
            if matches!(operation.kind, OperationType::Extension(_)) {
                continue;
            }
            let refers = matches!(operation.kind, OperationType::If | OperationType::While);
            let operands = operands.filter(|_| !refers);
            for kind in operands.map(|&index| self.builder.operand(index).kind) {
                if kind.is_extension() {
                    let why = "NNAPI has no tensors of its types";
                    return Err(Refusal::Unsupported(why.to_owned()));
                }
            }
            operation_since(operation, graph)
                .map_err(|rule| Refusal::Unsupported(format!("{}: {rule}", operation.kind)))?;
        }
        Ok(())
    }

    /// Goes on behind an operator that could not be mapped, so that all of them are found.
    fn assume_outputs(&mut self, op: &Operator<'_>) {
        for &index in &op.outputs {
            if self.values[index].is_none() {
                let tensor = &self.graph.tensors[index];
                let assumed = self.own_operand(tensor);
                let assumed = assumed.unwrap_or_else(|_| {
                    Operand::tensor(OperandType::TensorFloat32, tensor.shape.clone())
                });
                self.values[index] = Some(self.builder.add(assumed));
            }
        }
    }
}
