//! `cargo xtask doors`: builds and tests the plugins by which other people's programs come in. A
//! door whose tools are missing is left out with the reason, or fails where `NNBURST_REQUIRE` names
//! the tool.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, target_folder, test_packages, workspace};
use crate::symbols::is_installed;
use crate::wheels::Wheels;

/// A folder of `doors/`.
struct Door {
    name: &'static str,
    /// Programs that building and testing it takes, with their packages of Debian.
    tools: &'static [(&'static str, &'static str)],
    run: fn() -> Outcome,
}

const DOORS: &[Door] = &[
    Door { name: "ladspa", tools: &[("python3", "python3")], run: ladspa },
    Door {
        name: "gstreamer",
        tools: &[("pkg-config", "pkg-config"), ("gst-launch-1.0", "gstreamer1.0-tools")],
        run: gstreamer,
    },
    Door { name: "python", tools: &[("python3", "python3")], run: python },
    Door { name: "tflite-delegate", tools: &[("python3", "python3")], run: tflite_delegate },
];

/// Builds and tests those doors that are named, or all.
pub(crate) fn run(names: &[String]) -> Outcome {
    let unknown = names.iter().find(|name| DOORS.iter().all(|door| door.name != **name));
    if let Some(unknown) = unknown {
        let known: Vec<_> = DOORS.iter().map(|door| door.name).collect();
        return Err(format!("no door is called `{unknown}`; there are {}", known.join(", ")));
    }
    let chosen = |door: &&Door| names.is_empty() || names.iter().any(|name| name == door.name);
    for door in DOORS.iter().filter(chosen) {
        let mut is_complete = true;
        for (program, package) in door.tools {
            is_complete &= is_installed(program, package)?;
        }
        if is_complete {
            (door.run)()?;
        } else {
            println!("left out: the door {}", door.name);
        }
    }
    Ok(())
}

/// The LADSPA plugin: its own tests, then the hosts of Debian that are there.
fn ladspa() -> Outcome {
    let packages = ["nnburst-doors-common", "nnburst-denoise", "nnburst-ladspa"];
    test_packages("ladspa", &packages, &[], &[])?;
    let models = shared().join("models");
    if !models.is_dir() {
        println!("left out: the hosts of the LADSPA plugin (no models in {})", models.display());
        return Ok(());
    }
    let built = target_folder().join("debug");
    let hosts = workspace().join("doors/ladspa/tests/hosts.sh");
    println!("== ladspa: {}", hosts.display());
    let ended = Command::new(&hosts)
        .args([built.join("deps/libnnburst_ladspa.so"), models])
        .env("NNBURST_DRIVER", built.join("nnburst"))
        .status()
        .map_err(|error| format!("{}: {error}", hosts.display()))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", hosts.display())) }
}

/// The folder of models and recordings, which may not be there.
fn shared() -> PathBuf {
    let given = std::env::var_os("NNBURST_SHARED").map(PathBuf::from);
    given.unwrap_or_else(|| workspace().join("../shared"))
}

/// The interpreters that load the delegate, in Pythons that there are wheels for.
const INTERPRETERS: [Wheels; 2] = [
    Wheels {
        name: "tflite-runtime",
        packages: &["tflite-runtime==2.14.0", "numpy<2"],
        module: "tflite_runtime.interpreter",
        pythons: &["python3", "python3.11", "python3.10", "python3.9"],
    },
    Wheels {
        name: "ai-edge-litert",
        packages: &["ai-edge-litert==2.3.0"],
        module: "ai_edge_litert.interpreter",
        pythons: &["python3", "python3.13", "python3.12", "python3.11", "python3.10"],
    },
];

/// The delegate: its own tests, those of the library in a host of C, then in the interpreters of
/// PyPI.
fn tflite_delegate() -> Outcome {
    let door = "tflite-delegate";
    // The library as well, which no test links, with the features that tests have.
    Cargo::new(door).args(["build", "--workspace", "--lib", "--bins", "--tests"]).run()?;
    let built = target_folder().join("debug");
    let built = built.canonicalize().map_err(|error| format!("{}: {error}", built.display()))?;
    let (library, driver) = (built.join("libnnburst_tflite.so"), built.join("nnburst"));
    let named = [("NNBURST_DELEGATE", library.as_os_str()), ("NNBURST_DRIVER", driver.as_os_str())];
    test_packages(door, &["nnburst-tflite-delegate"], &[], &named)?;
    let shared = shared();
    if !shared.join("models").is_dir() {
        println!("left out: the delegate's interpreters (no models in {})", shared.display());
        return Ok(());
    }
    for wheels in INTERPRETERS {
        let Some(python) = wheels.python()? else { continue };
        println!("== {door}: {}", wheels.packages.join(", "));
        let ended = Command::new(&python)
            .args(["-m", "unittest", "discover", "--start-directory"])
            .arg(workspace().join("doors/tflite-delegate/tests"))
            .envs(named)
            .env("NNBURST_SHARED", &shared)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .status()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        if !ended.success() {
            return Err(format!("the tests with {}: {ended}", wheels.name));
        }
    }
    Ok(())
}

/// The libraries that the GStreamer plugin and its tests are built with.
const GSTREAMER: [&str; 5] = [
    "gstreamer-base-1.0 >= 1.22",
    "gstreamer-video-1.0",
    "gstreamer-audio-1.0",
    "gstreamer-allocators-1.0",
    "gstreamer-check-1.0",
];

/// What the feature `v1_26` is built with.
const ANALYTICS: [&str; 2] = ["gstreamer-1.0 >= 1.26", "gstreamer-analytics-1.0 >= 1.26"];

/// The GStreamer plugin, which is behind a feature; its tests start gst-launch, and compare labels
/// with those of the command.
fn gstreamer() -> Outcome {
    let there = Command::new("pkg-config").arg("--exists").args(GSTREAMER).status();
    if !there.is_ok_and(|status| status.success()) {
        let packages = "libgstreamer1.0-dev, libgstreamer-plugins-base1.0-dev";
        println!("left out: the door gstreamer, as its headers are missing ({packages})");
        return Ok(());
    }
    // A build without the feature leaves an empty library of the same name, which cargo would keep.
    let library = target_folder().join("debug/deps/libgstnnburst.so");
    if library.exists() {
        std::fs::remove_file(&library).map_err(|e| format!("{}: {e}", library.display()))?;
    }
    // Analytics metadata, where these headers have it.
    let newer = Command::new("pkg-config").arg("--exists").args(ANALYTICS).status();
    let has_analytics = newer.is_ok_and(|status| status.success());
    let features =
        ["nnburst-gstreamer/testing", "nnburst-gstreamer/testing,nnburst-gstreamer/v1_26"];
    let feature = ["--features", features[usize::from(has_analytics)]];
    let lints = ["clippy", "--workspace", "--all-targets"];
    Cargo::new("gstreamer").args(lints).args(feature).args(["--", "-D", "warnings"]).run()?;
    test_packages("gstreamer", &["nnburst-gstreamer"], &feature, &[])
}

/// The Python package: its wheel, built as pip does, in an environment of its own.
fn python() -> Outcome {
    let script = workspace().join("doors/python/tests/package.sh");
    println!("== python: {}", script.display());
    let ended = Command::new(&script)
        .arg(target_folder().join("python"))
        .env("CARGO_TARGET_DIR", target_folder())
        .env("NNBURST_SHARED", shared())
        .status()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", script.display())) }
}
