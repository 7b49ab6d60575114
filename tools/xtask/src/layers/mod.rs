//! `cargo xtask layers`: who may know whom.
//!
//! | rule | of |
//! |---|---|
//! | a crate depends on the crates of [`MAY_KNOW`] alone | `cargo metadata`, without tests |
//! | published crates name their README, and no version of crates for tests | `cargo metadata` |
//! | the executor's imports point down [`LAYERS`] | `executor/src`, `executor/kernels/src` |
//! | no more than four files of a crate import each other in a circle | every library and program |
//!
//! What breaks a rule today is counted in `tools/xtask/layers.txt`. The numbers there only shrink:
//! one that is larger than needed is reported, one that is smaller fails.

mod circles;
mod imports;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::{Outcome, root};
use imports::{ImportGraph, Layered};

/// The crates of the workspace that a crate may depend on; nobody is listed who may know all.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("nnburst-fmq", &[]),
    ("nnburst-fmq-capi", &["nnburst-fmq"]),
    ("nnburst-hal", &["nnburst-fmq"]),
    ("nnburst-kernels", &["nnburst-hal"]),
    ("nnburst-executor", &["nnburst-hal", "nnburst-kernels"]),
    ("nnburst-burst", &["nnburst-fmq", "nnburst-hal"]),
    ("nnburst-hal-ipc", &["nnburst-fmq", "nnburst-hal", "nnburst-burst"]),
    ("nnburst-cpu", DRIVER),
    ("nnburst-driver", DRIVER),
    ("nnburst-driver-sample", DRIVER),
    ("nnburst", RUNTIME),
    ("nnburst-ndk", &["nnburst"]),
    ("nnburst-ndk-client", &["nnburst", "nnburst-ndk"]),
    ("nnburst-tflite", &["nnburst-hal"]),
    ("nnburst-conformance", &["nnburst-hal"]),
    ("nnburst-doors-common", &["nnburst"]),
    ("nnburst-denoise", &["nnburst", "nnburst-tflite"]),
    (
        "nnburst-gstreamer",
        &[
            "nnburst",
            "nnburst-denoise",
            "nnburst-doors-common",
            "nnburst-pictures",
            "nnburst-tflite",
        ],
    ),
    ("nnburst-ladspa", &["nnburst", "nnburst-denoise", "nnburst-doors-common"]),
    ("nnburst-pictures", &["nnburst", "nnburst-tflite"]),
    ("nnburst-python", &["nnburst", "nnburst-doors-common", "nnburst-tflite"]),
    ("nnburst-tflite-delegate", &["nnburst", "nnburst-doors-common", "nnburst-tflite"]),
    (
        "nnburst-mlts",
        &[
            "nnburst",
            "nnburst-burst",
            "nnburst-conformance",
            "nnburst-hal",
            "nnburst-hal-ipc",
            "nnburst-ndk-client",
            "nnburst-tflite",
        ],
    ),
    (
        "nnburst-cli",
        &["nnburst", "nnburst-conformance", "nnburst-mlts", "nnburst-ndk-client", "nnburst-tflite"],
    ),
    ("xtask", &[]),
];

const DRIVER: &[&str] = &[
    "nnburst-fmq",
    "nnburst-hal",
    "nnburst-executor",
    "nnburst-kernels",
    "nnburst-burst",
    "nnburst-hal-ipc",
    "nnburst-cpu",
    "nnburst-driver",
];

const RUNTIME: &[&str] = &[
    "nnburst-fmq",
    "nnburst-hal",
    "nnburst-executor",
    "nnburst-burst",
    "nnburst-hal-ipc",
    "nnburst-cpu",
    "nnburst-driver",
    "nnburst-driver-sample",
];

/// Crates that measure and test the others.
const KNOW_ALL: &[&str] = &["benches", "loom-tests"];

/// The executor's layers, lowest first.
const LAYERS: &[&str] = &["tensor", "simd", "kernels", "lowering", "ops", "plan", "session"];

/// Files that import each other in a circle and are still one idea.
const LARGEST_CIRCLE: usize = 4;

