//! `nnburst serve`: a driver in this process, for others.

use std::io::Write;

use nnburst::{DriverOptions, ServiceManager};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::serving::{Serving, Source};
use crate::session::driver_options;

/// Serves until a signal comes, or the one client of an inherited socket disconnects.
pub(crate) fn serve(args: &ServeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(fd) = args.fd {
        let fd = u32::try_from(fd).map_err(|_| Failure::usage(format!("--fd {fd} is negative")))?;
        let options = options(args, &Serving::default());
        return Ok(nnburst::serve_inherited(&args.driver, fd, &options)?);
    }
    let mut source = Source::new(args.config.as_deref(), &args.set)?;
    let begun = source.load()?;
    let mut options = options(args, &begun);
    options.readable = source.readable();
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
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    // Before the sandbox, which has no new sockets.
    let manager = ServiceManager::of_process();
    let service = nnburst::serve_alone(&args.driver, &options)?;
    source.close();
    if let Some(manager) = &manager {
        manager.watch(&service)?;
        manager.ready();
    }
    writeln!(out, "{} serves on {}", args.driver, service.path().display())?;
    out.flush()?;
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        manager.iter().for_each(ServiceManager::reloading);
        reload(&mut source, &begun, &service);
        manager.iter().for_each(ServiceManager::ready);
    }
    if let Some(manager) = &manager {
        manager.stopping();
    }
    // Dropping the service removes its socket and lets go of its clients.
    drop(service);
    Ok(())
}

fn options(args: &ServeArgs, serving: &Serving) -> DriverOptions {
    let threads = args.threads.or(serving.threads).unwrap_or(1);
    let mut options = driver_options(threads, args.hint);
    options.without_sandbox = args.no_sandbox;
    options.limits = serving.limits.clone();
    options.idle = serving.idle;
    options
}

/// Reads the configuration again. One with a mistake changes nothing.
fn reload(source: &mut Source, begun: &Serving, service: &nnburst::Serving) {
    const TARGET: &str = "nnburst::serve";
    match source.load() {
        Err(Failure { message, .. }) => {
            tracing::error!(target: TARGET, mistake = message, "the configuration stays as it was");
        }
        Ok(serving) => {
            for setting in serving.needing_restart(begun) {
                tracing::warn!(target: TARGET, setting, "takes effect with the next start");
            }
            service.set_limits(serving.limits);
            let file = source.file().map(|file| file.display().to_string());
            tracing::info!(target: TARGET, file, "the configuration was read again");
        }
    }
}
