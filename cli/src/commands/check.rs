//! `nnburst check`: which operations of a model a device takes, and why not the others.

use std::io::Write;

use nnburst::hal::{Operation, Version, validate_model};
use nnburst::{CompileOptions, Device, explain};
use serde::Serialize;

use crate::args::{CheckArgs, Engine, ModeArg, WaitArg};
use crate::failure::Failure;
use crate::session::open_device;
use crate::source::ModelSource;
use crate::table::TextTable;

/// The report of an operation.
#[derive(Debug, Serialize)]
struct Verdict {
    index: usize,
    operation: String,
    /// Its source in the model's file.
    source: String,
    taken: bool,
    why: String,
}

/// Asks the device, and fails if it refuses anything.
pub(crate) fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let source = ModelSource::choose(&args.model, &args.import)?;
    let device = match &args.devices[..] {
        [] => Some(open(args.device.as_deref().unwrap_or("embedded"))?),
        _ => None,
    };
    let source = match &device {
        Some(device) => source.instead_for(device)?.unwrap_or(source),
        None => source,
    };
    validate_model(&source.model, Version::V1_3)
        .map_err(|error| Failure::check(format!("{}: {error}", source.name)))?;
    let Some(device) = device else { return spread(&source, args, out) };
    let taken = device.supported_operations(&source.model)?;
    let operations = source.model.main.operations.iter();
    let verdicts: Vec<Verdict> = operations
        .zip(taken.iter().chain(std::iter::repeat(&false)))
        .enumerate()
        .map(|(index, (operation, &taken))| Verdict {
            index,
            operation: operation.kind.to_string(),
            source: source.origins.get(index).cloned().unwrap_or_default(),
            taken,
            why: if taken { String::new() } else { why(&source, operation) },
        })
        .collect();
    let refused = verdicts.iter().filter(|verdict| !verdict.taken).count();
    if args.json {
        let line = serde_json::json!({
            "model": source.name, "device": device.name(), "taken": verdicts.len() - refused,
            "refused": refused, "operations": verdicts,
        });
        writeln!(out, "{line}")?;
    } else {
        print(&verdicts, refused, device.name(), out)?;
    }
    if refused > 0 {
        let (all, device) = (verdicts.len(), device.name());
        return Err(Failure::check(format!("{device} refuses {refused} of {all} operations")));
    }
    Ok(())
}

fn open(name: &str) -> Result<Device, Failure> {
    open_device(&Engine::plain(Some(name.to_owned()), ModeArg::Sync, WaitArg::Block))
}

/// Prints the partitioning of the model over several devices.
fn spread(source: &ModelSource, args: &CheckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let devices: Vec<Device> =
        args.devices.iter().map(|name| open(name)).collect::<Result<_, _>>()?;
    let plan = explain(&source.model, &devices, &CompileOptions::default())?;
    let home = |device: Option<usize>| {
        device.and_then(|at| plan.devices.get(at)).map_or("interpreter", String::as_str)
    };
    if args.json {
        let operations: Vec<_> = plan
            .operations
            .iter()
            .map(|one| {
                serde_json::json!({
                    "graph": one.graph, "index": one.operation, "operation": one.kind.to_string(),
                    "device": home(one.device), "why": plan.reason(one),
                })
            })
            .collect();
        let steps: Vec<_> = plan
            .steps
            .iter()
            .map(|step| {
                serde_json::json!({
                    "kind": format!("{:?}", step.kind), "device": step.device.map(|at| home(Some(at))),
                    "graph": step.graph, "operations": step.operations,
                })
            })
            .collect();
        let line = serde_json::json!({
            "model": source.name, "devices": plan.devices, "simple": plan.is_simple(),
            "operations": operations, "steps": steps,
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    write!(out, "{plan}")?;
    let count = plan.operations.len();
    match plan.steps.as_slice() {
        [only] => writeln!(out, "all of {count} operations on {}", home(only.device))?,
        steps => writeln!(out, "{count} operations in {} steps", steps.len())?,
    }
    Ok(())
}

fn print(
    verdicts: &[Verdict],
    refused: usize,
    device: &str,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut table = TextTable::new(&["operation", "number", "from", "taken", "why"]);
    for verdict in verdicts {
        table.row([
            verdict.operation.clone(),
            verdict.index.to_string(),
            verdict.source.clone(),
            if verdict.taken { "yes" } else { "no" }.to_owned(),
            verdict.why.clone(),
        ]);
    }
    write!(out, "{table}")?;
    writeln!(out, "{device} takes {} of {} operations", verdicts.len() - refused, verdicts.len())?;
    Ok(())
}

/// Returns the reason that a device can't give itself: the operation with the types of its
/// operands, so that the reader can look up who supports it, and since when.
fn why(source: &ModelSource, operation: &Operation) -> String {
    let operand = |&index: &u32| {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        source.model.main.operands.get(at)
    };
    let types: Vec<_> =
        operation.inputs.iter().filter_map(operand).map(|o| o.kind.name()).collect();
    format!("refused by the driver for ({})", types.join(", "))
}
