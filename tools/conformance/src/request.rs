//! A case as a request: inputs in one shared memory, outputs in another, as the reference suites
//! do.

use nnburst_hal::{DataLocation, Memory, Request, RequestArgument, RequestPool};

use crate::read::filled_memory;
use crate::{Case, LoadError};

/// A request and the memories behind it.
#[derive(Clone, Debug)]
pub struct CaseRequest {
    /// Pool 0 has the inputs, pool 1 the outputs; every argument starts at a multiple of 4 bytes.
    pub request: Request,
    /// Pool 0.
    pub inputs: Memory,
    /// Pool 1; filled with 0xA5, so that what was never written shows.
    pub outputs: Memory,
}

impl Case {
    /// The request, each output's buffer as large as what is expected and at least one byte.
    ///
    /// # Errors
    /// There is no memory.
    pub fn request(&self) -> Result<CaseRequest, LoadError> {
        self.request_with(|_, bytes| bytes)
    }

    /// The request with the first output's buffer one byte too short, to be answered with
    /// `OUTPUT_INSUFFICIENT_SIZE`; `None` where that output needs no more than a byte.
    ///
    /// # Errors
    /// There is no memory.
    pub fn request_with_short_output(&self) -> Result<Option<CaseRequest>, LoadError> {
        if self.outputs.first().is_none_or(|first| first.bytes.len() <= 1) {
            return Ok(None);
        }
        self.request_with(|index, bytes| if index == 0 { bytes.saturating_sub(1) } else { bytes })
            .map(Some)
    }

    fn request_with(&self, size: impl Fn(usize, usize) -> usize) -> Result<CaseRequest, LoadError> {
        const INPUTS: u32 = 0;
        const OUTPUTS: u32 = 1;
        let mut input_bytes = Vec::new();
        let mut inputs = Vec::new();
        for value in &self.inputs {
            let has_no_value = value.bytes.is_empty();
            let location = if has_no_value {
                DataLocation::default()
            } else {
                self.place(&mut input_bytes, INPUTS, value.bytes.iter().copied())?
            };
            inputs.push(RequestArgument { has_no_value, location, dimensions: Vec::new() });
        }
        let mut output_bytes = Vec::new();
        let mut outputs = Vec::new();
        for (index, expected) in self.outputs.iter().enumerate() {
            let len = size(index, expected.bytes.len()).max(1);
            let location =
                self.place(&mut output_bytes, OUTPUTS, std::iter::repeat_n(UNWRITTEN, len))?;
            outputs.push(RequestArgument { has_no_value: false, location, dimensions: Vec::new() });
        }
        // A memory of no bytes can't be mapped everywhere.
        input_bytes.resize(input_bytes.len().max(1), 0);
        let memory = |bytes: &[u8]| {
            filled_memory(bytes)
                .map_err(|error| LoadError::Memory { case: self.name.clone(), error })
        };
        let (input_memory, output_memory) = (memory(&input_bytes)?, memory(&output_bytes)?);
        let pools =
            [&input_memory, &output_memory].map(|memory| RequestPool::Memory(memory.clone()));
        Ok(CaseRequest {
            request: Request { inputs, outputs, pools: pools.into() },
            inputs: input_memory,
            outputs: output_memory,
        })
    }

    fn place(
        &self,
        area: &mut Vec<u8>,
        pool_index: u32,
        bytes: impl Iterator<Item = u8>,
    ) -> Result<DataLocation, LoadError> {
        area.resize(area.len().next_multiple_of(4), 0);
        let start = area.len();
        area.extend(bytes);
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| LoadError::Case {
                case: self.name.clone(),
                what: "more than 4 GiB of arguments".to_owned(),
            })
        };
        let length = number(area.len().saturating_sub(start))?;
        Ok(DataLocation { pool_index, offset: number(start)?, length })
    }
}

impl CaseRequest {
    /// Returns the contents of an output's buffer, at most as many bytes as the buffer has; empty
    /// where there is no such output.
    ///
    /// # Errors
    /// The memory can't be read.
    pub fn output(&self, index: usize, bytes: usize) -> Result<Vec<u8>, nnburst_hal::MemoryError> {
        let Some(argument) = self.request.outputs.get(index) else { return Ok(Vec::new()) };
        let length = usize::try_from(argument.location.length).unwrap_or(usize::MAX);
        let mut out = vec![0; bytes.min(length)];
        self.outputs.read_at(u64::from(argument.location.offset), &mut out)?;
        Ok(out)
    }
}

const UNWRITTEN: u8 = 0xA5;
