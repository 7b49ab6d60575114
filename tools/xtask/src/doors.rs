//! `cargo xtask doors`: builds and tests the plugins by which other people's programs come in. A
//! door whose tools are missing is left out with the reason, or fails where `NNBURST_REQUIRE` names
//! the tool.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{Outcome, root, target_folder};
use crate::steps::Steps;
use crate::symbols::is_installed;
use crate::wheels::Wheels;
use crate::workspace::{self, Tests};

/// A folder of `doors/`.
struct Door {
    name: &'static str,
    /// Programs that building and testing it takes, with their packages of Debian.
    tools: &'static [(&'static str, &'static str)],
    /// The packages whose tests belong to it, all of which `ci` runs.
    packages: &'static [&'static str],
    /// What takes more than cargo, once those have passed.
    run: fn() -> Outcome,
}

const DOORS: &[Door] = &[
    Door {
        name: "ladspa",
        tools: &[("python3", "python3")],
        packages: &["nnburst-doors-common", "nnburst-denoise", "nnburst-ladspa"],
        run: ladspa,
    },
    Door {
        name: "gstreamer",
        tools: &[("pkg-config", "pkg-config"), ("gst-launch-1.0", "gstreamer1.0-tools")],
        packages: &["nnburst-pictures", "nnburst-gstreamer"],
        run: || Ok(()),
    },
    Door { name: "python", tools: &[("python3", "python3")], packages: &[], run: python },
    Door { name: "dora", tools: &[("python3", "python3")], packages: &[], run: crate::dora::run },
    Door {
        name: "tflite-delegate",
        tools: &[("python3", "python3")],
        packages: &["nnburst-tflite-delegate"],
        run: tflite_delegate,
    },
];

const USAGE: &str = "usage: cargo xtask doors [--without-tests] [NAME ..]
  --without-tests  leave out the workspace's own tests of the doors, which `ci` runs";

/// Builds and tests those doors that are named, or all.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (options, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with('-'));
    if options.iter().any(|option| *option != "--without-tests") {
        return Err(USAGE.to_owned());
    }
    let has_tests = options.is_empty();
    let unknown = names.iter().find(|name| DOORS.iter().all(|door| door.name != name.as_str()));
    if let Some(unknown) = unknown {
        let known: Vec<_> = DOORS.iter().map(|door| door.name).collect();
        return Err(format!("no door is called `{unknown}`; there are {}", known.join(", ")));
    }
    let chosen = |door: &&Door| names.is_empty() || names.iter().any(|name| *name == door.name);
    let mut steps = Steps::default();
    for Door { name, tools, packages, run } in DOORS.iter().filter(chosen) {
        let mut is_complete = true;
        for (program, package) in *tools {
            is_complete &= is_installed(program, package)?;
        }
        if !is_complete {
            println!("left out: the door {name}");
            continue;
        }
        steps.take(name, || {
            if has_tests && !packages.is_empty() {
                Tests { packages, ..Tests::default() }.run(name)?;
            }
            run()
        })?;
    }
    Ok(())
}

/// The LADSPA plugin in the hosts of Debian that are there.
fn ladspa() -> Outcome {
    let models = shared().join("models");
    if !models.is_dir() {
        println!("left out: the hosts of the LADSPA plugin (no models in {})", models.display());
        return Ok(());
    }
    let built = built("ladspa")?;
    let hosts = root().join("doors/ladspa/tests/hosts.sh");
    println!("== ladspa: {}", hosts.display());
    let ended = Command::new(&hosts)
        .args([built.libraries.join("libnnburst_ladspa.so"), models])
        .env("NNBURST_DRIVER", built.program)
        .status()
        .map_err(|error| format!("{}: {error}", hosts.display()))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", hosts.display())) }
}

/// What the doors are tested with.
pub(crate) struct Built {
    /// The folder of libraries.
    pub(crate) libraries: PathBuf,
    /// The command.
    pub(crate) program: PathBuf,
}

/// Builds all libraries and programs of the workspace with the features that its tests have.
pub(crate) fn built(what: &str) -> Result<Built, String> {
    workspace::build_all(what)?;
    let target = target_folder().canonicalize().map_err(|error| format!("{what}: {error}"))?;
    // Cargo's programs have two hard links, and below `/tmp` a program with two isn't executed. The
    // copy lies where no other build makes it such a one again.
    let (libraries, doors) = (target.join("debug"), target.join("doors"));
    let (built, program, new) =
        (libraries.join("nnburst"), doors.join("nnburst"), doors.join("nnburst.new"));
    std::fs::create_dir_all(&doors)
        .and_then(|()| std::fs::copy(&built, &new))
        .and_then(|_| std::fs::rename(&new, &program))
        .map_err(|error| format!("{} as {}: {error}", built.display(), program.display()))?;
    Ok(Built { libraries, program })
}

/// The folder of models and recordings, which may not be there.
fn shared() -> PathBuf {
    let given = std::env::var_os("NNBURST_SHARED").map(PathBuf::from);
    given.unwrap_or_else(|| root().join("../shared"))
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

/// The delegate in a host of C, and in the interpreters of PyPI.
fn tflite_delegate() -> Outcome {
    let door = "tflite-delegate";
    let built = built(door)?;
    let (library, driver) = (built.libraries.join("libnnburst_tflite.so"), built.program);
    let named = [("NNBURST_DELEGATE", library.as_os_str()), ("NNBURST_DRIVER", driver.as_os_str())];
    delegate_host(door, &[], &named)?;
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
            .arg(root().join("doors/tflite-delegate/tests"))
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

/// The tests of the delegate in a host of C, which need `NNBURST_DELEGATE` among their variables.
pub(crate) fn delegate_host(what: &str, names: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let packages = &["nnburst-tflite-delegate"];
    let args = &[&["--ignored"], names].concat();
    Tests { packages, targets: &["host"], args, variables }.run(what)
}

/// The Python package: its wheel with the workspace's command, built as pip does, in an environment
/// of its own.
fn python() -> Outcome {
    let program = built("python")?.program;
    let script = root().join("doors/python/tests/package.sh");
    println!("== python: {}", script.display());
    let ended = Command::new(&script)
        .args([target_folder().join("python"), program])
        .env("CARGO_TARGET_DIR", target_folder())
        .env("NNBURST_SHARED", shared())
        .status()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", script.display())) }
}
