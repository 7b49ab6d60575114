//! c10 and c11: models and requests with one thing wrong are refused with `INVALID_ARGUMENT`, and
//! valid requests are answered with the shapes and times that they ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst::hal::{
    CacheHandles, ErrorStatus, ExecutionOptions, HalError, MeasureTiming, Memory, Model,
    OutputShape, PrepareOptions, PreparedModel, Request, RequestArgument, RequestPool, Timing,
    wait_for_prepared_model,
};
use nnburst_hal::testing::{model_mutations, request_mutations};
use serde_json::{Value, json};

use super::part::{CrashPart, events};
use super::subjects::{Subject, smallest, subjects};
use crate::data::{Loaded, Random};
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
    let valid =
        |what: &str| super::part::note_case(json!({"model": subject.name, "request": what}));
    valid("an output one byte short");
    too_small(part, &subject, &*prepared, request.clone())?;
    valid("valid");
    told(part, &subject, &*prepared, &request)?;
    valid("valid, of a model whose output shape is open");
    open_shapes(part, &subject, &request)?;
    still_right(part)?;
    Ok(events(done + 3))
}

/// The answer to a valid request has the shapes of the outputs, and times only where they are asked
/// for, of which the device's is a part of the driver's and that a part of the call.
fn told(
    part: &CrashPart<'_>,
    subject: &Subject,
    prepared: &dyn PreparedModel,
    request: &Request,
) -> Outcome<()> {
    for measure in [MeasureTiming::No, MeasureTiming::Yes] {
        let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
        let start = Instant::now();
        let result =
            part.pulse.during("execute", || prepared.execute_synchronously(request, options));
        let took = start.elapsed();
        let failed = |why: String| Err(Stopped::failed(format!("{}: {why}", subject.name)));
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failure) => return failed(format!("a valid request: {:?}", failure.error.status)),
        };
        if let Err(why) = shapes_are(&outcome.output_shapes, &subject.loaded) {
            return failed(why);
        }
        if let Err(why) = times_are(outcome.timing, measure, took) {
            return failed(why);
        }
    }
    Ok(())
}

/// An interface may leave the shapes out where the model knows them; what it says has to be right.
fn shapes_are(shapes: &[OutputShape], loaded: &Loaded) -> Result<(), String> {
    let outputs = loaded.outputs();
    if !shapes.is_empty() && shapes.len() != loaded.model.main.output_indexes.len() {
        let want = loaded.model.main.output_indexes.len();
        return Err(format!("{} output shapes, expected {want}", shapes.len()));
    }
    for (shape, (at, output)) in shapes.iter().zip(outputs.into_iter().enumerate()) {
        let want = loaded.output(output).map(|operand| operand.dimensions.clone());
        if !shape.is_sufficient || want.as_ref().is_some_and(|want| *want != shape.dimensions) {
            return Err(format!(
                "output {at} of shape {:?}, sufficient: {}; expected {:?}, sufficient: true",
                shape.dimensions,
                shape.is_sufficient,
                want.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

fn times_are(timing: Timing, measure: MeasureTiming, took: Duration) -> Result<(), String> {
    if timing == Timing::NONE {
        // A driver may have no clock.
        return Ok(());
    }
    let Timing { time_on_device: device, time_in_driver: driver } = timing;
    if measure == MeasureTiming::No {
        return Err(format!("times of {device} and {driver} us without being asked for any"));
    }
    let is_known = |time: u64| time != Timing::NONE.time_in_driver;
    if is_known(device) && is_known(driver) && device > driver {
        return Err(format!("{device} us on the device, more than the {driver} us in the driver"));
    }
    // Rounded up to a microsecond.
    let most = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).saturating_add(1);
    let longest = [device, driver].into_iter().filter(|&time| is_known(time)).max();
    match longest {
        Some(longest) if longest > most => {
            Err(format!("{longest} us in the driver, more than the {most} us of the call"))
        }
        _ => Ok(()),
    }
}

/// A model whose output shape is open until it runs: the answer has the shape.
fn open_shapes(part: &CrashPart<'_>, subject: &Subject, request: &Request) -> Outcome<()> {
    let mut model = subject.loaded.model.clone();
    let output = model.main.output_indexes.first().and_then(|&at| usize::try_from(at).ok());
    let Some(operand) = output.and_then(|at| model.main.operands.get_mut(at)) else {
        return Ok(());
    };
    let want = operand.dimensions.clone();
    operand.dimensions.fill(0);
    let Some(device) = part.client.device() else { return Ok(()) };
    let taken =
        part.pulse.during("supported operations", || device.hal().supported_operations(&model));
    if !taken.is_ok_and(|taken| taken.iter().all(|&taken| taken)) {
        // A driver may take models of known shapes only.
        return Ok(());
    }
    let failed = |why: String| {
        let name = &subject.name;
        Err(Stopped::failed(format!("{name} with an output of open shape: {why}")))
    };
    let prepared = match prepare(part, model) {
        Ok(prepared) => prepared,
        Err(error) => return failed(format!("taken and not prepared: {error}")),
    };
    let options = ExecutionOptions::default();
    let result = part.pulse.during("execute", || prepared.execute_synchronously(request, options));
    match result {
        Err(failure) => failed(format!("{:?}", failure.error.status)),
        Ok(outcome) => match outcome.output_shapes.first() {
            Some(shape) if shape.is_sufficient && shape.dimensions == want => Ok(()),
            Some(shape) => {
                failed(format!("the answer says {:?}, expected {want:?}", shape.dimensions))
            }
            None => failed(format!("the answer has no shape, expected {want:?}")),
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_asked_for_and_fit_into_each_other() {
        let times =
            |on_device, in_driver| Timing { time_on_device: on_device, time_in_driver: in_driver };
        let took = Duration::from_micros(100);
        let judge = |timing, measure| times_are(timing, measure, took).err().unwrap_or_default();
        assert_eq!(judge(Timing::NONE, MeasureTiming::Yes), "");
        assert_eq!(judge(times(80, 90), MeasureTiming::Yes), "");
        assert_eq!(judge(times(u64::MAX, 90), MeasureTiming::Yes), "");
        assert!(judge(times(80, 90), MeasureTiming::No).contains("without being asked"));
        assert!(judge(times(95, 90), MeasureTiming::Yes).contains("more than the 90 us"));
        assert!(judge(times(80, 500), MeasureTiming::Yes).contains("500 us in the driver"));
    }
}
