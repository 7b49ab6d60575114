//! c10 and c11: models and requests with one thing wrong are refused with `INVALID_ARGUMENT`.

use nnburst::hal::{
    CacheHandles, ErrorStatus, ExecutionOptions, HalError, Memory, Model, PrepareOptions,
    PreparedModel, Request, RequestArgument, RequestPool, wait_for_prepared_model,
};
use nnburst_hal::testing::{model_mutations, request_mutations};
use serde_json::{Value, json};
use std::sync::Arc;

use super::part::{CrashPart, events};
use super::subjects::{Subject, smallest, subjects};
use crate::data::Random;
use crate::worker::client::CallError;
use crate::worker::outcome::{Outcome, Stopped};

/// The most operations of a model whose mutations are made: each is the whole model again.
const LARGEST: usize = 8;

/// Prepares through the HAL itself: nothing on the client's side looks at the model before.
pub(super) fn prepare(
    part: &CrashPart<'_>,
    model: Model,
) -> Result<Arc<dyn PreparedModel>, HalError> {
    let Some(device) = part.client.device() else {
        return Err(HalError::failure("not offered: the HAL"));
    };
    part.pulse.during("prepare", || {
        wait_for_prepared_model(|callback| {
            let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
            device.hal().prepare_model(model, options, cache, callback)
        })
    })
}

/// c10: each mutation is asked for and prepared.
pub(super) fn models(part: &CrashPart<'_>) -> Outcome<Value> {
    let Some(device) = part.client.device() else {
        return Err(Stopped::Skipped("not offered: models that the C functions refuse".to_owned()));
    };
    let version = device.version_of_hal();
    let subjects = subjects(part)?;
    let mut broken = Vec::new();
    for subject in subjects.iter().filter(|one| one.loaded.model.main.operations.len() <= LARGEST) {
        let all = model_mutations(&subject.loaded.model, version);
        broken.extend(all.map(|mutation| (subject.name.clone(), mutation)));
    }
    let mut random = Random(part.job.seed);
    let mut done = 0;
    for _ in 0..part.work.count.min(broken.len()) {
        let (name, mutation) = broken.swap_remove(random.index(broken.len()));
        let case = json!({"model": name, "mutation": mutation.what, "seed": part.job.seed});
        super::part::note_case(case.clone());
        // Whatever it answers: it must not crash.
        let _ = part
            .pulse
            .during("supported operations", || device.hal().supported_operations(&mutation.model));
        let failed = |what: String| {
            let reason = format!("{name}, {}: {what}", mutation.what);
            Err(Stopped::Failed(reason, case.clone()))
        };
        match prepare(part, mutation.model.clone()) {
            Ok(_) => return failed("prepared, expected INVALID_ARGUMENT".to_owned()),
            Err(error) if error.status == ErrorStatus::InvalidArgument => {}
            Err(error) => {
                return failed(format!("{:?}, expected INVALID_ARGUMENT: {error}", error.status));
            }
        }
        done += 1;
    }
    still_right(part)?;
    Ok(events(done))
}

/// c11: wrong counts, places and sizes of arguments.
pub(super) fn requests(part: &CrashPart<'_>) -> Outcome<Value> {
    if part.client.device().is_none() {
        return Err(Stopped::Skipped(
            "not offered: requests that the C functions refuse".to_owned(),
        ));
    }
    let subject = smallest(part)?;
    let model = &subject.loaded.model;
    let prepared =
        prepare(part, model.clone()).map_err(|error| Stopped::failed(error.to_string()))?;
    let request = request_of(&subject)?;
    let mut broken = request_mutations(&request, model);
    let mut random = Random(part.job.seed);
    let mut done = 0;
    for _ in 0..part.work.count.min(broken.len()) {
        let mutation = broken.swap_remove(random.index(broken.len()));
        let case = json!({"model": subject.name, "request": mutation.what});
        super::part::note_case(case.clone());
        let options = ExecutionOptions::default();
        let result = part
            .pulse
            .during("execute", || prepared.execute_synchronously(&mutation.request, options));
        let status = result.err().map(|failure| failure.error.status);
        if status != Some(ErrorStatus::InvalidArgument) {
            let got = status.map_or_else(|| "success".to_owned(), |status| format!("{status:?}"));
            let reason =
                format!("{}, {}: {got}, expected INVALID_ARGUMENT", subject.name, mutation.what);
            return Err(Stopped::Failed(reason, case));
        }
        done += 1;
    }
    too_small(part, &subject, &*prepared, request)?;
    still_right(part)?;
    Ok(events(done + 1))
}

