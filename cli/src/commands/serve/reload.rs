//! `nnburst serve --reload`: what a service manager runs to reload its service.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nnburst::hal::{FileStatus, environment};

use crate::failure::Failure;

/// The option of a process that takes another's place.
const TAKE_OVER: &str = "--take-over";

/// Options that say how a process begins, not what it serves.
const BEGINNINGS: [&str; 3] = [TAKE_OVER, "--reload", "--calibrate"];

/// Has the manager's process read its settings again or, where the program was replaced since that
/// began, starts the program with this process's arguments to take that process's place, and waits
/// until it serves. If it doesn't, the one that serves goes on.
///
/// The arguments of the process that serves are in its own memory, where a client that has taken it
/// over could write `--no-sandbox`: they are compared, and not used.
pub(super) fn reload(out: &mut dyn Write) -> Result<(), Failure> {
    let main = main_process()?;
    if is_same_program(main)? {
        return kill(main, Signal::SIGHUP)
            .map_err(|errno| Failure::check(format!("SIGHUP to the process {main}: {errno}")));
    }
    let theirs = std::fs::read(format!("/proc/{main}/cmdline"))
        .map_err(|error| Failure::check(format!("the arguments of the process {main}: {error}")))?;
    let ours = lasting(std::env::args_os().skip(1));
    if ours != lasting(arguments(&theirs)) {
        let why = "the process that serves has other arguments: give ExecReload= those of \
                   ExecStart=, in their order, and restart the service";
        return Err(Failure::check(why));
    }
    succeed(&ours, out)
}

/// The process that the manager takes for the service's.
fn main_process() -> Result<Pid, Failure> {
    let named = environment("MAINPID").and_then(|value| value.to_str()?.parse().ok());
    named.filter(|&pid| pid > 1).map(Pid::from_raw).ok_or_else(|| {
        let why = "--reload is for a service manager, which names its process in MAINPID \
                   (ExecReload=); send SIGHUP to a service that was started otherwise";
        Failure::usage(why)
    })
}

/// Returns whether a process runs the file that this one runs.
fn is_same_program(process: Pid) -> Result<bool, Failure> {
    let identity = |path: String| {
        let file = std::fs::File::open(&path).and_then(|file| Ok(FileStatus::of(&file)?.identity));
        file.map_err(|error| Failure::check(format!("the program {path}: {error}")))
    };
    Ok(identity(format!("/proc/{process}/exe"))? == identity("/proc/self/exe".into())?)
}

/// The arguments of a process, after its own name.
fn arguments(line: &[u8]) -> impl Iterator<Item = OsString> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    line.split(|&byte| byte == 0).skip(1).map(|argument| OsString::from_vec(argument.to_vec()))
}

/// The arguments that a process and its successor have in common.
fn lasting(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    arguments.filter(|argument| !BEGINNINGS.iter().any(|option| argument == option)).collect()
}

fn succeed(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    // It says on its standard output that it serves; what goes wrong goes to the log.
    let mut successor = Command::new(program)
        .args(arguments)
        .arg(TAKE_OVER)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    if let Some(output) = successor.stdout.take() {
        BufReader::new(output).read_line(&mut said)?;
    }
    if !said.is_empty() {
        out.write_all(said.as_bytes())?;
        return Ok(());
    }
    let ended = successor.wait()?;
    let why = format!("the program of now doesn't serve ({ended}); the process before goes on");
    Err(Failure::check(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_process_began_is_none_of_its_successor() {
        let line = b"/usr/bin/nnburst\0serve\0--driver\0nnburst-cpu\0--set\0user.models=\0";
        let wanted = ["serve", "--driver", "nnburst-cpu", "--set", "user.models="];
        assert_eq!(lasting(arguments(line)), wanted);
        let again = b"nnburst\0serve\0--take-over\0--calibrate\0--driver\0nnburst-cpu\0";
        let reload = ["serve", "--reload", "--driver", "nnburst-cpu"].map(OsString::from);
        assert_eq!(lasting(arguments(again)), lasting(reload.into_iter()));
        // What was overwritten and is shorter now.
        let padded = b"nnburst\0serve\0--driver\0nnburst-cpu\0\0\0";
        assert_ne!(lasting(arguments(padded)), lasting(arguments(again)));
    }
}
