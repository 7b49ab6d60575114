//! The places of executions' arguments in memories.

use nnburst_hal::{DataLocation, Direction};

use super::{Memory, Role};
use crate::compilation::Compilation;
use crate::error::{Result, RuntimeError};

impl Memory {
    /// Returns the place of an execution's argument, if it may be there: bytes
    /// `offset..offset + length`, or all of it where both are 0.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] for a range outside the memory or of no bytes, a part of what is
    /// used whole, or a use that is none of its roles.
    pub fn place(
        &self,
        compilation: &Compilation,
        direction: Direction,
        index: usize,
        offset: u32,
        length: u32,
    ) -> Result<DataLocation> {
        self.0.origin.check()?;
        let location = DataLocation { pool_index: 0, offset, length };
        let whole = (offset, length) == (0, 0);
        let is_image = self.is_image();
        match &self.0.domain {
            Some(domain) => {
                let role = Role { compilation: compilation.id(), direction, index };
                if !domain.roles.contains(&role) {
                    let why = format!("the memory was not made for {direction} {index}");
                    return Err(RuntimeError::Argument(why));
                }
                if !whole {
                    return Err(partly("one from a descriptor", offset, length));
                }
            }
            None if is_image && !whole => {
                return Err(partly("a hardware buffer with a format", offset, length));
            }
            None if is_image => {}
            None => self.check_range(offset, length)?,
        }
        Ok(location)
    }
}

fn partly(what: &str, offset: u32, length: u32) -> RuntimeError {
    RuntimeError::Argument(format!(
        "{what} is used whole, with offset and length 0, not {offset} and {length}"
    ))
}
