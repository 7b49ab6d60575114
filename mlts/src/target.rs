//! Targets: which driver is under test, and the process that it runs in.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::MltsError;

/// A driver under test, or the reference that it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The name in reports.
    pub name: String,
    /// The process that it runs in, and the way to it.
    pub how: How,
}

/// The process of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum How {
    /// A driver of this workspace, inside the worker process.
    Embedded {
        /// Its name; `nnapi-reference` is the reference device.
        driver: String,
        /// The threads that it computes with.
        #[serde(default = "one")]
        threads: u16,
    },
    /// A program that serves one client on its standard input: each client has a process of its
    /// own.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// A program that the suite starts as a service in a directory of its own, for several clients.
    Service {
        /// Program and arguments.
        argv: Vec<String>,
        /// The name that it serves under.
        instance: String,
    },
    /// A service that runs already.
    Served {
        /// The name that it serves under.
        instance: String,
    },
    /// A device behind the C functions of a library that the worker loads.
    Library {
        /// The library.
        path: PathBuf,
        /// The device; the library's first one where none is named.
        device: Option<String>,
    },
}

impl Target {
    /// A vendor's program, which serves one client on descriptor 0. Arguments are separated by
    /// spaces; quotes keep what is between them together.
    ///
    /// # Errors
    /// There is no program in `command`, or a quote has no end.
    pub fn command(command: &str) -> Result<Self, MltsError> {
        let argv = words(command)?;
        Ok(Self { name: base_name(&argv), how: How::Command { argv } })
    }

    /// A vendor's program that serves `instance` in the directory that `NNBURST_SERVICE_DIR` names.
    ///
    /// # Errors
    /// As for [`Target::command`].
    pub fn service(command: &str, instance: &str) -> Result<Self, MltsError> {
        let how = How::Service { argv: words(command)?, instance: instance.to_owned() };
        Ok(Self { name: instance.to_owned(), how })
    }

    /// A device of a libneuralnetworks.so.
    pub fn library(path: impl Into<PathBuf>, device: Option<&str>) -> Self {
        let path = path.into();
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let file = file.unwrap_or_else(|| path.display().to_string());
        let name = device.map_or_else(|| file.clone(), |device| format!("{file}:{device}"));
        Self { name, how: How::Library { path, device: device.map(str::to_owned) } }
    }

    /// A device by the name that commands take: `embedded`, `embedded:NAME`, `spawn:NAME` (which
    /// `program` serves), `nnapi-reference`, or that of a service.
    pub fn device(name: &str, program: &std::path::Path) -> Self {
        let how = match name.split_once(':') {
            Some(("spawn", driver)) => {
                let serve = ["serve", "--driver", driver, "--fd", "0"].map(str::to_owned);
                let argv = [program.display().to_string()].into_iter().chain(serve).collect();
                How::Command { argv }
            }
            Some(("embedded", driver)) => embedded(driver),
            _ if name == "embedded" => embedded("nnburst-cpu"),
            _ if name == nnburst::REFERENCE => embedded(name),
            _ => How::Served { instance: name.to_owned() },
        };
        Self { name: name.to_owned(), how }
    }

    /// A device that the worker's program makes for itself; see
    /// [`serve_worker_with`](crate::serve_worker_with).
    pub fn in_worker(name: &str) -> Self {
        Self { name: name.to_owned(), how: embedded(name) }
    }

    /// Has a driver of this workspace compute with so many threads.
    ///
    /// # Errors
    /// Its threads were settled when it was started, or by its own command.
    pub fn with_threads(mut self, threads: u16) -> Result<Self, MltsError> {
        let is_spawned = self.name.starts_with("spawn:");
        match &mut self.how {
            How::Embedded { driver, threads: own } if driver != nnburst::REFERENCE => {
                *own = threads;
            }
            How::Command { argv } if is_spawned => {
                argv.extend(["--threads".to_owned(), threads.to_string()]);
            }
            _ if threads == 1 => {}
            _ => {
                let name = &self.name;
                return Err(MltsError::Usage(format!(
                    "--threads {threads}: {name} is neither embedded nor spawned by name"
                )));
            }
        }
        Ok(self)
    }

    /// Returns whether several clients share the driver's process.
    pub fn is_shared(&self) -> bool {
        matches!(self.how, How::Service { .. } | How::Served { .. })
    }

    /// Returns whether the driver's process is one of its own, which the suite started.
    pub fn is_ours_to_kill(&self) -> bool {
        matches!(self.how, How::Service { .. } | How::Command { .. })
    }

    /// Returns whether the driver computes inside the worker process.
    pub fn is_in_worker(&self) -> bool {
        matches!(self.how, How::Embedded { .. } | How::Library { .. })
    }

    /// The word for `how` in reports.
    pub(crate) fn how_name(&self) -> &'static str {
        match &self.how {
            How::Embedded { .. } => "embedded",
            How::Command { .. } => "spawn",
            How::Service { .. } => "service",
            How::Served { .. } => "served",
            How::Library { .. } => "library",
        }
    }

    /// The driver's command; empty where it has none.
    pub(crate) fn argv(&self) -> &[String] {
        match &self.how {
            How::Command { argv } | How::Service { argv, .. } => argv,
            _ => &[],
        }
    }
}

fn embedded(driver: &str) -> How {
    How::Embedded { driver: driver.to_owned(), threads: one() }
}

fn one() -> u16 {
    1
}

fn base_name(argv: &[String]) -> String {
    let first = argv.first().map(PathBuf::from).unwrap_or_default();
    first.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The words of a command line.
fn words(command: &str) -> Result<Vec<String>, MltsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in command.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() {
        return Err(MltsError::Usage(format!("a quote without an end in {command:?}")));
    }
    if words.is_empty() {
        return Err(MltsError::Usage("an empty command".to_owned()));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_at_spaces_but_not_within_quotes() {
        let target = Target::command(r#"./my driver --name "a b" '' "#).unwrap();
        assert_eq!(target.argv(), ["./my", "driver", "--name", "a b", ""]);
        assert_eq!(target.name, "my");
        assert!(Target::command("  ").is_err());
        assert!(Target::command("a 'b").is_err());
    }

    #[test]
    fn names_of_devices_are_those_of_the_other_commands() {
        let program = std::path::Path::new("/usr/bin/nnburst");
        let how = |name| Target::device(name, program).how;
        assert_eq!(how("embedded"), embedded("nnburst-cpu"));
        assert_eq!(how("nnapi-reference"), embedded("nnapi-reference"));
        assert_eq!(how("npu"), How::Served { instance: "npu".to_owned() });
        let How::Command { argv } = how("spawn:sample") else { panic!("a command") };
        assert_eq!(argv.join(" "), "/usr/bin/nnburst serve --driver sample --fd 0");
    }

    #[test]
    fn threads_are_for_drivers_that_the_suite_makes() {
        let with = |name| Target::device(name, std::path::Path::new("nnburst")).with_threads(3);
        let How::Command { argv } = with("spawn:sample").unwrap().how else { panic!("a command") };
        assert_eq!(argv[6..], ["--threads", "3"]);
        let How::Embedded { threads, .. } = with("embedded").unwrap().how else { panic!("own") };
        assert_eq!(threads, 3);
        for name in ["npu", "nnapi-reference"] {
            assert!(with(name).unwrap_err().to_string().contains("--threads 3"), "{name}");
        }
        let own = Target::command("./driver").unwrap();
        assert!(own.clone().with_threads(2).is_err() && own.with_threads(1).is_ok());
    }
}
