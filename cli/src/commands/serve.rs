//! `nnburst serve`: a sample driver in this process, for others.

use std::io::Write;

use nnburst::ServiceManager;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::session::driver_options;

/// Serves until a signal comes, or the one client of an inherited socket disconnects.
pub(crate) fn serve(args: &ServeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut options = driver_options(args.threads, args.hint);
    options.without_sandbox = args.no_sandbox;
    if let Some(fd) = args.fd {
        let fd = u32::try_from(fd).map_err(|_| Failure::usage(format!("--fd {fd} is negative")))?;
        return Ok(nnburst::serve_inherited(&args.driver, fd, &options)?);
    }
    if args.calibrate {
        for (work, info) in nnburst::calibrate(&args.driver, &options)?.figures() {
            let (name, time, power) = (work.name(), info.exec_time, info.power_usage);
            writeln!(
                out,
                "{name}: {time:.2} of the reference device's time, {power:.2} of its processor time"
            )?;
        }
    }
    // Before the socket is there, which a signal removes.
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
    ])?;
    // Before the sandbox, which has no new sockets.
    let manager = ServiceManager::of_process();
    let service = nnburst::serve_alone(&args.driver, &options)?;
    if let Some(manager) = &manager {
        manager.watch(&service)?;
        manager.ready();
    }
    writeln!(out, "{} serves on {}", args.driver, service.path().display())?;
    out.flush()?;
    signals.forever().next();
    if let Some(manager) = &manager {
        manager.stopping();
    }
    // Dropping the service removes its socket and lets go of its clients.
    drop(service);
    Ok(())
}
