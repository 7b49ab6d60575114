//! Manifests: what lies in a folder of models, with hashes, goldens and rules of acceptance.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::MltsError;

/// A model and all that is known about it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ModelEntry {
    pub(crate) id: String,
    /// Its file; none for a built-in network.
    pub(crate) file: Option<PathBuf>,
    pub(crate) sha256: String,
    pub(crate) licence: String,
    pub(crate) origin: String,
    pub(crate) what: String,
    pub(crate) macs: Option<u64>,
    pub(crate) bytes: u64,
    /// The types of the outputs, by their names in the manifest.
    pub(crate) output_types: Vec<String>,
    pub(crate) cases: Vec<CaseEntry>,
    pub(crate) accept: Accept,
    pub(crate) family: Family,
    /// Names of the classes, where the cases are labelled with them.
    pub(crate) labels: Vec<String>,
    /// Labelled photos, where the model is a classifier of them.
    pub(crate) photos: Vec<Photos>,
}

impl ModelEntry {
    /// The names of the rules that judge the answers, beside the distances from goldens.
    pub(crate) fn evaluators(&self) -> Vec<&'static str> {
        let of_task = match self.family {
            Family::Classes => "TopK",
            Family::Pixels => "IoU",
            Family::Detections => "Detections",
            Family::Speech => "MelCepLogF0",
            Family::Phones => "PhoneErrorRate",
            Family::Values => "differences",
            Family::SupportOnly => "support only",
        };
        let has_labels = self.cases.iter().any(|case| case.label.is_some());
        let of_labels = has_labels.then(|| self.of_labels());
        std::iter::once(of_task).chain(of_labels).collect()
    }

    /// The name of the rule for labelled cases.
    pub(crate) fn of_labels(&self) -> &'static str {
        if self.is_of_recordings() { "WordSpotting" } else { "Labels" }
    }

    /// Returns whether the model listens for words.
    pub(crate) fn is_of_recordings(&self) -> bool {
        ["keyword", "wake word"].iter().any(|word| self.what.contains(word))
            || self.id.contains("_kws_")
    }
}

/// One sequence of inputs and goldens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CaseEntry {
    pub(crate) name: String,
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) outputs: Vec<PathBuf>,
    /// Goldens with the weights of a hybrid model widened to floats.
    pub(crate) wide: Vec<PathBuf>,
    pub(crate) steps: usize,
    /// The distance of TFLite's own fast kernels from the goldens, per output.
    pub(crate) xnnpack: Vec<f64>,
    /// The class that is right, where the case is labelled.
    pub(crate) label: Option<String>,
    /// The pixels' right classes as people drew them: a picture of one byte each.
    pub(crate) mask: Option<PathBuf>,
}

/// Limits that the manifest sets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Accept {
    /// Steps of a quantised output that count as exact.
    pub(crate) exact: Option<f64>,
    /// The absolute distance of a float output that counts as exact.
    pub(crate) abs: Option<f64>,
    /// The task's rule, in words.
    pub(crate) task: String,
    /// The share of pixels of a segmentation that have to agree.
    pub(crate) pixels: Option<f64>,
    /// The least intersection over union with a mask that people drew.
    pub(crate) mask_iou: Option<f64>,
}

/// The kind of task, which says what its answers are judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Family {
    /// The best class.
    Classes,
    /// Classes of pixels.
    Pixels,
    /// Boxes with classes and scores.
    Detections,
    /// Parameters of speech, with the means and deviations in this folder.
    Speech,
    /// Phones of frames.
    Phones,
    /// Values: the close tier judges.
    #[default]
    Values,
    /// No rule: the model is there for its operations.
    SupportOnly,
}

/// A folder of labelled photos, and a model's answers under the reference kernels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Photos {
    pub(crate) dir: PathBuf,
    /// Whether the photos are cut to a square, as Android's suite does, or at each side.
    pub(crate) is_square: bool,
    /// File, label's class, the reference kernels' first class.
    pub(crate) photos: Vec<Photo>,
    /// Agreement of TFLite's own fast kernels with its reference kernels, as a share.
    pub(crate) peer_agreement: Option<f64>,
}

/// A labelled photo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Photo {
    pub(crate) file: String,
    pub(crate) label: u64,
    pub(crate) reference: u64,
    pub(crate) author: String,
}

