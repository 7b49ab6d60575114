//! The operations that the driver takes, and why not the others.

use nnburst::hal::operation_since;
use nnburst::{CompileOptions, Device, explain};

use crate::data::Loaded;
use crate::report::{OpSupport, Support};
use crate::worker::client::Client;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::pulse::Pulse;

pub(super) fn ask(client: &Client, loaded: &Loaded, pulse: &Pulse) -> Outcome<Support> {
    let taken = pulse.during("supported operations", || client.supported(&loaded.model));
    let taken = taken.map_err(|error| Stopped::from(error).during("supported operations"))?;
    let of = loaded.model.main.operations.len();
    if taken.len() != of {
        let got = taken.len();
        return Err(Stopped::failed(format!(
            "supported operations: {got} answers to {of} operations"
        )));
    }
    let count = taken.iter().filter(|&&yes| yes).count();
    let mut support = Support { taken: count, of, partitions: 1, ops: Vec::new() };
    for (i, &taken) in taken.iter().enumerate() {
        let Some((op, types)) = loaded.operation(i) else { continue };
        let source = loaded.origins.get(i).cloned().unwrap_or_default();
        let why = if taken { String::new() } else { reason(client, loaded, i) };
        let (shapes, device) = (loaded.shapes(i), String::new());
        support.ops.push(OpSupport { i, op, source, types, shapes, taken, why, device });
    }
    if count < of {
        partition(client, loaded, &mut support);
    }
    Ok(support)
}

/// The reason of a refusal. NNAPI's question has only a yes or no for an answer: what can be said
/// is whether the model asks for a later version than the driver's.
fn reason(client: &Client, loaded: &Loaded, index: usize) -> String {
    let device_version = client.device().map(Device::version_of_hal);
    let operation = loaded.model.main.operations.get(index);
    let since = operation.and_then(|operation| operation_since(operation, &loaded.model.main).ok());
    match device_version.zip(since) {
        Some((has, needs)) if needs > has => {
            format!("refused: it needs HAL {needs:?}, the driver speaks {has:?}")
        }
        _ => "refused".to_owned(),
    }
}

/// Which device computes what where the driver takes a part.
fn partition(client: &Client, loaded: &Loaded, support: &mut Support) {
    support.partitions = 0;
    let Some(device) = client.device() else { return };
    let devices = [device.clone(), Device::reference()];
    let Ok(plan) = explain(&loaded.model, &devices, &CompileOptions::default()) else { return };
    support.partitions = plan.steps.len();
    for one in plan.operations.iter().filter(|one| one.graph.is_none()) {
        let Some(op) = support.ops.get_mut(one.operation) else { continue };
        let device = one.device.and_then(|at| plan.devices.get(at));
        op.device = device.cloned().unwrap_or_else(|| "interpreter".to_owned());
        if !op.taken {
            let reason = plan.reason(one);
            if !reason.is_empty() {
                op.why = format!("{}; {reason}", op.why);
            }
        }
    }
}