/// An output of a byte too few has a status of its own.
fn too_small(
    part: &CrashPart<'_>,
    subject: &Subject,
    prepared: &dyn PreparedModel,
    mut request: Request,
) -> Outcome<()> {
    let Some(output) = request.outputs.first_mut() else { return Ok(()) };
    output.location.length = output.location.length.saturating_sub(1);
    let options = ExecutionOptions::default();
    let result = part.pulse.during("execute", || prepared.execute_synchronously(&request, options));
    match result {
        Err(failure) if failure.error.status == ErrorStatus::OutputInsufficientSize => {
            match failure.output_shapes.first() {
                Some(shape) if !shape.is_sufficient => Ok(()),
                _ => Err(Stopped::failed(format!(
                    "{}: OUTPUT_INSUFFICIENT_SIZE without the output's shape",
                    subject.name
                ))),
            }
        }
        // A driver may hold the size against the model's fully known shape.
        Err(failure) if failure.error.status == ErrorStatus::InvalidArgument => Ok(()),
        Err(failure) => Err(Stopped::failed(format!(
            "{}, an output one byte short: {:?}",
            subject.name, failure.error.status
        ))),
        Ok(_) => Err(Stopped::failed(format!(
            "{}: an output one byte short went unnoticed",
            subject.name
        ))),
    }
}

/// The request of a subject's first inputs, over one memory for inputs and one for outputs.
pub(super) fn request_of(subject: &Subject) -> Outcome<Request> {
    let system = |error: nnburst::hal::MemoryError| {
        Stopped::from(CallError::from(nnburst::RuntimeError::from(error)))
    };
    let mut inputs = Vec::new();
    let mut bytes = Vec::new();
    let feed = subject.feeds.first().cloned().unwrap_or_default();
    for value in &feed.inputs {
        inputs.push(argument(0, bytes.len(), value.len()));
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
    }
    let mut outputs = Vec::new();
    let mut end = 0_usize;
    for position in subject.loaded.outputs() {
        let size = subject.loaded.output(position).and_then(nnburst::hal::Operand::data_size);
        let size = size.unwrap_or(0);
        outputs.push(argument(1, end, size));
        end = end.saturating_add(size).next_multiple_of(64);
    }
    let length = |size: usize| u64::try_from(size.max(64)).unwrap_or(u64::MAX);
    let source = Memory::ashmem(length(bytes.len())).map_err(system)?;
    let mapping = source.map(nnburst::hal::Access::ReadWrite).map_err(system)?;
    if let Some(view) = mapping.view_mut(0..bytes.len()) {
        view.copy_from_slice(&bytes);
    }
    let target = Memory::ashmem(length(end)).map_err(system)?;
    let pools = vec![RequestPool::Memory(source), RequestPool::Memory(target)];
    Ok(Request { inputs, outputs, pools })
}

fn argument(pool_index: u32, offset: usize, length: usize) -> RequestArgument {
    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let (offset, length) = (narrow(offset), narrow(length));
    let location = nnburst::hal::DataLocation { pool_index, offset, length };
    RequestArgument { has_no_value: false, location, dimensions: Vec::new() }
}

/// The driver still answers right after what it was fed.
pub(super) fn still_right(part: &CrashPart<'_>) -> Outcome<()> {
    let after = smallest(part).map_err(|stopped| stopped.during("afterwards"))?;
    after.answer_on(part.client, part.pulse).map_err(|stopped| stopped.during("afterwards"))
}
