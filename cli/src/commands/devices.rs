//! `nnburst devices`: what there is to run on.

use std::io::Write;

use nnburst::Device;
use serde::Serialize;

use crate::args::DevicesArgs;
use crate::failure::Failure;
use crate::table::TextTable;

/// The report of a device.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    version: String,
    r#type: &'static str,
    status: &'static str,
    /// Android API level of the newest interface that it implements.
    feature_level: i64,
    extensions: Vec<String>,
    capabilities: Capabilities,
}

/// Time and energy relative to the reference CPU, of the types that matter most.
#[derive(Debug, Serialize)]
struct Capabilities {
    float32: Performance,
    relaxed_float32: Performance,
    quant8: Performance,
}

#[derive(Debug, Serialize)]
struct Performance {
    exec_time: f32,
    power_usage: f32,
}

/// Lists the embedded device and the services that run.
pub(crate) fn devices(args: &DevicesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = TextTable::new(&[
        "device",
        "version",
        "type",
        "level",
        "status",
        "float32",
        "quant8",
        "extensions",
    ]);
    let left_out = |error: nnburst::RuntimeError| crate::failure::warn(&error.to_string());
    for device in Device::list_with(left_out) {
        let report = match describe(&device) {
            Ok(report) => report,
            Err(failure) => {
                // One dead service must not hide the others.
                crate::failure::warn(&failure.during(device.name()).message);
                continue;
            }
        };
        if args.json {
            let line = serde_json::to_string(&report)
                .map_err(|error| Failure::check(format!("the report: {error}")))?;
            writeln!(out, "{line}")?;
        } else {
            table.row([
                report.name,
                report.version,
                report.r#type.to_owned(),
                report.feature_level.to_string(),
                report.status.to_owned(),
                format!("{:.2}", report.capabilities.float32.exec_time),
                format!("{:.2}", report.capabilities.quant8.exec_time),
                if report.extensions.is_empty() { "-".into() } else { report.extensions.join(",") },
            ]);
        }
    }
    if !args.json {
        write!(out, "{table}")?;
    }
    Ok(())
}

fn describe(device: &Device) -> Result<Report, Failure> {
    use nnburst::hal::OperandType;
    let capabilities = device.capabilities()?;
    let performance = |info: nnburst::hal::PerformanceInfo| Performance {
        exec_time: info.exec_time,
        power_usage: info.power_usage,
    };
    Ok(Report {
        name: device.name().to_owned(),
        version: device.version()?,
        r#type: device.device_type()?.name(),
        status: device.status()?.name(),
        feature_level: device.feature_level(),
        extensions: device.extensions()?.into_iter().map(|extension| extension.name).collect(),
        capabilities: Capabilities {
            float32: performance(capabilities.lookup(OperandType::TensorFloat32)),
            relaxed_float32: performance(capabilities.relaxed_float32_to_float16_tensor),
            quant8: performance(capabilities.lookup(OperandType::TensorQuant8Asymm)),
        },
    })
}