/// The file of the numbers of what breaks a rule.
const LEDGER: &str = "tools/xtask/layers.txt";

/// A crate of the workspace.
struct Package {
    name: String,
    /// Names of the workspace's crates that it depends on, without tests.
    knows: Vec<String>,
    /// False with `publish = false`.
    is_published: bool,
    /// Whether the manifest names a README.
    has_readme: bool,
    /// Names of the workspace's crates that its tests depend on in some version.
    tested_with: Vec<String>,
    /// The root files of its library and programs.
    roots: Vec<PathBuf>,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let is_list = match args {
        [] => false,
        [option] if option == "--list" => true,
        _ => return Err("usage: cargo xtask layers [--list]".into()),
    };
    let packages = packages()?;
    let mut wrong = unlisted(&packages);
    wrong.extend(unpublishable(&packages));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for package in &packages {
        for root in &package.roots {
            let graph = ImportGraph::of_crate(root)?;
            if package.name == "nnburst-executor" || package.name == "nnburst-kernels" {
                let up = graph.imports_up(LAYERS);
                *counts.entry("imports-up executor".into()).or_default() += up.len();
                list(is_list, &up);
            }
            for circle in circles::larger_than(LARGEST_CIRCLE, &graph.edges()) {
                let files = counts.entry(format!("files-in-circles {}", house(&package.name)));
                *files.or_default() += circle.len();
                println!("{}: {} files import each other in a circle", package.name, circle.len());
                if is_list {
                    list_circle(&graph, &circle);
                }
            }
        }
    }
    wrong.extend(compare(&counts, &ledger()?));
    if wrong.is_empty() {
        println!("layers: {} crates know only what they may", packages.len());
        return Ok(());
    }
    Err(wrong.join("\n"))
}

/// What a crate is counted as: those that are cut from one another count together.
fn house(name: &str) -> &str {
    match name {
        "nnburst-kernels" => "executor",
        "nnburst-driver" | "nnburst-cpu" | "nnburst-driver-sample" => "driver",
        name => name.trim_start_matches("nnburst-"),
    }
}

fn list(is_list: bool, places: &[Layered]) {
    for place in places.iter().filter(|_| is_list) {
        println!("{place}");
    }
}

/// Prints the files of a circle and what each of them imports within it.
fn list_circle(graph: &ImportGraph, circle: &[usize]) {
    let edges = graph.edges();
    for &file in circle {
        println!("    {} imports", graph.file(file).display());
        let imports = edges.get(file).map(Vec::as_slice).unwrap_or_default();
        for &other in imports.iter().filter(|other| circle.contains(other)) {
            println!("        {}", graph.file(other).display());
        }
    }
}

/// The workspace's crates, by cargo.
fn packages() -> Result<Vec<Package>, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let empty = Vec::new();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let listed = metadata["packages"].as_array().unwrap_or(&empty);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = listed.iter().map(|package| text(&package["name"])).collect();
    let of = |package: &Value| {
        let mut knows: Vec<String> = array(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].is_null() || dependency["kind"] == "build")
            .map(|dependency| text(&dependency["name"]))
            .filter(|name| names.contains(name))
            .collect();
        knows.dedup();
        let tested_with = array(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"] == "dev" && dependency["req"] != "*")
            .map(|dependency| text(&dependency["name"]))
            .filter(|name| names.contains(name))
            .collect();
        let is_ours = |target: &Value| {
            let kinds = ["lib", "rlib", "cdylib", "bin"];
            array(&target["kind"]).iter().any(|kind| kinds.contains(&text(kind).as_str()))
        };
        let targets = array(&package["targets"]);
        let targets = targets.iter().filter(|target| is_ours(target));
        let roots = targets.map(|target| text(&target["src_path"]).into()).collect();
        Package {
            name: text(&package["name"]),
            knows,
            is_published: package["publish"].as_array().is_none_or(|places| !places.is_empty()),
            has_readme: package["readme"].is_string(),
            tested_with,
            roots,
        }
    };
    Ok(listed.iter().map(of).collect())
}

