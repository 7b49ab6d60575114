//! One model of a node: on its device, restarted after its driver's death.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use dora_node_api::Parameter;
use nnburst::{Device, RuntimeError};
use nnburst_doors_common::{DoorOptions, Home, Log, MakeError, Supervised};
use nnburst_pictures::{Decoder, PictureInput, PictureSize, Results};

use super::engine::{CompiledModel, ModelArguments};
use super::incoming::Incoming;
use super::input::InputWriter;
use super::memory::SourceStates;
use super::output;
use super::settings::ModelSettings;
use super::status::FrameEnd;
use crate::Failure;
use crate::node::Node;
use crate::stamp::{DRIVER, NODE, handed_on, integer, set};

/// A model.
pub(crate) struct ServedModel {
    settings: Arc<ModelSettings>,
    supervised: Supervised<CompiledModel>,
    signature: ModelArguments,
    writer: InputWriter,
    decoder: Decoder,
    memory: SourceStates,
    /// The time at which the message on its way was submitted.
    begun: Option<Instant>,
}

/// Why a frame has no results.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) outcome: FrameEnd,
    pub(crate) why: String,
    /// The driver's answer, which may stand for its death.
    pub(crate) error: Option<RuntimeError>,
}

impl Trouble {
    fn new(outcome: FrameEnd, why: &dyn std::fmt::Display) -> Self {
        Self { outcome, why: why.to_string(), error: None }
    }

    fn of(error: RuntimeError) -> Self {
        // A driver that hangs still owes the answer of an earlier frame.
        let owes = matches!(error, RuntimeError::Busy { .. });
        let is_missed = owes || error.is_deadline_missed();
        let outcome = if is_missed { FrameEnd::Missed } else { FrameEnd::Failed };
        Self { outcome, why: error.to_string(), error: Some(error) }
    }
}

