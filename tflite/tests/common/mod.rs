//! The shared folder of models, if there is one.

use std::path::PathBuf;

use serde_json::Value;

/// The folder of models and its manifest.
pub(crate) struct Models {
    pub(crate) root: PathBuf,
    manifest: Value,
}

/// The shared models; `None` where there are none, unless `NNBURST_REQUIRE` names `shared`.
#[allow(dead_code, reason = "some tests look into other folders alone")]
pub(crate) fn models() -> Option<Models> {
    folder("models")
}

/// A folder of shared models, by its name; as [`models`].
pub(crate) fn folder(name: &str) -> Option<Models> {
    let shared = std::env::var_os("NNBURST_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let root = shared.join(name);
    let Ok(text) = std::fs::read_to_string(root.join("manifest.json")) else {
        nnburst_hal::testing::is_there("shared", false);
        return None;
    };
    Some(Models { root, manifest: serde_json::from_str(&text).unwrap() })
}

impl Models {
    /// Names and entries of the models that have a file.
    pub(crate) fn entries(&self) -> Vec<(String, Value)> {
        let all = self.manifest["models"].as_object().unwrap().iter();
        let with_file = all.filter(|(_, entry)| entry["file"].is_string());
        with_file.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    pub(crate) fn path(&self, file: &Value) -> PathBuf {
        self.root.join(file.as_str().unwrap())
    }
}
