//! The settings of inference: options of the whole node, then those of each model.

use std::path::PathBuf;
use std::time::Duration;

use nnburst_doors_common::{DoorOptions, Grammar, Key};
use nnburst_pictures::{Limits, Normalisation};

use crate::Failure;
use crate::settings::{Own, SettingsError, key, pairs};

/// The options. `log` is none of them: the log of a node is dora's.
pub(crate) const GRAMMAR: Grammar = Grammar {
    shared: &[
        "device",
        "wait",
        "threads",
        "realtime",
        "cpus",
        "driver-cpus",
        "cache-dir",
        "relaxed",
    ],
    own: &OWN,
};

const OWN: [Key; 14] = [
    key("model", "a .tflite file", "", "the model"),
    key("inputs", "inputs such as left+right", "", "the only inputs that this model takes"),
    key("labels", "a file with a line per class", "", "the names of classes"),
    key("top-k", "a number from 1 to 1000", "5", "the most classes that are reported"),
    key("threshold", "a score", "0", "what scores less is left out"),
    key("mean", "a number, or three with commas", "", "pixels: subtracted first"),
    key("scale", "a number, or three with commas", "", "pixels: then multiplied"),
    key("ranges", "LOW,HIGH or three with semicolons", "", "pixels: what 0 and 255 stand for"),
    key(
        "output",
        "results, tensors or both",
        "results",
        "results are by the model's task (tensors where none is known)",
    ),
    key(
        "states",
        "pairs INPUT-OUTPUT such as 1-1+2-2",
        "",
        "outputs that are these inputs for the source's next frame",
    ),
    key("deadline", "milliseconds", "", "frames older than this are dropped, also in the driver"),
    key("at-least", "milliseconds", "0", "trials: an inference seems to take this long"),
    key(STATUS, "milliseconds from 10 to 10000", "200", "the pause between messages of `status`"),
    key(SOURCES, "a number from 1 to 4096", "64", "the most sources that are told apart"),
];

const STATUS: &str = "status";
const SOURCES: &str = "sources";
/// The name of a node's only model, if none is given.
const ONLY: &str = "results";
const MOST_MODELS: usize = 16;

/// The settings of the whole node.
#[derive(Debug)]
pub(crate) struct InferSettings {
    pub(crate) models: Vec<ModelSettings>,
    pub(crate) status: Duration,
    pub(crate) sources: usize,
}

/// The forms in which a model's results go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) results: bool,
    pub(crate) tensors: bool,
}

/// An output of the model that is an input for the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateIndices {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

/// The settings of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelSettings {
    /// The output of its results, and the beginning of those of its tensors.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) options: DoorOptions,
    /// The inputs that it takes; empty for all.
    pub(crate) inputs: Vec<String>,
    pub(crate) labels: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) normalisation: Option<Normalisation>,
    pub(crate) wanted: Wanted,
    pub(crate) states: Vec<StateIndices>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) at_least: Duration,
}

impl InferSettings {
    /// Reads `KEY=VALUE ..`, then for each of several models `NAME:` and its own.
    ///
    /// # Errors
    /// An option that can't be followed.
    pub(crate) fn parse(args: &[String]) -> Result<Self, Failure> {
        let is_name = |arg: &String| arg.ends_with(':') && !arg.contains('=');
        let first = args.iter().position(is_name).unwrap_or(args.len());
        let (common, rest) = args.split_at(first);
        let common = pairs(common)?;
        let mut models: Vec<ModelSettings> = Vec::new();
        for section in rest.chunk_by(|_, next| !is_name(next)) {
            let Some((name, own)) = section.split_first() else { continue };
            let own = pairs(own)?;
            if let Some((key, _)) = own.iter().find(|(key, _)| [STATUS, SOURCES].contains(key)) {
                let why = format!("option {key} is the whole node's: before the first model");
                return Err(SettingsError::Section(why).into());
            }
            let name = name.trim_end_matches(':');
            if name.is_empty() || models.iter().any(|model| model.name == name) {
                let why = format!("{name:?} names no model, or two");
                return Err(SettingsError::Section(why).into());
            }
            models.push(ModelSettings::parse(name, &[common.as_slice(), &own].concat())?);
        }
        if models.is_empty() {
            models.push(ModelSettings::parse(ONLY, &common)?);
        }
        if models.len() > MOST_MODELS {
            let why = format!("{} models are more than {MOST_MODELS}", models.len());
            return Err(SettingsError::Section(why).into());
        }
        let options = GRAMMAR.parse(common)?;
        let own = Own { grammar: GRAMMAR, options: &options };
        let status = Duration::from_millis(own.number(STATUS, 10, 10_000)?);
        Ok(Self { models, status, sources: own.number(SOURCES, 1, 4096)? })
    }
}