/// Reads the manifests of all folders, and checks the hashes of all models.
///
/// # Errors
/// A manifest or model can't be read, or a hash is wrong.
pub(crate) fn read_folders(dirs: &[PathBuf]) -> Result<Vec<ModelEntry>, MltsError> {
    let mut models: BTreeMap<String, ModelEntry> = BTreeMap::new();
    let mut order = Vec::new();
    let mut later = Vec::new();
    for dir in dirs {
        let manifest = read_json(&dir.join("manifest.json"))?;
        let hashes = &manifest["files"];
        let entries = manifest["models"].as_object();
        let entries = entries
            .ok_or_else(|| MltsError::data(dir.join("manifest.json"), "no object `models`"))?;
        for (id, value) in entries {
            let file = value["file"].as_str();
            let Some(file) = file else { continue };
            let cases = cases(dir, value, hashes)?;
            if file.starts_with('(') {
                later.push((id.clone(), cases));
                continue;
            }
            let mut entry = entry(dir, id, file, value)?;
            entry.cases = cases;
            if models.insert(id.clone(), entry).is_none() {
                order.push(id.clone());
            }
        }
        photos(dir, &mut models)?;
    }
    for (id, cases) in later {
        if let Some(entry) = models.get_mut(&id) {
            entry.cases.extend(cases);
        }
    }
    Ok(order.into_iter().filter_map(|id| models.remove(&id)).collect())
}

fn read_json(path: &Path) -> Result<Value, MltsError> {
    let text = std::fs::read_to_string(path).map_err(|error| MltsError::data(path, error))?;
    serde_json::from_str(&text).map_err(|error| MltsError::data(path, error))
}

