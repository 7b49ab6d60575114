//! c06: constants in a file that is mapped rather than sent, and what happens to the file
//! meanwhile.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nnburst::hal::{Access, Memory, Model, OperandLifeTime};
use serde_json::{Value, json};

use super::part::{CrashPart, events, note_case};
use super::subjects::{Subject, largest};
use crate::data::Random;
use crate::protocol::CallMode;
use crate::worker::client::{CallError, Prepared};
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

/// The fewest bytes of a constant that goes into the file; scalars stay in the model.
const LEAST: u32 = 16;

/// The damage to the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    None,
    Deleted,
    Overwritten,
    CutBefore,
    CutMeanwhile,
    CutAfter,
}

const DAMAGES: [Damage; 6] = [
    Damage::None,
    Damage::Deleted,
    Damage::Overwritten,
    Damage::CutBefore,
    Damage::CutMeanwhile,
    Damage::CutAfter,
];

impl Damage {
    fn name(self) -> &'static str {
        match self {
            Self::None => "left alone",
            Self::Deleted => "deleted",
            Self::Overwritten => "overwritten meanwhile",
            Self::CutBefore => "cut before it is compiled",
            Self::CutMeanwhile => "cut while it is compiled",
            Self::CutAfter => "cut after it is compiled",
        }
    }

    /// Returns whether the model has to work all the same.
    fn is_harmless(self) -> bool {
        matches!(self, Self::None | Self::Deleted)
    }
}

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = largest(part)?;
    let system = |error: std::io::Error| Stopped::failed(format!("the model's file: {error}"));
    let dir = tempfile::tempdir_in(crate::worker::memory_folder()).map_err(system)?;
    // The model of the same client that keeps its constants for itself.
    let witness = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let mut random = Random(part.job.seed);
    let (bytes, starts) = constants(&subject.loaded.model)?;
    let begun = Instant::now();
    let mut done = 0_usize;
    while begun.elapsed() < Duration::from_millis(part.work.ms) || done < DAMAGES.len() {
        let Some(&damage) = DAMAGES.get(done % DAMAGES.len()) else { break };
        note_case(json!({"file": damage.name(), "number": done, "seed": part.job.seed}));
        let path = dir.path().join("constants");
        std::fs::write(&path, &bytes).map_err(system)?;
        let file = File::options().read(true).write(true).open(&path).map_err(system)?;
        let own = file.try_clone().map_err(system)?.into();
        let model = mapped(&subject.loaded.model, own, bytes.len(), &starts)?;
        let place = Place { file: &file, path: &path, bytes: bytes.len() };
        attempt(part, &subject, &model, damage, &place, random.below(2000))?;
        let good = answer(part, &subject, &witness, "the client's other model")?;
        if !good {
            return Err(Stopped::failed(format!(
                "the client's other model answers wrongly after a file was {}",
                damage.name()
            )));
        }
        done += 1;
    }
    super::mutations::still_right(part)?;
    Ok(events(u64::try_from(done).unwrap_or(0)))
}

/// All constants of a model one after the other, and where each pool begins.
fn constants(model: &Model) -> Outcome<(Vec<u8>, Vec<u32>)> {
    let mut bytes = model.operand_values.clone();
    let mut starts = Vec::new();
    for pool in &model.pools {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        starts.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let failed = |error| CallError::from(nnburst::RuntimeError::from(error));
        let mapping = pool.map(Access::Read).map_err(failed)?;
        let whole = mapping.view(0..mapping.len());
        bytes.extend(whole.map_or_else(Vec::new, |view| view.to_vec()));
    }
    Ok((bytes, starts))
}

