//! One case on a device: compiled, executed, judged.

use std::time::Duration;

use nnburst::hal::{ErrorStatus, ExecutionOutcome};
use nnburst::{Device, RuntimeError};
use nnburst_conformance::{Case, CaseRequest};

use super::device_memory::DeviceMemory;
use super::{Verdict, is_supported};
use crate::args::{ModeArg, VtsArgs};
use crate::cached;
use crate::failure::Failure;
use crate::session::Caller;

/// Why an attempt ended early.
pub(super) enum Attempt {
    Lost(Failure),
    Wrong(Verdict),
}

impl From<Verdict> for Attempt {
    fn from(verdict: Verdict) -> Self {
        Self::Wrong(verdict)
    }
}

/// Runs the case; `Ok` where it ended as it has to, and whether with the very bytes that it
/// expects.
pub(super) fn attempt(case: &Case, device: &Device, args: &VtsArgs) -> Result<bool, Attempt> {
    if !case.expect_failure && !is_supported(case, device) {
        return Err(Verdict::Skipped("the device refuses an operation").into());
    }
    let compiled = if args.cache {
        match cached::compile(&case.name, &case.model, device, args.engine.prepare()) {
            Ok(Some((compilation, _))) => Ok(compilation),
            Ok(None) => return Err(Verdict::Skipped("the device caches nothing").into()),
            Err(error) => Err(error),
        }
    } else {
        device.compile(&case.model, args.engine.prepare())
    };
    let compilation = match compiled {
        Ok(compilation) => compilation,
        Err(error) => return expected_failure(case, error),
    };
    let mut caller = match Caller::new(compilation.clone(), &args.engine) {
        Ok(caller) => caller,
        Err(error) => return expected_failure(case, error),
    };
    let request = request_of(case, args)?;
    let memory = match args.device_memory {
        true => Some(DeviceMemory::new(case, &compilation, &request)?),
        false => None,
    };
    let given = memory.as_ref().map_or(&request.request, DeviceMemory::request);
    let loop_timeout = case.loops_forever().then_some(Duration::from_millis(1));
    match caller.call_request(given, loop_timeout) {
        Err(error) if args.insufficient_size => too_small(case, error),
        Err(error) => {
            // A burst carries the status alone: the reason is asked for once more.
            let again = case.broken_rule().filter(|_| args.engine.mode == ModeArg::Burst);
            let told = again.and_then(|_| compilation.execution().compute_request(given).err());
            expected_failure(case, told.unwrap_or(error))
        }
        Ok(_) if args.insufficient_size => {
            Err(Verdict::Failed("a buffer that is too small went unnoticed".into()).into())
        }
        Ok(_) if case.expect_failure => {
            Err(Verdict::Failed("ran to completion, which it must not".into()).into())
        }
        Ok(outcome) => compare(case, &request, memory.as_ref(), &outcome),
    }
}

/// The request that the options make of the case.
pub(super) fn request_of(case: &Case, args: &VtsArgs) -> Result<CaseRequest, Attempt> {
    let request = if args.insufficient_size {
        match case.request_with_short_output() {
            Ok(Some(request)) => Ok(request),
            Ok(None) => {
                return Err(Verdict::Skipped("an output of one byte can't be shorter").into());
            }
            Err(error) => Err(error),
        }
    } else {
        case.request()
    };
    Ok(request.map_err(|error| Verdict::Failed(error.to_string()))?)
}

/// An error where one has to come is right, if it is for the rule that the case breaks; the loss of
/// the device never is.
pub(super) fn expected_failure(case: &Case, error: RuntimeError) -> Result<bool, Attempt> {
    if error.is_device_lost() {
        return Err(Attempt::Lost(error.into()));
    }
    if !case.expect_failure {
        return Err(Verdict::Failed(error.to_string()).into());
    }
    if case.loops_forever() && !error.is_deadline_missed() {
        let why = format!("the loop should have missed its deadline, but: {error}");
        return Err(Verdict::Failed(why).into());
    }
    let said = error.to_string();
    let missing = case.broken_rule().unwrap_or_default().iter().find(|word| !said.contains(**word));
    if let Some(word) = missing {
        let why = format!("failed, but not for its reason, which has {word:?} in it: {said}");
        return Err(Verdict::Failed(why).into());
    }
    Ok(false)
}

pub(super) fn too_small(case: &Case, error: RuntimeError) -> Result<bool, Attempt> {
    match error {
        RuntimeError::OutputTooSmall { shapes, .. } => {
            let first = shapes.first();
            if first.is_some_and(|shape| !shape.is_sufficient) {
                return Ok(false);
            }
            let status = ErrorStatus::OutputInsufficientSize;
            let why = format!("{status} without marking the first output: {first:?}");
            Err(Verdict::Failed(why).into())
        }
        error => expected_failure(case, error),
    }
}

pub(super) fn compare(
    case: &Case,
    request: &CaseRequest,
    memory: Option<&DeviceMemory>,
    outcome: &ExecutionOutcome,
) -> Result<bool, Attempt> {
    let mut exact = true;
    for (index, expected) in case.outputs.iter().enumerate() {
        // A fenced execution tells no shapes: those of the model are known to be complete.
        let shape = outcome.output_shapes.get(index);
        let dimensions =
            shape.map_or(expected.dimensions.as_slice(), |shape| shape.dimensions.as_slice());
        let bytes = match memory.and_then(|memory| memory.output(index)) {
            Some(bytes) => bytes?,
            None => request
                .output(index, expected.bytes.len())
                .map_err(|error| Verdict::Failed(error.to_string()))?,
        };
        case.compare(index, dimensions, &bytes)
            .map_err(|mismatch| Verdict::Failed(mismatch.to_string()))?;
        exact &= case.is_exact(index, &bytes);
    }
    Ok(exact)
}
