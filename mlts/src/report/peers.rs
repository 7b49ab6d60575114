//! Other engines' latencies of the same models, measured elsewhere: lines of JSON, one a
//! measurement.

use std::path::Path;

use serde::Deserialize;

use super::schema::{PeerLatency, Report};
use crate::error::MltsError;

/// A line of the file; what it has besides is not read.
#[derive(Debug, Deserialize)]
struct Line {
    model: String,
    engine: String,
    #[serde(default)]
    threads: u32,
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    median_us: f64,
    p99_us: Option<f64>,
}

/// Other engines' latencies by model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers(Vec<(String, PeerLatency)>);

impl Peers {
    /// Reads a file of JSON lines, each with `model`, `engine`, `threads`, `ok`, `median_us` and
    /// `p99_us`. Measurements that failed are left out.
    ///
    /// # Errors
    /// The file can't be read, or a line is not such an object.
    pub fn read(path: &Path) -> Result<Self, MltsError> {
        let text = std::fs::read_to_string(path).map_err(|error| MltsError::data(path, error))?;
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                MltsError::data(path, format!("line {}: {error}", number.saturating_add(1)))
            })?;
            if line.ok && line.median_us > 0.0 {
                let Line { model, engine, threads, median_us: p50_us, p99_us, .. } = line;
                all.push((model, PeerLatency { engine, threads, p50_us, p99_us }));
            }
        }
        Ok(Self(all))
    }
}

impl Report {
    /// Adds the latencies of other engines to the models that the run has.
    pub fn add_peers(&mut self, peers: &Peers) {
        for model in &mut self.models {
            let of_model = peers.0.iter().filter(|(id, _)| *id == model.id);
            model.peers.extend(of_model.map(|(_, peer)| peer.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ModelReport;

    #[test]
    fn lines_become_latencies_of_models() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let lines = r#"{"model":"m","engine":"tflite-xnnpack","ok":true,"median_us":12.5,"p99_us":20}
            {"model":"m","engine":"ncnn","ok":false,"error":"no"}

            {"model":"other","engine":"ncnn","ok":true,"median_us":1.0}"#;
        std::fs::write(&path, lines).unwrap();
        let model = ModelReport { id: "m".into(), ..ModelReport::default() };
        let mut report = Report { models: vec![model], ..Report::default() };
        report.add_peers(&Peers::read(&path).unwrap());
        let [peer] = report.models[0].peers.as_slice() else { panic!("{report:?}") };
        assert_eq!(peer.engine, "tflite-xnnpack");
        assert_eq!((peer.p50_us, peer.p99_us), (12.5, Some(20.0)));
        std::fs::write(&path, "{\"model\":\"m\"}").unwrap();
        let error = Peers::read(&path).unwrap_err();
        assert!(error.to_string().contains("line 1") && error.exit_code() == 2, "{error}");
    }
}
