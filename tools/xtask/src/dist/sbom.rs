//! The list of what is in the programs: a CycloneDX document, from what cargo resolved.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Build;
use crate::cargo::{Outcome, root};
use crate::install::{at, write};

/// Writes the document of every crate that is linked for the machine.
pub(super) fn make(build: &Build, file: &Path) -> Outcome {
    let mut asked = Command::new(env!("CARGO"));
    asked.args(["metadata", "--format-version", "1", "--locked"]);
    asked.args(["--filter-platform", &build.target]).current_dir(root());
    let output = asked.output().map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    let lock = root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(at(&lock.display()))?;
    let document = document(&metadata, &checksums(&lock), &build.version);
    write(file, &format!("{document:#}\n"))
}

fn document(metadata: &Value, checksums: &BTreeMap<String, String>, version: &str) -> Value {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let by_id: BTreeMap<_, _> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let linked = linked(metadata);
    let components = linked.keys().filter_map(|id| component(by_id.get(id)?, checksums));
    let dependencies = linked.iter().filter_map(|(id, needs)| {
        let needs: Vec<_> = needs.iter().filter_map(|id| reference(by_id.get(id)?)).collect();
        Some(json!({ "ref": reference(by_id.get(id)?)?, "dependsOn": needs }))
    });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "nnburst", "version": version } },
        "components": components.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

/// The crates that the workspace's own are linked with, and which of them each needs: neither those
/// of tests nor of build scripts.
fn linked(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let needs: BTreeMap<_, Vec<_>> = nodes
        .iter()
        .filter_map(|node| {
            let deps = node["deps"].as_array().map_or(&[][..], Vec::as_slice);
            let is_linked = |dep: &&Value| {
                let kinds = dep["dep_kinds"].as_array();
                kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            };
            let deps = deps.iter().filter(is_linked).filter_map(|dep| dep["pkg"].as_str());
            Some((node["id"].as_str()?, deps.collect()))
        })
        .collect();
    let mut found = BTreeMap::new();
    let shipped = ["nnburst-cli@", "nnburst-ndk@", "nnburst-fmq-capi@", "nnburst-ladspa@"];
    let others = ["nnburst-tflite-delegate@", "nnburst-gstreamer@", "nnburst-python@"];
    // `path+file:///folder#name@version`, or `#version` where the folder has the name.
    let is_shipped = |id: &&str| {
        let name = id.rsplit(['#', '/']).next().unwrap_or_default();
        shipped.iter().chain(&others).any(|start| name.starts_with(start))
    };
    let mut open: Vec<&str> = needs.keys().copied().filter(is_shipped).collect();
    while let Some(id) = open.pop() {
        let needed = needs.get(id).cloned().unwrap_or_default();
        if found.insert(id, needed.clone()).is_none() {
            open.extend(needed);
        }
    }
    found
}

/// A crate's name in the document: its package URL.
fn reference(package: &Value) -> Option<String> {
    Some(format!("pkg:cargo/{}@{}", package["name"].as_str()?, package["version"].as_str()?))
}

fn component(package: &Value, checksums: &BTreeMap<String, String>) -> Option<Value> {
    let purl = reference(package)?;
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    });
    if let Some(license) = package["license"].as_str() {
        // Older manifests list licences with a slash.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(checksum) = checksums.get(&purl) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Some(component)
}

/// The checksums that the lock file holds crates to, by package URL.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]").filter_map(|block| {
        let (name, version) = (value(block, "name")?, value(block, "version")?);
        Some((format!("pkg:cargo/{name}@{version}"), value(block, "checksum")?))
    });
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_with_licence_and_checksum() {
        let package = |name: &str| json!({ "id": format!("x#{name}@1.0.0"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let needs = |name: &str, kind: Value| json!({ "pkg": format!("x#{name}@1.0.0"), "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("nnburst-cli"), package("libc"), package("tempfile")],
            "resolve": { "nodes": [
                { "id": "x#nnburst-cli@1.0.0", "deps": [needs("libc", Value::Null), needs("tempfile", json!("dev"))] },
                { "id": "x#libc@1.0.0", "deps": [] },
                { "id": "x#tempfile@1.0.0", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"libc\"\nversion = \"1.0.0\"\nchecksum = \"0a1b\"\n";
        let document = document(&metadata, &checksums(lock), "0.1.0");
        let components = document["components"].as_array().unwrap();
        let names: Vec<_> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["libc", "nnburst-cli"]);
        assert_eq!(components[0]["hashes"][0]["content"], "0a1b");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/libc@1.0.0"]));
    }
}
