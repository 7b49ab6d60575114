//! `nnburst serve`: a driver in this process, for others.

mod reload;

use std::io::Write;
use std::time::Duration;

use nnburst::hal::process;
use nnburst::{DriverOptions, ServiceManager, Succession};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::serving::{Serving, Source};
use crate::session::driver_options;

/// The target of the log's entries.
const TARGET: &str = "nnburst::serve";

/// Serves until a signal comes, the one client of an inherited socket disconnects, or
/// another process has taken the name over and the clients have gone.
pub(crate) fn serve(args: &ServeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.reload {
        return reload::reload(out);
    }
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
        if service.has_succeeded() {
            manager.succeeded();
        } else {
            manager.ready();
        }
    }
    writeln!(out, "{} serves on {}", args.driver, service.path().display())?;
    out.flush()?;
    let (succession, handle) = (service.succession(), signals.handle());
    let draining = succession.clone();
    process::spawn("nnburst-drain", move || {
        drain(&draining, begun.drain);
        // Ends the wait for signals below.
        handle.close();
    })?;
    // A successor speaks for the service.
    let manager = || manager.iter().filter(|_| !succession.has_begun());
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        manager().for_each(ServiceManager::reloading);
        read_again(&mut source, &begun, &service);
        manager().for_each(ServiceManager::ready);
    }
    manager().for_each(ServiceManager::stopping);
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
    options.takes_over = args.take_over;
    options
}

/// Waits until another process has the driver's name, and then until the clients that are here
/// have left, or `limit` has passed.
fn drain(succession: &Succession, limit: Option<Duration>) {
    succession.wait();
    let clients = succession.clients();
    tracing::info!(target: TARGET, clients, "another process has the name; this one ends after its clients");
    let left = succession.wait_for_clients(limit.unwrap_or(Duration::MAX));
    if left > 0 {
        tracing::warn!(target: TARGET, clients = left, setting = "drain", "clients are disconnected");
    }
}

/// Reads the configuration again. One with a mistake changes nothing.
fn read_again(source: &mut Source, begun: &Serving, service: &nnburst::Serving) {
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