/// Dependencies that no crate may have.
fn unlisted(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Package { name, knows, .. } in packages {
        if KNOW_ALL.contains(&name.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_KNOW.iter().find(|(known, _)| known == name) else {
            wrong.push(format!("{name}: a new crate; add it to MAY_KNOW in {}", file!()));
            continue;
        };
        for other in knows.iter().filter(|other| !allowed.contains(&other.as_str())) {
            wrong.push(format!("{name} depends on {other}; it may know {}", allowed.join(", ")));
        }
    }
    wrong
}

/// Reasons why `cargo publish --workspace` would fail or leave readers without a page. A crate for
/// tests with a version must be published before the crate that it tests, which may be a circle.
fn unpublishable(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| package.is_published) {
        let name = &package.name;
        if !package.has_readme {
            wrong.push(format!("{name}: its manifest names no README"));
        }
        for other in &package.tested_with {
            wrong.push(format!(
                "{name}: the dev-dependency {other} has a version; `path` is enough"
            ));
        }
    }
    wrong
}

/// The numbers of `layers.txt`, by what they count.
fn ledger() -> Result<BTreeMap<String, usize>, String> {
    let path = root().join(LEDGER);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{LEDGER}: {error}"))?;
    parse(&text, &path)
}

fn parse(text: &str, path: &Path) -> Result<BTreeMap<String, usize>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let entry = line
                .rsplit_once(' ')
                .and_then(|(what, number)| Some((what.trim().to_owned(), number.parse().ok()?)));
            entry.ok_or_else(|| format!("{}: expected NAME NUMBER, not {line:?}", path.display()))
        })
        .collect()
}

/// What counts more than the ledger lets pass. What counts less is printed.
fn compare(found: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, &count) in found {
        let most = allowed.get(what).copied().unwrap_or(0);
        if count > most {
            wrong.push(format!("{what}: {count}, expected at most {most} (`--list` shows them)"));
        }
    }
    for (what, &most) in allowed {
        let count = found.get(what).copied().unwrap_or(0);
        if count < most {
            println!("{LEDGER}: {what} can be lowered from {most} to {count}");
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_ledger_only_shrink() {
        let path = Path::new("ledger");
        let allowed = parse("# why\ncircles a 2\nimports-up executor 7\n", path).unwrap();
        let found = |count| BTreeMap::from([("circles a".to_owned(), count)]);
        assert!(compare(&found(2), &allowed).is_empty());
        assert!(compare(&found(1), &allowed).is_empty());
        assert_eq!(compare(&found(3), &allowed).len(), 1);
        assert_eq!(compare(&BTreeMap::from([("circles b".to_owned(), 1)]), &allowed).len(), 1);
        assert!(parse("circles", path).is_err() && parse("circles a many", path).is_err());
    }

    #[test]
    fn unknown_dependencies_and_crates_are_found() {
        let package = |name: &str, knows: &[&str]| Package {
            name: name.into(),
            knows: knows.iter().map(|&name| name.to_owned()).collect(),
            is_published: true,
            has_readme: true,
            tested_with: Vec::new(),
            roots: Vec::new(),
        };
        assert!(unlisted(&[package("nnburst-hal", &["nnburst-fmq"])]).is_empty());
        let wrong = unlisted(&[
            package("nnburst-hal", &["nnburst-burst"]),
            package("nnburst-new", &[]),
            package("benches", &["nnburst-new"]),
        ]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn crates_that_can_not_be_published_are_found() {
        let package = |is_published, has_readme, tested_with: &[&str]| Package {
            name: "nnburst-new".into(),
            knows: Vec::new(),
            is_published,
            has_readme,
            tested_with: tested_with.iter().map(|&name| name.to_owned()).collect(),
            roots: Vec::new(),
        };
        let wrong = |package| unpublishable(&[package]).len();
        assert_eq!(wrong(package(true, true, &[])), 0);
        assert_eq!(wrong(package(true, false, &["nnburst-hal"])), 2);
        assert_eq!(wrong(package(false, false, &["nnburst-hal"])), 0);
    }
}
