//! `nnburst metrics`: the services that run, for Prometheus. It is a process of its own, so that no
//! driver needs a network.

mod exposition;
mod http;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::args::MetricsArgs;
use crate::commands::watch::Looker;
use crate::failure::{Failure, folder_of, not_writable, warn};

/// Prints the metrics, or has them scraped, or written to a file again and again.
pub(crate) fn metrics(args: &MetricsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let look = Look { service: args.service.clone(), without_clients: args.without_clients };
    let server =
        args.listen.map(|address| http::Server::bind(address, look.clone())).transpose()?;
    let Some(file) = &args.file else {
        return match server {
            None => Ok(write!(out, "{}", look.text()?)?),
            Some(server) => {
                announce(&server, out)?;
                server.serve();
                Ok(())
            }
        };
    };
    if file.extension().is_none_or(|extension| extension != "prom") {
        warn(&format!("{}: node_exporter reads files named *.prom only", file.display()));
    }
    if let Some(server) = server {
        announce(&server, out)?;
        std::thread::Builder::new().name("metrics".into()).spawn(move || server.serve())?;
    }
    let mut rounds = 0;
    loop {
        write_whole(file, &look.text()?)?;
        rounds += 1;
        if args.rounds.is_some_and(|most| rounds >= most) {
            return Ok(());
        }
        std::thread::sleep(args.interval);
    }
}

fn announce(server: &http::Server, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "metrics on http://{}/metrics", server.address()?)?;
    Ok(out.flush()?)
}

/// The services that are told of.
#[derive(Clone, Debug)]
struct Look {
    /// `None` for all services.
    service: Option<String>,
    without_clients: bool,
}

impl Look {
    /// The metrics now. A service that doesn't answer is among them, as one that is down.
    fn text(&self) -> Result<String, Failure> {
        let names = match &self.service {
            Some(service) => vec![service.clone()],
            None => nnburst::services()?,
        };
        let looks = names.iter().map(|name| {
            let report = Looker::default().look(Some(name));
            (name.as_str(), report.ok().and_then(|mut reports| reports.pop()))
        });
        Ok(exposition::text(&looks.collect::<Vec<_>>(), !self.without_clients))
    }
}

/// Replaces a file at once: whoever reads it finds what was there before or all that is new.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| not_writable(path, &error);
    // For the collector, who is another user.
    let readable = std::fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .prefix(".nnburst-metrics-")
        .permissions(readable)
        .tempfile_in(folder_of(path))
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
