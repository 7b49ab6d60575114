//! The device that an option names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nnburst::{Device, REFERENCE, Result, RuntimeError};

use crate::options::{DoorOptions, OptionError};
use crate::program::{ProgramError, driver_program};

/// The process that the driver is to run in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// The host's.
    #[default]
    Embedded,
    /// One of its own, which the door starts.
    Spawn,
    /// That of a service, which somebody else started.
    Connect,
}

/// The option `device`: `embedded/NAME`, `spawn/NAME` or `connect/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The process that the driver runs in.
    pub home: Home,
    /// The driver's name, or the service's.
    pub name: String,
}

impl Default for DeviceChoice {
    fn default() -> Self {
        Self { home: Home::Embedded, name: "nnburst-cpu".into() }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let home = match self.home {
            Home::Embedded => "embedded",
            Home::Spawn => "spawn",
            Home::Connect => "connect",
        };
        write!(f, "{home}/{}", self.name)
    }
}

impl FromStr for DeviceChoice {
    type Err = OptionError;

    fn from_str(text: &str) -> std::result::Result<Self, OptionError> {
        let wrong = || OptionError::Value {
            key: "device",
            value: text.to_owned(),
            expected: "embedded/NAME, spawn/NAME or connect/NAME",
        };
        let (home, name) = text.split_once('/').ok_or_else(wrong)?;
        let home = match home {
            "embedded" => Home::Embedded,
            "spawn" => Home::Spawn,
            "connect" => Home::Connect,
            _ => return Err(wrong()),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { home, name: name.to_owned() })
    }
}

impl DoorOptions {
    /// Opens the device of the option `device`. A driver that is started is never the host's own
    /// program: see [`driver_program`]. It inherits the host's environment and working directory,
    /// and no signal is blocked in it.
    ///
    /// # Errors
    /// There is no such driver or service; no program for it is found, or can be started.
    pub fn open_device(&self) -> Result<Device> {
        self.open_device_with(driver_program)
    }

    /// [`DoorOptions::open_device`] with the program that `program` finds, for doors that bring
    /// theirs along.
    ///
    /// # Errors
    /// As for [`DoorOptions::open_device`].
    pub fn open_device_with(
        &self,
        program: impl FnOnce() -> std::result::Result<PathBuf, ProgramError>,
    ) -> Result<Device> {
        let DeviceChoice { home, name } = &self.device;
        match home {
            Home::Embedded if name == REFERENCE => Ok(Device::reference()),
            Home::Embedded => Device::embedded_with(name, &self.driver()),
            Home::Spawn => {
                let program = program().map_err(|error| RuntimeError::Driver {
                    what: format!("starting {name}"),
                    why: error.to_string(),
                })?;
                let options = nnburst::DriverOptions { program: Some(program), ..self.driver() };
                Device::spawn_with(name, &options)
            }
            Home::Connect => Device::connect(name).map_err(in_words_of_the_option),
        }
    }
}

/// The devices that there are, as the option `device` names them.
fn in_words_of_the_option(error: RuntimeError) -> RuntimeError {
    let RuntimeError::UnknownDevice { name, known } = error else { return error };
    let words = |known: &String| match known.as_str() {
        "embedded" => "embedded/NAME".to_owned(),
        "spawn:NAME" => "spawn/NAME".to_owned(),
        REFERENCE => format!("embedded/{REFERENCE}"),
        service => format!("connect/{service}"),
    };
    let known = known.iter().map(words).collect();
    RuntimeError::UnknownDevice { name: format!("connect/{name}"), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        for text in ["embedded/nnburst-cpu", "spawn/nnapi-sample_all", "connect/a/b"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in ["", "embedded", "spawn/", "gpu/nnburst-cpu", "spawn:nnburst-cpu"] {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.contains("embedded/NAME"), "{error}");
        }
    }

    #[test]
    fn devices_in_this_process_are_opened_and_unknown_ones_named() {
        let open = |text: &str| {
            let device = text.parse().unwrap();
            DoorOptions { device, ..DoorOptions::default() }.open_device()
        };
        assert!(open("embedded/nnburst-cpu").unwrap().is_embedded());
        assert!(open("embedded/gpu").unwrap_err().to_string().contains("nnburst-cpu"));
    }

    #[test]
    fn an_unknown_service_is_told_what_the_option_could_be() {
        let known = ["embedded", "spawn:NAME", REFERENCE, "camera"].map(str::to_owned).to_vec();
        let error = RuntimeError::UnknownDevice { name: "nope".into(), known };
        assert_eq!(
            in_words_of_the_option(error).to_string(),
            "no device is called \"connect/nope\"; known are embedded/NAME, spawn/NAME, \
             embedded/nnapi-reference, connect/camera"
        );
    }
}
