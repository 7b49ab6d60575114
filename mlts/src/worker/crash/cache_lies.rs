//! c20: cache files that were cut, changed or exchanged give an error or a right model.

use std::path::Path;

use serde_json::{Value, json};

use super::part::{CrashPart, events};
use super::subjects::largest;
use crate::data::Random;
use crate::protocol::CallMode;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let caches = part.client.about().is_ok_and(|about| about.cache_files > 0);
    if !caches {
        return Err(Stopped::Skipped("not offered: caching".to_owned()));
    }
    let subject = largest(part)?;
    let system = |error: std::io::Error| Stopped::failed(format!("the cache's files: {error}"));
    let dir = tempfile::tempdir().map_err(system)?;
    drop(part.client.prepare_into(&subject.loaded.model, dir.path(), part.pulse)?);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir.path()).map_err(system)? {
        let path = entry.map_err(system)?.path();
        files.push((path.clone(), std::fs::read(&path).map_err(system)?));
    }
    files.sort();
    if files.is_empty() {
        return Err(Stopped::Skipped(
            "not offered: the driver wrote nothing to its cache".to_owned(),
        ));
    }
    let mut random = Random(part.job.seed);
    let (mut refused, mut loaded) = (0_u64, 0_u64);
    for number in 0..part.work.count {
        let Some((path, good)) = files.get(random.index(files.len())) else { break };
        let (what, bad) = damage(good, &mut random);
        std::fs::write(path, &bad).map_err(system)?;
        let case =
            json!({"file": name(path), "damage": what, "number": number, "seed": part.job.seed});
        super::part::note_case(case.clone());
        match part.client.load(&subject.loaded.model, dir.path(), part.pulse) {
            Err(error) if error.is_lost => {
                return Err(Stopped::Failed(format!("{what}: {error}"), case));
            }
            Err(_) => refused += 1,
            Ok(prepared) => {
                let mut sequence =
                    Sequence::new(&subject.loaded, prepared.session(CallMode::Sync)?);
                if let Some(feed) = subject.feeds.first() {
                    let got = sequence.run(feed, part.pulse)?;
                    let wrong = subject.check(0, &got, CallMode::Sync);
                    wrong.map_err(|stopped| stopped.during(format!("a cache {what}")))?;
                }
                loaded += 1;
            }
        }
        std::fs::write(path, good).map_err(system)?;
    }
    drop(
        part.client
            .load(&subject.loaded.model, dir.path(), part.pulse)
            .map_err(|error| Stopped::from(error).during("the undamaged cache"))?,
    );
    let mut value = events(refused + loaded);
    if let Some(object) = value.as_object_mut() {
        object.insert("refused".to_owned(), json!(refused));
        object.insert("loaded".to_owned(), json!(loaded));
    }
    Ok(value)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The bytes cut short, with a bit turned, a part of zeros, or a tail of its own beginning.
fn damage(good: &[u8], random: &mut Random) -> (String, Vec<u8>) {
    let mut bad = good.to_vec();
    let at = random.index(bad.len());
    match random.below(4) {
        0 => {
            bad.truncate(at);
            (format!("cut to {at} bytes"), bad)
        }
        1 => {
            if let Some(byte) = bad.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            (format!("with a bit turned at {at}"), bad)
        }
        2 => {
            bad.iter_mut().skip(at).take(64).for_each(|byte| *byte = 0);
            (format!("with zeros at {at}"), bad)
        }
        _ => {
            let tail: Vec<u8> = good.iter().copied().take(good.len().saturating_sub(at)).collect();
            bad.truncate(at);
            bad.extend(tail);
            (format!("with its own beginning at {at}"), bad)
        }
    }
}