fn entry(dir: &Path, id: &str, file: &str, value: &Value) -> Result<ModelEntry, MltsError> {
    let path = dir.join(file);
    let bytes = std::fs::read(&path).map_err(|error| MltsError::data(&path, error))?;
    let sha256 = hex(&Sha256::digest(&bytes));
    if let Some(want) = value["sha256"].as_str()
        && want != sha256
    {
        return Err(MltsError::data(
            path,
            format!("its SHA-256 is {sha256}, the manifest has {want}"),
        ));
    }
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let accept = accept(&value["accept"]);
    Ok(ModelEntry {
        id: id.to_owned(),
        sha256,
        licence: text("licence"),
        origin: text("origin"),
        what: text("what"),
        macs: value["macs"].as_u64(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        output_types: strings(&value["outputs"], "type"),
        family: family(id, value, &accept),
        file: Some(path),
        accept,
        cases: Vec::new(),
        labels: texts(&value["labels"]),
        photos: Vec::new(),
    })
}

fn accept(value: &Value) -> Accept {
    let task = value["task"].as_str().unwrap_or_default().to_owned();
    // ">= 99.9 % of pixels agree": the figure in front of the words.
    let pixels = task.split_once(" % of pixels").and_then(|(before, _)| {
        before.rsplit(' ').next()?.parse::<f64>().ok().map(|percent| percent / 100.0)
    });
    // "IoU of the bird against the mask >= 0.82": the figure behind the words.
    let mask_iou = task
        .split_once("against the mask >= ")
        .and_then(|(_, after)| after.split([' ', ')']).next()?.parse::<f64>().ok());
    Accept { exact: value["exact"].as_f64(), abs: value["abs"].as_f64(), task, pixels, mask_iou }
}

fn family(id: &str, value: &Value, accept: &Accept) -> Family {
    let evaluator = value["evaluator"].as_str().unwrap_or_default();
    let case = &value["cases"][0];
    if accept.task.starts_with("none") {
        return Family::SupportOnly;
    }
    match evaluator {
        "MelCepLogF0" => return Family::Speech,
        "PhoneErrorRate" => return Family::Phones,
        _ => {}
    }
    if accept.pixels.is_some() {
        Family::Pixels
    } else if case["detections_50"].is_array() {
        Family::Detections
    } else if id.starts_with("tts_") {
        Family::Speech
    } else if id.starts_with("asr_") {
        Family::Phones
    } else if case["top5"].is_array() || case["answer"].is_string() || evaluator == "TopK" {
        Family::Classes
    } else {
        Family::Values
    }
}

fn cases(dir: &Path, model: &Value, hashes: &Value) -> Result<Vec<CaseEntry>, MltsError> {
    let of_model = numbers(&model["xnnpack_vs_reference_max_abs"]);
    let list = model["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let files = |value: &Value| -> Result<Vec<PathBuf>, MltsError> {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(|name| checked(dir, name, hashes)).collect()
    };
    list.iter()
        .map(|case| {
            let own = numbers(&case["xnnpack_vs_reference_max_abs"]);
            let steps = case["steps"].as_u64().and_then(|steps| usize::try_from(steps).ok());
            Ok(CaseEntry {
                name: case["name"].as_str().unwrap_or_default().to_owned(),
                inputs: files(&case["inputs"])?,
                outputs: files(&case["outputs"])?,
                wide: files(&case["outputs_float_weights"])?,
                steps: steps.unwrap_or(1),
                xnnpack: if own.is_empty() { of_model.clone() } else { own },
                label: case["label"].as_str().map(str::to_owned),
                mask: mask(dir, case),
            })
        })
        .collect()
}

/// The mask of a case that has one: beside the pictures, by the name of the picture.
fn mask(dir: &Path, case: &Value) -> Option<PathBuf> {
    case["iou_bird_vs_mask"].as_f64()?;
    let name = format!("{}_segmentation_mask.bmp", case["name"].as_str()?);
    Some(dir.join("pictures").join(name))
}

/// The path of a file, whose hash is as the manifest has it.
fn checked(dir: &Path, name: &str, hashes: &Value) -> Result<PathBuf, MltsError> {
    let path = dir.join(name);
    let Some(want) = hashes[name]["sha256"].as_str() else { return Ok(path) };
    let bytes = std::fs::read(&path).map_err(|error| MltsError::data(&path, error))?;
    let found = hex(&Sha256::digest(&bytes));
    if found == want {
        return Ok(path);
    }
    Err(MltsError::data(path, format!("its SHA-256 is {found}, the manifest has {want}")))
}

/// Adds the labelled photos of a folder to the models that were run on them.
fn photos(dir: &Path, models: &mut BTreeMap<String, ModelEntry>) -> Result<(), MltsError> {
    let dir = dir.join("photos");
    if !dir.join("photos.json").exists() {
        return Ok(());
    }
    let list = read_json(&dir.join("photos.json"))?;
    let accuracy = read_json(&dir.join("accuracy.json"))?;
    let list = list.as_array().cloned().unwrap_or_default();
    let names = std::fs::read_to_string(dir.with_file_name("imagenet_labels_1001.txt"));
    let names = names.unwrap_or_default();
    let class = |photo: &Value| -> Option<u64> {
        photo["label_index"].as_u64().or_else(|| {
            let label = photo["label"].as_str()?;
            u64::try_from(names.lines().position(|name| name == label)?).ok()
        })
    };
    // Sets with the classes' numbers were prepared as Android's suite prepares its own.
    let is_square = list.iter().any(|photo| photo["label_index"].is_u64());
    for (id, entry) in models.iter_mut() {
        let known = &accuracy["models"][id.as_str()];
        let reference = &known["reference_top5"];
        let photos: Vec<_> = list
            .iter()
            .filter_map(|photo| {
                let file = photo["file"].as_str()?.to_owned();
                let reference = reference[file.as_str()][0].as_u64()?;
                let author = photo["author"].as_str().unwrap_or_default().to_owned();
                Some(Photo { file, label: class(photo)?, reference, author })
            })
            .collect();
        if photos.is_empty() {
            continue;
        }
        // How many photos, as a number or a list, by the folder's format.
        let all = known["photos"].as_f64().or_else(|| Some(crate::num::real(photos.len())));
        let agreed = |path: &Value| path["top1_agreement"].as_f64();
        let agreed = [agreed(&known["optimised_builtin"]), agreed(&known["xnnpack"])];
        let agreed = agreed.into_iter().flatten().chain(known["top1_agreement_xnnpack"].as_f64());
        let worst = agreed.reduce(f64::min);
        let peer_agreement = worst.zip(all).map(|(agreed, all)| agreed / all);
        entry.photos.push(Photos { dir: dir.clone(), is_square, photos, peer_agreement });
    }
    Ok(())
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn strings(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|one| one[key].as_str().unwrap_or_default().to_owned()).collect()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_f64).collect()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of one model, which is no model: only hashes are looked at here.
    fn folder(sha256: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("model"), "abc").unwrap();
        let manifest = format!(
            r#"{{"models": {{"m": {{"file": "model", "sha256": "{sha256}", "cases": [
                {{"name": "c", "inputs": ["i"], "outputs": ["o"], "top5": []}}],
                "outputs": [{{"type": "UINT8"}}], "xnnpack_vs_reference_max_abs": [2.0],
                "accept": {{"exact": 0, "task": ">= 99.5 % of pixels agree"}}}}}}}}"#
        );
        std::fs::write(dir.path().join("manifest.json"), manifest).unwrap();
        dir
    }

    #[test]
    fn a_manifest_becomes_models_with_cases_and_limits() {
        let good = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let dir = folder(good);
        let models = read_folders(&[dir.path().to_owned()]).unwrap();
        let [model] = models.as_slice() else { panic!("{models:?}") };
        assert_eq!((model.family, model.accept.pixels), (Family::Pixels, Some(0.995)));
        assert_eq!(model.cases[0].xnnpack, [2.0]);
        assert_eq!(model.cases[0].steps, 1);
    }

    #[test]
    fn a_wrong_hash_is_wrong_data() {
        let dir = folder("00");
        let error = read_folders(&[dir.path().to_owned()]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("the manifest has 00"), "{error}");
    }
}
