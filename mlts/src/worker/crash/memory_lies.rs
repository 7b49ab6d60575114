//! c12: the memory of a request is cut short, overwritten or sealed while it is in use; buffers of
//! the driver are used for what they were not made for.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::libc::off_t;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::uio::pwrite;
use nix::unistd::ftruncate;
use nnburst::hal::{
    Access, BufferDesc, BufferRole, ExecutionOptions, Memory, Request, RequestPool,
};
use nnburst::{BurstOptions, RuntimeError};
use serde_json::{Value, json};

use super::mutations::{prepare, request_of, still_right};
use super::part::{CrashPart, events, note_case};
use super::subjects::{Subject, largest};
use crate::data::Random;
use crate::worker::client::CallError;
use crate::worker::outcome::{Outcome, Stopped};

/// The fault of a memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    CutBefore,
    CutInFlight,
    WrittenInFlight,
    OutputCutInFlight,
    OutputReadOnly,
    SealedAndRight,
}

const LIES: [Lie; 6] = [
    Lie::CutBefore,
    Lie::CutInFlight,
    Lie::WrittenInFlight,
    Lie::OutputCutInFlight,
    Lie::OutputReadOnly,
    Lie::SealedAndRight,
];

impl Lie {
    fn name(self) -> &'static str {
        match self {
            Self::CutBefore => "an input cut short before the call",
            Self::CutInFlight => "an input cut short in flight",
            Self::WrittenInFlight => "an input written in flight",
            Self::OutputCutInFlight => "an output cut short in flight",
            Self::OutputReadOnly => "an output sealed against writing",
            Self::SealedAndRight => "an input sealed against everything",
        }
    }

    /// Returns whether success is impossible.
    fn must_fail(self) -> bool {
        matches!(self, Self::CutBefore | Self::OutputReadOnly)
    }
}

/// The two memories of a request, unsealed, and the request over them.
struct Unsealed {
    input: OwnedFd,
    output: OwnedFd,
    request: Request,
}

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let Some(device) = part.client.device() else {
        return Err(Stopped::Skipped("not offered: memory that the C functions map".to_owned()));
    };
    let subject = largest(part)?;
    let compilation = device.compile(&subject.loaded.model, nnburst::PrepareOptions::default());
    let compilation = compilation.map_err(CallError::from)?;
    let mut burst = compilation.burst(&BurstOptions::default()).map_err(CallError::from)?;
    let sealed = request_of(&subject)?;
    let begun = Instant::now();
    let right = |request: &Request| compilation.execution().compute_request(request);
    part.pulse.during("execute", || right(&sealed)).map_err(CallError::from)?;
    let typical = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX).max(50);
    let mut random = Random(part.job.seed);
    for number in 0..part.work.count {
        let Some(&lie) = LIES.get(number % LIES.len()) else { break };
        let is_burst = number / LIES.len() % 2 == 1;
        let how = if is_burst { "burst" } else { "sync" };
        let case = json!({"memory": lie.name(), "mode": how, "number": number});
        note_case(case.clone());
        let memories = unsealed(&sealed, lie)?;
        let delay = Duration::from_micros(random.below(typical).into());
        let result = std::thread::scope(|scope| {
            scope.spawn(|| spoil_in_flight(&memories, lie, delay));
            part.pulse.during("execute", || {
                if is_burst {
                    burst.compute_request(&memories.request, &ExecutionOptions::default()).map(drop)
                } else {
                    right(&memories.request).map(drop)
                }
            })
        });
        judge(lie, how, result).map_err(|why| Stopped::Failed(why, case))?;
    }
    let rest = part.pulse.during("execute", || right(&sealed)).map_err(CallError::from);
    rest.map_err(|error| Stopped::from(error).during("the same model afterwards"))?;
    let buffers = buffers_of_other_roles(part, &subject)?;
    still_right(part)?;
    let mut value = events(u64::try_from(part.work.count).unwrap_or(0));
    if let Some(object) = value.as_object_mut() {
        object.insert("buffers".to_owned(), json!(buffers));
    }
    Ok(value)
}

fn judge(lie: Lie, how: &str, result: Result<(), RuntimeError>) -> Result<(), String> {
    let (name, result) = (lie.name(), result.map_err(CallError::from));
    match result {
        Ok(()) if lie.must_fail() => Err(format!("{name}, {how}: success, expected an error")),
        Err(error) if error.is_lost => Err(format!("{name}, {how}: {}: {error}", error.status)),
        Err(error) if lie == Lie::SealedAndRight => {
            Err(format!("{name}, {how}: {}: {error}", error.status))
        }
        _ => Ok(()),
    }
}

