//! `cargo xtask doors`: builds and tests the plugins by which other people's programs come in. A
//! door whose tools are missing is left out with the reason, or fails where `NNBURST_REQUIRE` names
//! the tool.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, target_folder, workspace};
use crate::symbols::is_installed;

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
    let packages = ["-p", "nnburst-doors-common", "-p", "nnburst-denoise", "-p", "nnburst-ladspa"];
    Cargo::new("ladspa").args(["test"]).args(packages).run()?;
    let built = ["build", "-p", "nnburst-ladspa", "-p", "nnburst-cli"];
    Cargo::new("ladspa").args(built).run()?;
    let shared = std::env::var_os("NNBURST_SHARED").map(Into::into);
    let models = shared.unwrap_or_else(|| workspace().join("../shared")).join("models");
    if !models.is_dir() {
        println!("left out: the hosts of the LADSPA plugin (no models in {})", models.display());
        return Ok(());
    }
    let built = target_folder().join("debug");
    let hosts = workspace().join("doors/ladspa/tests/hosts.sh");
    println!("== ladspa: {}", hosts.display());
    let ended = Command::new(&hosts)
        .args([built.join("libnnburst_ladspa.so"), models])
        .env("NNBURST_DRIVER", built.join("nnburst"))
        .status()
        .map_err(|error| format!("{}: {error}", hosts.display()))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", hosts.display())) }
}

/// The libraries that the GStreamer plugin and its tests are built with.
const GSTREAMER: [&str; 5] = [
    "gstreamer-base-1.0 >= 1.22",
    "gstreamer-video-1.0",
    "gstreamer-audio-1.0",
    "gstreamer-allocators-1.0",
    "gstreamer-check-1.0",
];

/// The GStreamer plugin, a workspace of its own; its tests start gst-launch, and compare labels with
/// those of the command.
fn gstreamer() -> Outcome {
    let there = Command::new("pkg-config").arg("--exists").args(GSTREAMER).status();
    if !there.is_ok_and(|status| status.success()) {
        let packages = "libgstreamer1.0-dev, libgstreamer-plugins-base1.0-dev";
        println!("left out: the door gstreamer, as its headers are missing ({packages})");
        return Ok(());
    }
    Cargo::new("gstreamer").args(["build", "-p", "nnburst-cli"]).run()?;
    let folder = workspace().join("doors/gstreamer");
    let lints = ["clippy", "--all-targets", "--", "-D", "warnings"];
    for args in [&["fmt", "--check"][..], &lints, &["test"]] {
        Cargo::new("gstreamer")
            .args(args)
            .in_folder(&folder)
            .env("NNBURST_CLI", target_folder().join("debug/nnburst"))
            // Tests find the plugin beside themselves, and both workspaces build for themselves.
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .run()?;
    }
    Ok(())
}