impl ModelSettings {
    fn parse(name: &str, pairs: &[(&str, &str)]) -> Result<Self, Failure> {
        let options = GRAMMAR.parse(pairs.iter().copied())?;
        let own = Own { grammar: GRAMMAR, options: &options };
        let wanted = match own.required("output")? {
            "results" => Wanted { results: true, tensors: false },
            "tensors" => Wanted { results: false, tensors: true },
            "both" => Wanted { results: true, tensors: true },
            other => return Err(own.wrong("output", other).into()),
        };
        let milliseconds = |name| own.value(name, |ms: &f64| *ms >= 0.0 && *ms <= 1e6);
        let time = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let [mean, scale, ranges] = ["mean", "scale", "ranges"].map(|name| own.text(name));
        let limits = Limits {
            top_k: own.number("top-k", 1, 1000)?,
            threshold: own.number("threshold", f64::MIN, f64::MAX)?,
        };
        Ok(Self {
            name: name.to_owned(),
            path: own.required("model")?.into(),
            inputs: own.text("inputs").map(names).unwrap_or_default(),
            labels: own.text("labels").map(labels).transpose()?.unwrap_or_default(),
            limits,
            normalisation: Normalisation::parse(mean, scale, ranges)?,
            wanted,
            states: states(own)?,
            deadline: milliseconds("deadline")?.map(time),
            at_least: milliseconds("at-least")?.map(time).unwrap_or_default(),
            options: options.clone(),
        })
    }

    /// Returns whether the model takes the frames of an input.
    pub(crate) fn takes(&self, input: &str) -> bool {
        self.inputs.is_empty() || self.inputs.iter().any(|name| name == input)
    }
}

/// Names with `+` between them.
pub(crate) fn names(text: &str) -> Vec<String> {
    text.split('+').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn labels(path: &str) -> Result<Vec<String>, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| SettingsError::File { path: path.to_owned(), error })?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

fn states(own: Own<'_>) -> Result<Vec<StateIndices>, SettingsError> {
    let text = own.text("states").unwrap_or_default();
    let pair = |pair: &str| {
        let (input, output) = pair.split_once('-')?;
        Some(StateIndices { input: input.parse().ok()?, output: output.parse().ok()? })
    };
    let pairs: Option<Vec<_>> = names(text).iter().map(|text| pair(text)).collect();
    pairs.ok_or_else(|| own.wrong("states", text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<InferSettings, String> {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        InferSettings::parse(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn one_model_needs_no_name() {
        let settings = parse("model=m.tflite device=spawn/nnburst-cpu deadline=33 states=1-1+2-0");
        let settings = settings.unwrap();
        let [model] = settings.models.as_slice() else { panic!("{settings:?}") };
        assert_eq!((model.name.as_str(), model.limits.top_k), ("results", 5));
        assert_eq!(model.deadline, Some(Duration::from_millis(33)));
        assert_eq!(model.states[1], StateIndices { input: 2, output: 0 });
        assert_eq!(settings.status, Duration::from_millis(200));
    }

    #[test]
    fn several_models_share_what_comes_before_them() {
        let settings = parse(
            "device=connect/npu status=50 faces: model=f.tflite inputs=left+right \
             poses: model=p.tflite device=embedded/nnburst-cpu output=both",
        )
        .unwrap();
        let [faces, poses] = settings.models.as_slice() else { panic!("{settings:?}") };
        assert_eq!(faces.options.device.to_string(), "connect/npu");
        assert_eq!(poses.options.device.to_string(), "embedded/nnburst-cpu");
        assert!(faces.takes("left") && !faces.takes("top") && poses.takes("top"));
        assert_eq!(poses.wanted, Wanted { results: true, tensors: true });
    }

    #[test]
    fn wrong_settings_are_named() {
        for (args, expected) in [
            ("", "option model is missing"),
            ("model=m log=all", "no option is called \"log\""),
            ("model=m output=json", "option output is \"json\", expected results, tensors or both"),
            ("model=m states=1", "option states is \"1\""),
            ("model=m deadline=-1", "option deadline is \"-1\""),
            ("model=m threshold=nan", "option threshold is \"nan\""),
            ("model=m labels=/absent", "/absent: No such file"),
            ("a: model=m a: model=n", "\"a\" names no model, or two"),
            ("a: model=m status=5", "before the first model"),
            ("status=5 a: model=m", "option status is \"5\""),
        ] {
            let error = parse(args).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{args}: {error}");
        }
    }
}