/// The request over memories of files that nothing protects, but for the seals that are the lie.
fn unsealed(request: &Request, lie: Lie) -> Outcome<Unsealed> {
    let memory_of = |at: usize| match request.pools.get(at) {
        Some(RequestPool::Memory(memory)) => Ok(memory.clone()),
        _ => Err(Stopped::failed("a request without memories")),
    };
    let (input, _) = copy_of(&memory_of(0)?)?;
    let (output, size) = copy_of(&memory_of(1)?)?;
    match lie {
        Lie::OutputReadOnly => seal(&output, SealFlag::F_SEAL_WRITE)?,
        Lie::SealedAndRight => {
            seal(&input, SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW)?;
        }
        _ => {}
    }
    let of = |fd: &OwnedFd, size: u64, writable: bool| {
        let fd = fd.as_fd().try_clone_to_owned();
        let fd = fd.map_err(|error| Stopped::failed(error.to_string()))?;
        Memory::from_fd(fd, 0, size, writable)
            .map_err(|error| Stopped::from(CallError::from(RuntimeError::from(error))))
    };
    let full = memory_of(0)?.size();
    // The client's library looks at the file's length: it is cut once that is over.
    let first = of(&input, full, lie != Lie::SealedAndRight)?;
    if lie == Lie::CutBefore {
        ftruncate(&input, 0).map_err(system)?;
    }
    let pools = vec![RequestPool::Memory(first), RequestPool::Memory(of(&output, size, true)?)];
    Ok(Unsealed { input, output, request: Request { pools, ..request.clone() } })
}

fn system(errno: Errno) -> Stopped {
    Stopped::failed(format!("a memory of the suite's: {}", std::io::Error::from(errno)))
}

fn seal(file: &OwnedFd, seals: SealFlag) -> Outcome<()> {
    fcntl(file, FcntlArg::F_ADD_SEALS(seals)).map(drop).map_err(system)
}

/// A file with the bytes of a memory, and its size.
fn copy_of(memory: &Memory) -> Outcome<(OwnedFd, u64)> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create(c"nnburst-mlts", flags).map_err(system)?;
    let failed = |error: nnburst::hal::MemoryError| {
        Stopped::from(CallError::from(RuntimeError::from(error)))
    };
    let mapping = memory.map(Access::Read).map_err(failed)?;
    let bytes = mapping.view(0..mapping.len()).map_or_else(Vec::new, |view| view.to_vec());
    let mut file = File::from(fd);
    std::io::Write::write_all(&mut file, &bytes)
        .map_err(|error| Stopped::failed(format!("a memory of the suite's: {error}")))?;
    Ok((file.into(), memory.size()))
}

/// Does to the memory what the lie is, after a delay, while the call is under way.
fn spoil_in_flight(memories: &Unsealed, lie: Lie, delay: Duration) {
    std::thread::sleep(delay);
    // What fails here leaves the memory as it was, and the call right.
    match lie {
        Lie::CutInFlight => {
            let _ = ftruncate(&memories.input, 0);
        }
        Lie::OutputCutInFlight => {
            let _ = ftruncate(&memories.output, 0);
        }
        Lie::WrittenInFlight => {
            for round in 0..8_u8 {
                let noise = [round.wrapping_mul(37); 512];
                let _ = pwrite(&memories.input, &noise, off_t::from(round) * 512);
            }
        }
        Lie::CutBefore | Lie::OutputReadOnly | Lie::SealedAndRight => {}
    }
}

/// A buffer made as an input is no output, and one that nobody has written has nothing to read.
/// Returns the number of refusals; 0 where the driver has no buffers.
fn buffers_of_other_roles(part: &CrashPart<'_>, subject: &Subject) -> Outcome<u32> {
    let Some(device) = part.client.device() else { return Ok(0) };
    let prepared = prepare(part, subject.loaded.model.clone());
    let prepared = prepared.map_err(|error| Stopped::failed(error.to_string()))?;
    let models = [prepared];
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let allocated = part.pulse.during("allocate a buffer", || {
        device.hal().allocate(&BufferDesc { dimensions: Vec::new() }, &models, &[role], &[])
    });
    let Ok(buffer) = allocated else { return Ok(0) };
    let mut refusals = 0;
    for (what, is_output) in
        [("an unwritten buffer as input", false), ("an input's buffer as output", true)]
    {
        let mut request = request_of(subject)?;
        request.pools.push(RequestPool::Token(buffer.token()));
        let pool_index = u32::try_from(request.pools.len() - 1).unwrap_or(u32::MAX);
        let arguments = if is_output { &mut request.outputs } else { &mut request.inputs };
        if let Some(argument) = arguments.first_mut() {
            argument.location = nnburst::hal::DataLocation { pool_index, offset: 0, length: 0 };
        }
        let [model] = &models;
        let options = ExecutionOptions::default();
        let result =
            part.pulse.during("execute", || model.execute_synchronously(&request, options));
        match result {
            Ok(_) => return Err(Stopped::failed(format!("{what}: success, expected an error"))),
            Err(failure)
                if failure.error.status == nnburst::hal::ErrorStatus::DeviceUnavailable =>
            {
                return Err(Stopped::failed(format!("{what}: {}", failure.error)));
            }
            Err(_) => refusals += 1,
        }
    }
    Ok(refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_that_can_t_succeed_must_not() {
        assert!(judge(Lie::CutBefore, "sync", Ok(())).is_err());
        assert!(judge(Lie::CutInFlight, "sync", Ok(())).is_ok());
        let lost = || RuntimeError::from(nnburst::hal::HalError::unavailable("gone"));
        assert!(judge(Lie::CutInFlight, "burst", Err(lost())).is_err());
        let failed = || RuntimeError::from(nnburst::hal::HalError::failure("cut"));
        assert!(judge(Lie::CutInFlight, "burst", Err(failed())).is_ok());
        assert!(judge(Lie::SealedAndRight, "burst", Err(failed())).is_err());
    }
}
