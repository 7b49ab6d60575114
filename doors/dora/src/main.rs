//! A node of dora-rs that infers the newest frame of each source, and the nodes around it.
//!
//! ```text
//!   camera ─► deal ─┬─► infer (machine A) ─┬─► sink: order, age, report
//!                   ├─► infer (machine B) ─┤
//!                   └─► infer (machine C) ─┘
//! ```
//!
//! | role | purpose |
//! |---|---|
//! | [`infer`] | a model's results for the newest frame of each source |
//! | [`deal`] | deals frames to the least loaded of several nodes, by credit |
//! | [`sink`] | restores the order of results, and reports their age |
//! | [`camera`] | photos of a folder, or noise, as frames at a rate |
//! | [`simulate`] | the same dealing over time that is only counted, for many nodes |
//!
//! No node buffers: a frame that can't be taken at once waits until a newer one of its source
//! takes its place, and each that was dropped is counted.
#![forbid(unsafe_code)]

mod camera;
mod deal;
mod infer;
mod node;
mod settings;
mod simulate;
mod sink;
mod stamp;

use std::io::Write;
use std::process::ExitCode;

use nnburst_doors_common::Log;

/// The error that ends a role.
type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str =
    "usage: nnburst-dora-node ROLE [KEY=VALUE ..], as `path` and `args` of a node in a
dataflow of dora (see docs/machines.md)

";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let log = node::log();
    nnburst_doors_common::start_logging(&log);
    match run(&args, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String], log: &Log) -> Result<(), Failure> {
    let Some((role, args)) = args.split_first() else { return help() };
    match role.as_str() {
        "infer" => infer::run(args, log),
        "deal" => deal::run(args, log),
        "sink" => sink::run(args, log),
        "camera" => camera::run(args, log),
        "simulate" => simulate::run(args),
        // What a spawned driver's process is started with.
        "serve" => infer::serve(args),
        "help" | "--help" | "-h" => help(),
        other => Err(format!("no role is called {other:?}; see `nnburst-dora-node help`").into()),
    }
}

/// Writes every role's keys.
fn help() -> Result<(), Failure> {
    let roles = [
        ("infer", "a model's results for the newest frame of each source", infer::GRAMMAR),
        ("deal", "deals frames to the least loaded of several nodes", deal::GRAMMAR),
        ("sink", "restores the order of results, and reports their age", sink::GRAMMAR),
        ("camera", "photos of a folder, or noise, as frames at a rate", camera::GRAMMAR),
        ("simulate", "the same dealing for many nodes, in counted time", simulate::GRAMMAR),
    ];
    let mut text = USAGE.to_owned();
    for (role, purpose, grammar) in roles {
        text += &format!("{role}: {purpose}\n");
        for key in grammar.keys() {
            let default =
                if key.default.is_empty() { String::new() } else { format!(" [{}]", key.default) };
            text += &format!("  {}={}{default}\n      {}\n", key.name, key.values, key.meaning);
        }
        text.push('\n');
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
