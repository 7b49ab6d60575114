//! `nnburst top` and `nnburst dump`: the services that run, their clients, and what those execute.

mod csv;
mod report;
mod text;

use std::io::{IsTerminal, Write};

use crate::args::{DumpArgs, FormatArgs, TopArgs};
use crate::failure::Failure;

pub(crate) use report::{ClientReport, Looker, ServiceReport, WorkReport};

/// Renews a look until it is stopped.
pub(crate) fn top(args: &TopArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut looker = Looker::default();
    let clears = args.format == FormatArgs::default() && std::io::stdout().is_terminal();
    let mut looks = 0;
    loop {
        let reports = looker.look(args.service.as_deref())?;
        if clears {
            // To the upper left corner, and nothing below it.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        print(&reports, args.format, looks == 0, out)?;
        out.flush()?;
        looks += 1;
        if args.rounds.is_some_and(|rounds| looks >= rounds) {
            return Ok(());
        }
        std::thread::sleep(args.interval);
    }
}

/// Prints what there is now.
pub(crate) fn dump(args: &DumpArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut looker = Looker::default();
    let mut reports = looker.look(args.service.as_deref())?;
    if let Some(window) = args.window {
        std::thread::sleep(window);
        reports = looker.look(args.service.as_deref())?;
    }
    print(&reports, args.format, true, out)
}

fn print(
    reports: &[ServiceReport],
    format: FormatArgs,
    is_first: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if format.csv {
        return csv::print(reports, is_first, out);
    }
    for report in reports {
        if format.json {
            let line = serde_json::to_string(report)
                .map_err(|error| Failure::check(format!("the report: {error}")))?;
            writeln!(out, "{line}")?;
        } else {
            text::print(report, out)?;
        }
    }
    Ok(())
}
