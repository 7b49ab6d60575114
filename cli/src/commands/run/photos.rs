//! A folder of photos, classified one after the other.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Series, picture, write_report};
use crate::args::RunArgs;
use crate::failure::{Failure, not_readable, warn};
use crate::stats::Latencies;

/// Endings of the names of photos.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// The photos of a folder, by name.
pub(super) fn find(dir: &Path, args: &RunArgs) -> Result<Vec<PathBuf>, Failure> {
    let shown = dir.display();
    if args.steps != 1 || args.reset_every.is_some() {
        return Err(Failure::usage(format!(
            "--image {shown}: each photo of a folder is a step of its own; leave --steps and \
             --reset-every out"
        )));
    }
    let entries = std::fs::read_dir(dir).map_err(|error| not_readable(dir, &error))?;
    let is_photo = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending.to_lowercase().as_str()))
    };
    let mut photos: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_photo).collect();
    if photos.is_empty() {
        let endings = ENDINGS.join(", .");
        return Err(Failure::usage(format!(
            "--image {shown}: no photo in it; their names are to end in .{endings}"
        )));
    }
    photos.sort();
    Ok(photos)
}

/// Classifies all photos. One that can't be read is told, and doesn't keep the others from it.
pub(super) fn classify(
    series: &mut Series<'_>,
    photos: &[PathBuf],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (at, operand) =
        series.source.inputs().next().map(|(at, operand)| (at, operand.clone())).ok_or_else(
            || Failure::usage(format!("{}: no input for photos", series.source.name)),
        )?;
    let mut unread = 0;
    for photo in photos {
        let bytes = match picture(photo, &operand) {
            Ok(bytes) => bytes,
            Err(failure) => {
                warn(&failure.message);
                unread += 1;
                continue;
            }
        };
        series.session.reset()?;
        series.session.write(at, &bytes)?;
        let latency = series.step()?;
        let mut report = series.report(Some(photo.display().to_string()));
        let mut own = Latencies::new()?;
        own.record(latency);
        report.latency_us = own.summary();
        write_report(series.args, &report, out)?;
    }
    series.write_outputs()?;
    series.verdict()?;
    match unread {
        0 => Ok(()),
        unread => Err(Failure::check(format!("{unread} of {} photos were not read", photos.len()))),
    }
}
