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

/// Has the manager's process read its settings again or, where the program was replaced since that
/// began, starts the program with the same arguments to take that process's place, and waits until
/// it serves. If it doesn't, the one that serves goes on.
pub(super) fn reload(out: &mut dyn Write) -> Result<(), Failure> {
    let main = main_process()?;
    if is_same_program(main)? {
        return kill(main, Signal::SIGHUP)
            .map_err(|errno| Failure::check(format!("SIGHUP to the process {main}: {errno}")));
    }
    let arguments = std::fs::read(format!("/proc/{main}/cmdline"))
        .map_err(|error| Failure::check(format!("the arguments of the process {main}: {error}")))?;
    succeed(&successors_arguments(&arguments), out)
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

/// The arguments of the process that serves, after its own name, for the one that takes its place.
fn successors_arguments(line: &[u8]) -> Vec<OsString> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    let arguments = line.split(|&byte| byte == 0).skip(1);
    let arguments = arguments.filter(|argument| *argument != TAKE_OVER.as_bytes());
    let arguments = arguments.map(|argument| OsString::from_vec(argument.to_vec()));
    arguments.chain([TAKE_OVER.into()]).collect()
}

fn succeed(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    // It says on its standard output that it serves; what goes wrong goes to the log.
    let mut successor = Command::new(program)
        .args(arguments)
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
    fn a_successor_has_the_arguments_of_the_process_before() {
        let line = b"/usr/bin/nnburst\0serve\0--driver\0nnburst-cpu\0--set\0user.models=\0";
        let wanted = ["serve", "--driver", "nnburst-cpu", "--set", "user.models=", "--take-over"];
        assert_eq!(successors_arguments(line), wanted);
        let again = b"nnburst\0serve\0--take-over\0";
        assert_eq!(successors_arguments(again), ["serve", "--take-over"]);
    }
}
