//! The places of a run's values, and requests made of them.

use nnburst_hal::{
    Access, DataLocation, HalError, Memory, Operand, OutputShape, Request, RequestArgument,
    RequestPool, Result, extends_shape,
};

use super::plan::{Home, Plan};

/// The place of a value in this run.
#[derive(Clone, Debug, Default)]
pub(super) struct ValuePlace {
    /// Nothing where the value is left out.
    pub(super) pool: Option<RequestPool>,
    pub(super) offset: u32,
    pub(super) length: u32,
    /// As far as they are known by now.
    pub(super) dimensions: Vec<u32>,
    /// The position of the model's output that it is.
    pub(super) output: Option<usize>,
}

impl ValuePlace {
    fn of_argument(
        argument: &RequestArgument,
        operand: &Operand,
        request: &Request,
        output: Option<usize>,
    ) -> Self {
        let pool = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
        let pool = request.pools.get(pool).filter(|_| !argument.has_no_value).cloned();
        let given = &argument.dimensions;
        let dimensions = if given.is_empty() { &operand.dimensions } else { given }.clone();
        let DataLocation { offset, length, .. } = argument.location;
        Self { pool, offset, length, dimensions, output }
    }

    fn in_memory(memory: Option<&Memory>, offset: u32, length: u32, operand: &Operand) -> Self {
        let pool = memory.cloned().map(RequestPool::Memory);
        Self { pool, offset, length, dimensions: operand.dimensions.clone(), output: None }
    }

    /// Returns the place of a home in this run.
    pub(super) fn of(
        home: &Home,
        operand: &Operand,
        plan: &Plan,
        request: &Request,
        arena: Option<&Memory>,
    ) -> Self {
        match home {
            &Home::Input(at) => request
                .inputs
                .get(at)
                .map(|argument| Self::of_argument(argument, operand, request, None))
                .unwrap_or_default(),
            &Home::Output(at) => request
                .outputs
                .get(at)
                .map(|argument| Self::of_argument(argument, operand, request, Some(at)))
                .unwrap_or_default(),
            &Home::Arena { offset, length } => Self::in_memory(arena, offset, length, operand),
            &Home::Constant { offset, length } => {
                Self::in_memory(plan.constants.as_ref(), offset, length, operand)
            }
            Home::Pool { memory, offset, length } => {
                Self::in_memory(Some(memory), *offset, *length, operand)
            }
            Home::Bound | Home::Nowhere => Self::default(),
        }
    }

    /// Copies the value's first byte out.
    pub(super) fn first_byte(&self) -> Result<u8> {
        let mut byte = [0];
        match &self.pool {
            Some(RequestPool::Memory(memory)) => {
                if memory.read_at(u64::from(self.offset), &mut byte).is_err() {
                    // What can't be read as a file may still be mapped.
                    let mapping = memory.map(Access::Read)?;
                    let at = usize::try_from(self.offset).unwrap_or(usize::MAX);
                    let view = mapping.view(at..at.saturating_add(1)).ok_or_else(outside)?;
                    view.copy_to_slice(&mut byte);
                }
                Ok(byte[0])
            }
            Some(RequestPool::Token(_)) => {
                Err(HalError::failure("a condition is in a device's own memory"))
            }
            None => Err(HalError::invalid("a condition is left out")),
        }
    }

    /// Copies the value to another place of the same shape.
    pub(super) fn copy_to(&self, to: &Self) -> Result<()> {
        let (Some(RequestPool::Memory(source)), Some(RequestPool::Memory(target))) =
            (&self.pool, &to.pool)
        else {
            return Err(HalError::failure("a loop's value is in a device's own memory"));
        };
        if (source, self.offset) == (target, to.offset) {
            return Ok(());
        }
        // Either may be longer than the value, or stand for all of its memory.
        let bytes = match (self.length, to.length) {
            (0, 0) => u32::try_from(source.size().min(target.size())).unwrap_or(u32::MAX),
            (0, length) | (length, 0) => length,
            (one, other) => one.min(other),
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let range = |offset: u32| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            start..start.saturating_add(bytes)
        };
        let from = source.map(Access::Read)?;
        let onto = target.map(Access::ReadWrite)?;
        let view = from.view(range(self.offset)).ok_or_else(outside)?;
        onto.view_mut(range(to.offset)).ok_or_else(outside)?.copy_from(view);
        Ok(())
    }
}

fn outside() -> HalError {
    HalError::invalid("an argument is outside its memory")
}

/// A request for a step whose arguments are in these places.
pub(super) fn request<'p>(
    inputs: impl Iterator<Item = (&'p ValuePlace, &'p Operand)>,
    outputs: impl Iterator<Item = (&'p ValuePlace, &'p Operand)>,
) -> Request {
    let mut request = Request::default();
    let Request { inputs: into, outputs: onto, pools } = &mut request;
    into.extend(inputs.map(|(place, operand)| argument(place, operand, pools)));
    onto.extend(outputs.map(|(place, operand)| argument(place, operand, pools)));
    request
}

fn argument(
    place: &ValuePlace,
    operand: &Operand,
    pools: &mut Vec<RequestPool>,
) -> RequestArgument {
    let Some(pool) = &place.pool else {
        return RequestArgument { has_no_value: true, ..RequestArgument::default() };
    };
    let same = |known: &RequestPool| match (known, pool) {
        (RequestPool::Memory(one), RequestPool::Memory(other)) => one == other,
        (RequestPool::Token(one), RequestPool::Token(other)) => one == other,
        _ => false,
    };
    let at = pools.iter().position(same).unwrap_or_else(|| {
        pools.push(pool.clone());
        pools.len() - 1
    });
    let pool_index = u32::try_from(at).unwrap_or(u32::MAX);
    let location = DataLocation { pool_index, offset: place.offset, length: place.length };
    // Said only where the model leaves them open.
    let open = operand.has_unspecified_dimensions();
    let dimensions = if open { place.dimensions.clone() } else { Vec::new() };
    RequestArgument { has_no_value: false, location, dimensions }
}

/// The shape that a driver tells, held against what was known of it.
///
/// # Errors
/// `GENERAL_FAILURE` where it changes what was known.
pub(crate) fn merge(known: &[u32], told: &OutputShape) -> Result<Vec<u32>> {
    let told = &told.dimensions;
    if extends_shape(known, told) {
        Ok(told.clone())
    } else {
        Err(HalError::failure(format!(
            "the driver reports shape {told:?} for an output, expected {known:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_may_fill_in_what_is_unknown_and_nothing_else() {
        let told = |dimensions: &[u32]| OutputShape {
            dimensions: dimensions.to_vec(),
            is_sufficient: true,
        };
        assert_eq!(merge(&[], &told(&[2, 3])).unwrap(), [2, 3]);
        assert_eq!(merge(&[0, 3], &told(&[2, 3])).unwrap(), [2, 3]);
        assert!(merge(&[2, 3], &told(&[2, 4])).is_err());
        assert!(merge(&[2, 3], &told(&[2, 3, 1])).is_err());
    }
}