impl ServedModel {
    /// Opens the device and compiles the model.
    ///
    /// # Errors
    /// The device can't be opened, or the model not compiled.
    pub(crate) fn open(
        settings: ModelSettings,
        sources: usize,
        log: &Log,
    ) -> Result<Self, Failure> {
        let settings = Arc::new(settings);
        let model = Arc::clone(&settings);
        let make = move |device: &Device, options: &DoorOptions| {
            CompiledModel::open(device, options, &model).map_err(MakeError::from)
        };
        let mut supervised =
            Supervised::new(settings.options.clone(), log.clone(), make).opened_by(open_device);
        let signature = supervised.get()?.signature.clone();
        let picture = PictureInput::of(std::slice::from_ref(&signature.input)).ok();
        let size = picture.map_or(PictureSize { width: 1, height: 1 }, |picture| picture.size());
        Ok(Self {
            writer: InputWriter::new(
                &signature.input,
                signature.input_index,
                settings.normalisation,
            ),
            decoder: Decoder::of(&signature.outputs, size),
            memory: SourceStates::new(signature.initial.clone(), sources),
            supervised,
            signature,
            settings,
            begun: None,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The model, its device and its input, in a line.
    pub(crate) fn describe(&self) -> String {
        let ModelArguments { input, outputs, .. } = &self.signature;
        format!(
            "{}: {} on {}, input {} {:?}, {} outputs",
            self.settings.name,
            self.settings.path.display(),
            self.settings.options.device,
            input.kind,
            input.dims,
            outputs.len()
        )
    }

    pub(crate) fn takes(&self, input: &str) -> bool {
        self.settings.takes(input)
    }

    /// The process of the driver, where it has one.
    pub(crate) fn driver(&self) -> Option<u32> {
        self.supervised.device().and_then(Device::driver_process)
    }

    /// Has a source begin anew.
    pub(crate) fn forget(&mut self, source: &str) {
        self.memory.forget(source);
    }

    /// Sends a frame to the driver.
    ///
    /// # Errors
    /// It is no input, is too old, or the driver is not there.
    pub(crate) fn submit(&mut self, frame: &Incoming) -> Result<(), Trouble> {
        let limit = match self.settings.deadline {
            Some(deadline) => Some(self.left(deadline, frame)?),
            None => None,
        };
        let engine = self.supervised.get().map_err(|why| Trouble::new(FrameEnd::Failed, &why))?;
        if let Some(place) = engine.frame() {
            let written = self.writer.write(&frame.message, place);
            written.map_err(|error| Trouble::new(FrameEnd::Refused, &error))?;
        }
        self.begun = Some(Instant::now());
        let states = self.memory.recall(&frame.stamp.source);
        engine.submit(states, limit).map_err(Trouble::of)
    }

    /// The time that is left of a deadline.
    fn left(&self, deadline: Duration, frame: &Incoming) -> Result<Duration, Trouble> {
        let age = frame.stamp.age(SystemTime::now());
        let left = deadline.checked_sub(age).filter(|left| !left.is_zero());
        left.ok_or_else(|| {
            let why = format!("a frame of {} is {age:.1?} old", frame.stamp.source);
            Trouble::new(FrameEnd::Late, &why)
        })
    }

    /// Waits for the results until a moment; `None` while there are none.
    pub(crate) fn wait_until(
        &mut self,
        frame: &Incoming,
        end: Instant,
    ) -> Option<Result<(), Trouble>> {
        let engine = match self.supervised.get() {
            Ok(engine) => engine,
            Err(why) => return Some(Err(Trouble::new(FrameEnd::Failed, &why))),
        };
        if engine.frame().is_none() {
            let result = engine.wait_until(end)?;
            if let Err(error) = result {
                return Some(Err(Trouble::of(error)));
            }
            self.memory.keep(&frame.stamp.source, &engine.states);
        }
        // What a trial adds to the time passes in slices, as that of a driver does.
        let seems = self.begun.map_or(end, |begun| begun + self.settings.at_least);
        let now = Instant::now();
        if seems > now {
            std::thread::sleep(seems.min(end).saturating_duration_since(now));
            if Instant::now() < seems {
                return None;
            }
        }
        Some(Ok(()))
    }

    /// Sends the results of the last frame.
    ///
    /// # Errors
    /// dora can't take them.
    pub(crate) fn send(&mut self, frame: &Incoming, node: &mut Node) -> Result<(), Failure> {
        let Ok(engine) = self.supervised.get() else { return Ok(()) };
        let settings = &self.settings;
        let name = node.name();
        let parameters = || {
            let mut parameters = handed_on(&frame.message.metadata.parameters);
            let driver = engine.time_in_driver.or_else(|| self.begun.map(|begun| begun.elapsed()));
            set(&mut parameters, NODE, Parameter::String(name.clone()));
            set(&mut parameters, DRIVER, integer(driver.unwrap_or_default().as_micros()));
            parameters
        };
        let mut is_known = false;
        if settings.wanted.results {
            let mut given = parameters();
            let found = match self.decoder.decode(&engine.outputs, settings.limits) {
                Results::Tensors => None,
                known => output::results(&known, &settings.labels, &mut given),
            };
            if let Some(array) = found {
                is_known = true;
                frame.stamp.write(&mut given);
                node.send(&settings.name, given, array)?;
            }
        }
        if settings.wanted.tensors || !is_known {
            for (index, (info, bytes)) in
                self.signature.outputs.iter().zip(&engine.outputs).enumerate()
            {
                let mut given = parameters();
                let array = output::tensor(info, bytes, &mut given);
                frame.stamp.write(&mut given);
                node.send(&format!("{}-{index}", settings.name), given, array)?;
            }
        }
        Ok(())
    }

    /// Restarts the driver where an error stands for its death; the events and texts to tell.
    pub(crate) fn recover(&mut self, error: &RuntimeError) -> Option<Recovered> {
        let recovery = self.supervised.recover(error)?;
        Some(Recovered { is_back: recovery.restarted.is_ok(), text: recovery.to_string() })
    }
}

/// The outcome of a driver's death.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) is_back: bool,
    pub(crate) text: String,
}

/// Opens a device; the driver's program is this one, which serves as well.
fn open_device(options: &DoorOptions) -> nnburst::Result<Device> {
    match options.device.home {
        Home::Spawn => options.open_device_with(|| Ok(own_program())),
        Home::Embedded | Home::Connect => options.open_device(),
    }
}

/// `/proc/self/exe` is this program also where its file has been replaced.
fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use dora_node_api::uhlc::HLC;
    use dora_node_api::{IntoArrow, Metadata};
    use nnburst_tflite::TensorKind;
    use nnburst_tflite::testing::TfliteFile;

    use super::super::settings::InferSettings;
    use super::*;
    use crate::node::Message;
    use crate::stamp::Stamp;

    /// A model that sums its input up: in an output, and in a state that the file has as both.
    fn sums() -> Vec<u8> {
        let mut file = TfliteFile::new();
        let x = file.input("x", TensorKind::Float32, &[1, 2]);
        let before = file.input("before", TensorKind::Float32, &[1, 2]);
        let sum = file.tensor("sum", TensorKind::Float32, &[1, 2]);
        let after = file.tensor("after", TensorKind::Float32, &[1, 2]);
        file.operator("ADD", &[x, before], &[sum]);
        file.operator("ADD", &[x, before], &[after]);
        file.outputs(&[sum, after]);
        file.build()
    }

    fn open(options: &str) -> Result<ServedModel, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sums.tflite");
        std::fs::write(&path, sums()).unwrap();
        let args = format!("model={} {options}", path.display());
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let model = InferSettings::parse(&args)?.models.remove(0);
        ServedModel::open(model, 2, &Log::stderr("test"))
    }

