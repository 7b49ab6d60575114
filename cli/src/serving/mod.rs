//! The configuration of `nnburst serve`: a file of TOML, with single settings from the command line
//! over it.
//!
//! ```toml
//! idle = "10 s"
//!
//! [user]                  # each user, over all its clients
//! models = 16
//! memory = "1 GiB"
//!
//! [users.camera]          # one user, by name or uid: where it differs
//! realtime-bursts = 2
//!
//! [connection]            # each connection
//! bursts = 8
//! ```

mod amount;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::User;
use nnburst::ServiceLimits;
use nnburst::hal::environment;
use nnburst::hal::setting;
use nnburst::hal::trusted::{Owners, TrustError, read_trusted};

use crate::failure::Failure;
use text::Text;
pub(crate) use text::listed;

/// The system's file, read where the user has none.
const SYSTEM_FILE: &str = "/etc/nnburst/serve.toml";

/// The configuration of a service as it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serving {
    pub(crate) limits: ServiceLimits,
    pub(crate) idle: Option<Duration>,
    /// After which the clients of a process are disconnected that another has taken over from;
    /// `None`: never.
    pub(crate) drain: Option<Duration>,
    pub(crate) threads: Option<u16>,
}

impl Serving {
    /// Names what differs from `begun`, the configuration that the process began with, and takes
    /// effect with the next start only.
    pub(crate) fn needing_restart(&self, begun: &Self) -> Vec<&'static str> {
        let differing = [
            ("idle", self.idle != begun.idle),
            ("drain", self.drain != begun.drain),
            ("threads", self.threads != begun.threads),
        ];
        differing.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The places that the configuration of a service comes from, each time that it is read.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The file that was named, which has to be there.
    named: Option<PathBuf>,
    /// Settings of the command line.
    set: Text,
    /// Users that were found by their names.
    uids: BTreeMap<String, u32>,
    /// True once users are found no more: in the sandbox.
    is_closed: bool,
}

impl Source {
    /// From the file `named`, or else from the usual places, and the `NAME=VALUE`s of a command
    /// line.
    ///
    /// # Errors
    /// One of the latter is no setting or has a value that is none.
    pub(crate) fn new(named: Option<&Path>, set: &[String]) -> Result<Self, Failure> {
        let named = named.map(Path::to_owned).or_else(|| setting("serve-config").map(Into::into));
        let lines: Vec<_> = set.iter().map(|set| text::line(set)).collect();
        let set = Text::parse(&lines.join("\n"))
            .map_err(|mistake| Failure::usage(format!("--set: {}", mistake.what)))?;
        Ok(Self { named, set, ..Self::default() })
    }

    /// Reads the file, if there is one, and puts the settings of the command line over it.
    ///
    /// # Errors
    /// The file can't be read, others can write it, or something in it is no setting.
    pub(crate) fn load(&mut self) -> Result<Serving, Failure> {
        let (file, text) = self.read()?;
        let parsed = Text::parse(&text).map_err(|mistake| {
            let (file, line) = (file.display(), mistake.line);
            Failure::usage(format!("{file}:{line}: {}", mistake.what))
        })?;
        let mut uids = std::mem::take(&mut self.uids);
        let uid = |name: &str| self.uid(&mut uids, name);
        let serving = text::resolve(&[&parsed, &self.set], uid);
        self.uids = uids;
        serving.map_err(|what| Failure::usage(format!("{}: {what}", file.display())))
    }

    /// The file that is read, if there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.places().into_iter().find(|place| place.exists())
    }

    /// Returns what a sandboxed process has to be able to read so that a file can be read again:
    /// the directories of the usual places, which have nothing secret in them, or the file that was
    /// named.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        match &self.named {
            Some(named) => vec![named.clone()],
            None => {
                self.places().iter().filter_map(|place| place.parent()).map(Into::into).collect()
            }
        }
    }

    /// From now on only users are known by name who were before.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    fn places(&self) -> Vec<PathBuf> {
        if let Some(named) = &self.named {
            return vec![named.clone()];
        }
        let home = || Some(PathBuf::from(environment("HOME")?).join(".config"));
        let own = environment("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
        let own = own.map(|dir| dir.join("nnburst/serve.toml"));
        own.into_iter().chain([SYSTEM_FILE.into()]).collect()
    }

    fn read(&self) -> Result<(PathBuf, String), Failure> {
        for place in self.places() {
            match read_trusted(&place, Owners::own()) {
                Err(error) if error.is_absent() && self.named.is_none() => {}
                Err(error) => return Err(self.refused(&error)),
                Ok(text) => return Ok((place, text)),
            }
        }
        Ok((SYSTEM_FILE.into(), String::new()))
    }

    fn refused(&self, error: &TrustError) -> Failure {
        let replaced = if self.is_closed {
            "; in its sandbox the service reads the file that was there when it started: write \
             into it instead of replacing it, or keep it in /etc/nnburst or ~/.config/nnburst"
        } else {
            ""
        };
        Failure::usage(format!("the configuration: {error}{replaced}"))
    }

    fn uid(&self, known: &mut BTreeMap<String, u32>, name: &str) -> Result<u32, String> {
        if let Ok(uid) = name.parse() {
            return Ok(uid);
        }
        if let Some(&uid) = known.get(name) {
            return Ok(uid);
        }
        if self.is_closed {
            return Err(format!(
                "users.{name}: a running service knows no further user by name: write the uid, \
                 or restart it"
            ));
        }
        let user = User::from_name(name).map_err(|error| format!("users.{name}: {error}"))?;
        let user = user.ok_or_else(|| format!("users.{name}: there is no such user"))?;
        known.insert(name.to_owned(), user.uid.as_raw());
        Ok(user.uid.as_raw())
    }
}

#[cfg(test)]
mod tests;