/// The model with its large constants in a file, which has them all; pools begin at `starts`.
fn mapped(model: &Model, file: OwnedFd, bytes: usize, starts: &[u32]) -> Outcome<Model> {
    let mut model = model.clone();
    let size = u64::try_from(bytes).unwrap_or(u64::MAX);
    let memory = Memory::from_fd(file, 0, size, false);
    let memory = memory.map_err(|error| CallError::from(nnburst::RuntimeError::from(error)))?;
    for operand in &mut model.main.operands {
        let start = match operand.lifetime {
            OperandLifeTime::ConstantCopy if operand.location.length >= LEAST => 0,
            OperandLifeTime::ConstantReference => {
                let pool = usize::try_from(operand.location.pool_index).unwrap_or(usize::MAX);
                starts.get(pool).copied().unwrap_or(0)
            }
            _ => continue,
        };
        operand.lifetime = OperandLifeTime::ConstantReference;
        operand.location.pool_index = 0;
        operand.location.offset = operand.location.offset.saturating_add(start);
    }
    model.pools = vec![memory];
    Ok(model)
}

/// The file of a model's constants.
struct Place<'a> {
    file: &'a File,
    path: &'a Path,
    bytes: usize,
}

/// Compiles and runs the model while its file is damaged. It may be refused; it may not take the
/// driver along, and where the file keeps its bytes it is right.
fn attempt(
    part: &CrashPart<'_>,
    subject: &Subject,
    model: &Model,
    damage: Damage,
    place: &Place<'_>,
    delay_us: u32,
) -> Outcome<()> {
    let cut = || {
        // Nothing hangs on it: a file that can't be cut is one that is left alone.
        let _ = place.file.set_len(u64::try_from(place.bytes / 3).unwrap_or(0));
    };
    match damage {
        Damage::Deleted => {
            let _ = std::fs::remove_file(place.path);
        }
        Damage::CutBefore => cut(),
        _ => {}
    }
    let prepared = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_micros(delay_us.into()));
            match damage {
                Damage::CutMeanwhile => cut(),
                Damage::Overwritten => {
                    let _ = std::fs::write(place.path, vec![0x55; place.bytes]);
                }
                _ => {}
            }
        });
        part.client.prepare(model, part.pulse)
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return refused(damage, error),
    };
    if damage == Damage::CutAfter {
        cut();
    }
    let name = format!("a model whose file is {}", damage.name());
    match answer(part, subject, &prepared, &name) {
        Ok(false) if damage.is_harmless() => {
            Err(Stopped::failed(format!("{name}: a wrong answer")))
        }
        Ok(_) => Ok(()),
        Err(failed) if damage.is_harmless() => Err(failed),
        // The client that cut its own file may fail; the driver is asked for more afterwards.
        Err(_) => Ok(()),
    }
}

/// A refusal is a driver's right where the file was damaged; its death is not.
fn refused(damage: Damage, error: CallError) -> Outcome<()> {
    if damage.is_harmless() || error.is_lost {
        return Err(Stopped::from(error).during(format!("a file {}", damage.name())));
    }
    Ok(())
}

/// Runs a model on the first inputs, and returns whether the answer is right.
fn answer(
    part: &CrashPart<'_>,
    subject: &Subject,
    prepared: &Prepared,
    what: &str,
) -> Outcome<bool> {
    let named = |error: CallError| Stopped::from(error).during(what);
    let session = prepared.session(CallMode::Sync).map_err(named)?;
    let mut sequence = Sequence::new(&subject.loaded, session);
    let Some(feed) = subject.feeds.first() else { return Ok(true) };
    let got = sequence.run(feed, part.pulse).map_err(named)?;
    Ok(subject.check(0, &got, CallMode::Sync).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Loaded, ModelEntry};

    #[test]
    fn large_constants_lie_in_the_file_and_small_ones_in_the_model() {
        let entry = ModelEntry { id: "mobilenet_v1_0.25_128".to_owned(), ..ModelEntry::default() };
        let model = Loaded::open(&entry, false, false).unwrap().model;
        let (bytes, starts) = constants(&model).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let file = file.reopen().unwrap().into();
        let changed = mapped(&model, file, bytes.len(), &starts).unwrap();
        let large = changed.main.operands.iter().filter(|one| one.location.length >= LEAST);
        let is_mapped = |one: &&nnburst::hal::Operand| {
            one.lifetime == OperandLifeTime::ConstantReference && one.location.pool_index == 0
        };
        assert!(large.clone().count() > 20 && large.clone().all(|one| is_mapped(&one)));
        nnburst::hal::validate_model(&changed, nnburst::hal::Version::V1_3).unwrap();
    }
}
