//! A driver of one's own on top of the CPU driver: another name, other figures, fewer operations.
//!
//! `cargo run -p nnburst-driver-sample --example personality` serves it in the directory of
//! services, where `nnburst devices` lists it; `-- serve --fd 0` serves the one client at the other
//! end of the socket that is its standard input.
#![expect(clippy::print_stdout, reason = "a command")]

use std::sync::Arc;

use nnburst_driver::{
    CpuDriver, CpuDriverOptions, Personality, Sandbox, service, uniform_capabilities,
};
use nnburst_hal::{Capabilities, Model, Operation, OperationType, PerformanceInfo, Subgraph};
use nnburst_hal_ipc::service_dir;

/// A device that is good at convolutions and does nothing else.
#[derive(Debug)]
struct Convolver;

impl Personality for Convolver {
    fn name(&self) -> &str {
        "example-convolver"
    }

    fn capabilities(&self) -> Capabilities {
        uniform_capabilities(PerformanceInfo { exec_time: 0.5, power_usage: 0.5 })
    }

    fn takes(&self, operation: &Operation, _: &Subgraph, _: &Model) -> bool {
        matches!(operation.kind, OperationType::Conv2d | OperationType::DepthwiseConv2d)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let driver = CpuDriver::with_personality(Arc::new(Convolver), CpuDriverOptions::default());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--fd") {
        let fd = arguments.get(at + 1).ok_or("--fd needs a number")?.parse()?;
        return Ok(service::serve_inherited(&driver, fd, Some(&Sandbox::new()))?);
    }
    let serving = service::serve_in(&driver.service(), &service_dir()?, Some(&Sandbox::new()))?;
    println!("{} on {}", driver.name(), serving.path().display());
    loop {
        std::thread::park();
    }
}
