//! Weights that are there while the operation is lowered that packs them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use nnburst_hal::{Charge, Operation};

use super::constant::{Reader, read};
use super::context::Context;
use super::graph::Graph;
use super::state::{State, Storage, ValueId};
use crate::lowering::CompileError;

/// Constants that are there while an operation is being lowered: the positions of its inputs.
pub(crate) type Lent = Vec<usize>;

impl Context {
    /// Reads the weights that an operation is about to pack.
    pub(crate) fn lend_constants(
        &self,
        graph: &Graph,
        operation: &Operation,
        map: &[ValueId],
        state: &mut State,
    ) -> Result<Lent, CompileError> {
        let mut lent = Lent::new();
        for (input, &operand) in operation.inputs.iter().enumerate() {
            let index = operand as usize;
            let storage = &mut state.values[map[index]].storage;
            let (Storage::Unread, Some(constant)) = (&*storage, &graph.constants[index]) else {
                continue;
            };
            let bytes = match (constant.bytes(), &self.reader) {
                (Some(bytes), _) => Arc::clone(bytes),
                (None, Some(reader)) => {
                    lent.push(input);
                    Arc::new(reader.lend(operation.kind, index, constant)?)
                }
                (None, None) => continue,
            };
            *storage = Storage::Constant(bytes);
        }
        Ok(lent)
    }

    /// Takes those back that are wholly `absorbed` in what was packed. Others stay for as long as
    /// the charges that are returned.
    pub(crate) fn take_back_constants(
        &self,
        graph: &Graph,
        operation: &Operation,
        map: &[ValueId],
        state: &mut State,
        lent: &Lent,
        absorbed: &[usize],
    ) -> Result<Vec<Charge>, CompileError> {
        let mut charges = Vec::new();
        let Some(reader) = &self.reader else { return Ok(charges) };
        for &input in lent {
            let index = operation.inputs[input] as usize;
            let storage = &mut state.values[map[index]].storage;
            let Storage::Constant(bytes) = storage else { continue };
            if !absorbed.contains(&input) {
                reader.rooms().keeping.insert(operation.kind);
                charges.extend(bytes.own(self.budget.as_ref())?);
                if let Some(constant) = &graph.constants[index] {
                    let _ = constant.bytes.set(Arc::clone(bytes));
                }
                continue;
            }
            if let Storage::Constant(bytes) = std::mem::replace(storage, Storage::Unread)
                && let Some(bytes) = Arc::into_inner(bytes)
            {
                reader.rooms().take_back(bytes);
            }
        }
        Ok(charges)
    }

    /// Reads what is not `absorbed`, by graph, operation and input, but was not looked at: the
    /// model's memories may go.
    pub(crate) fn read_rest(
        &mut self,
        absorbed: &HashSet<(usize, usize, usize)>,
    ) -> Result<(), CompileError> {
        let Some(Reader { pools, files, rooms, .. }) = self.reader.take() else { return Ok(()) };
        let mut slab = rooms.into_inner().unwrap_or_else(PoisonError::into_inner).slab;
        for (at, graph) in self.graphs.iter().enumerate() {
            for (index, constant) in graph.constants.iter().enumerate() {
                let Some(constant) = constant.as_ref().filter(|it| it.bytes().is_none()) else {
                    continue;
                };
                let is_packed = graph
                    .only_reader_of(index)
                    .is_some_and(|(operation, input)| absorbed.contains(&(at, operation, input)));
                if !is_packed {
                    let mut bytes = slab.zeroed(constant.len())?;
                    read(&pools, index, constant.location, bytes.as_mut_slice())?;
                    let _ = constant.bytes.set(Arc::new(bytes));
                }
            }
        }
        for file in files.iter().flatten() {
            // SAFETY: weights were packed, or have pages of their own.
            unsafe { file.let_go() };
            if file.is_corrupt() {
                let error = "its file was changed, or cut short, while it was read".to_owned();
                return Err(CompileError::Constant { operand: 0, error });
            }
        }
        Ok(())
    }
}
