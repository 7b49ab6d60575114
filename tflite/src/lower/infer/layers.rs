//! Extents of what recurrent layers give.

use crate::lower::Lower;
use crate::schema::Builtin;
use crate::schema::options;

impl Lower<'_, '_> {
    /// The extents of a result of a recurrent layer: those of its input, but for as many elements
    /// in the last dimension as it has units.
    pub(super) fn recurrent_dims(&self, builtin: Builtin, result: usize) -> Option<Vec<u32>> {
        // The number of rows of weights, and of columns of those that units have for each other.
        let rows = |argument: usize| self.dims(argument)?.first().copied();
        let columns = |argument: usize| self.dims(argument)?.last().copied();
        let units = match builtin {
            Builtin::Rnn | Builtin::UnidirectionalSequenceRnn => rows(1)?,
            Builtin::Svdf => {
                let rank = self.options(options::svdf::KIND).ok()?;
                let rank = rank.int(options::svdf::RANK, 0).ok()?;
                rows(1)?.checked_div(u32::try_from(rank).ok()?)?
            }
            Builtin::UnidirectionalSequenceLstm => columns(8)?,
            // One with the BASIC kernel has no such weights.
            Builtin::Lstm if self.op.inputs.len() >= 20 => columns(8)?,
            Builtin::BidirectionalSequenceRnn => self.both(result, rows(1)?, rows(5)?)?,
            Builtin::BidirectionalSequenceLstm => self.both(result, columns(8)?, columns(25)?)?,
            _ => return None,
        };
        let mut dims = self.dims(0)?;
        *dims.last_mut()? = units;
        Some(dims)
    }

    /// The units of a result of two directions, which are in one or in two.
    fn both(&self, result: usize, forward: u32, backward: u32) -> Option<u32> {
        match (self.op.outputs.len(), result) {
            (1, 0) => forward.checked_add(backward),
            (2, 0) => Some(forward),
            (2, 1) => Some(backward),
            _ => None,
        }
    }
}