    fn incoming(source: &str, values: &[f32]) -> Incoming {
        let metadata = Metadata::new(HLC::default().new_timestamp());
        let stamp = Stamp { source: source.into(), ..Stamp::of("frame", &metadata, 0) };
        let data = values.to_vec().into_arrow();
        let message = Message { input: "frame".into(), metadata, data };
        Incoming { stamp, message, again: None }
    }

    fn infer(model: &mut ServedModel, frame: &Incoming) -> Result<f32, FrameEnd> {
        model.submit(frame).map_err(|trouble| trouble.outcome)?;
        loop {
            let end = Instant::now() + Duration::from_secs(1);
            if let Some(result) = model.wait_until(frame, end) {
                result.map_err(|trouble| trouble.outcome)?;
                let outputs = &model.supervised.get().unwrap().outputs;
                return Ok(f32::from_le_bytes(outputs[0][..4].try_into().unwrap()));
            }
        }
    }

    #[test]
    fn each_source_has_states_of_its_own() {
        let mut model = open("states=1-1").unwrap();
        let mut sum = |source, value| infer(&mut model, &incoming(source, &[value, 0.0])).unwrap();
        assert_eq!(
            (sum("a", 1.0), sum("a", 1.0), sum("b", 5.0), sum("a", 1.0)),
            (1.0, 2.0, 5.0, 3.0)
        );
        model.forget("a");
        assert_eq!(infer(&mut model, &incoming("a", &[7.0, 0.0])), Ok(7.0));
        assert_eq!(infer(&mut model, &incoming("b", &[1.0, 0.0])), Ok(6.0));
    }

    #[test]
    fn frames_that_do_not_fit_or_are_too_old_are_left_out() {
        let mut model = open("states=1-1 deadline=10000").unwrap();
        assert_eq!(infer(&mut model, &incoming("a", &[1.0])), Err(FrameEnd::Refused));
        let mut old = incoming("a", &[1.0, 1.0]);
        old.stamp.captured -= Duration::from_secs(11);
        assert_eq!(infer(&mut model, &old), Err(FrameEnd::Late));
        assert_eq!(infer(&mut model, &incoming("a", &[1.0, 1.0])), Ok(1.0));
    }

    #[test]
    fn wrong_states_are_named() {
        for (options, expected) in [
            ("", "2 inputs are no states (x, before)"),
            ("states=1-2", "option states: 1-2: the model has 2 inputs and 2 outputs"),
            ("states=0-0+1-1", "0 inputs are no states"),
            ("states=1-1 device=embedded/none", "none"),
        ] {
            let error = open(options).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{options}: {error}");
        }
    }
}
