//! Which installed file belongs to which package of Debian.

use std::path::Path;

/// A package and what belongs to it.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) section: &'static str,
    /// One line of at most 80 characters.
    pub(super) summary: &'static str,
    /// Sentences about its use.
    pub(super) description: &'static str,
    /// Paths from the root that it has, or folders; `LIBDIR` is the folder of the machine's
    /// libraries.
    paths: &'static [&'static str],
    /// Other packages of this build, of the same version.
    pub(super) depends: &'static [&'static str],
    pub(super) recommends: &'static [&'static str],
    /// Its libraries are found by the loader: they are in the folder that `ldconfig` reads.
    pub(super) has_libraries: bool,
    /// Whether packages for several machines can be installed side by side; otherwise one serves
    /// them all.
    pub(super) multi_arch: &'static str,
    /// Complaints of lintian that are the contract of what is packaged: tag, then why.
    pub(super) overrides: &'static [(&'static str, &'static str)],
}

const PLUGIN: Package = Package {
    name: "",
    section: "libs",
    summary: "",
    description: "",
    paths: &[],
    depends: &[],
    recommends: &["nnburst"],
    has_libraries: false,
    multi_arch: "same",
    overrides: &[],
};

/// Why a library's name has no number: who loads it by its name doesn't ask for one.
const UNNUMBERED: &str = "programs load it by this name, which is Android's";

/// All packages; a file belongs to the first that names it or its folder.
pub(super) const PACKAGES: &[Package] = &[
    Package {
        name: "nnburst",
        section: "science",
        summary: "neural network inference in microseconds, by drivers of their own",
        description: "The command nnburst: drivers as services, networks run, measured and compared. Drivers are processes of their own that give up files, sockets and programs before their first client, and are called through queues in shared memory.",
        paths: &[
            "usr/bin/nnburst",
            "usr/lib/systemd",
            "usr/lib/sysusers.d",
            "usr/share/bash-completion",
            "usr/share/doc/nnburst/examples",
            "usr/share/fish",
            "usr/share/man/man1",
            "usr/share/nnburst",
            "usr/share/zsh",
        ],
        recommends: &[],
        multi_arch: "foreign",
        ..PLUGIN
    },
    Package {
        name: "libneuralnetworks1",
        summary: "Android's Neural Networks API for Linux",
        description: "The C library of Android's NDK (ANeuralNetworks_*), with a driver for this machine's processors in it; other drivers are found as services.",
        paths: &["LIBDIR/libneuralnetworks.so"],
        has_libraries: true,
        overrides: &[
            ("package-name-doesnt-match-sonames", UNNUMBERED),
            ("shared-library-lacks-version", UNNUMBERED),
            ("no-shlibs", UNNUMBERED),
        ],
        ..PLUGIN
    },
    Package {
        name: "libneuralnetworks-dev",
        section: "libdevel",
        summary: "headers of Android's Neural Networks API",
        description: "Headers and pkg-config file of libneuralnetworks.so, with those of the vendor extensions of its drivers.",
        paths: &[
            "LIBDIR/pkgconfig/neuralnetworks.pc",
            "usr/include/android",
            "usr/include/extensions",
            "usr/include/NeuralNetworks.h",
            "usr/include/NeuralNetworksDiagnostic.h",
            "usr/include/NeuralNetworksExtensions.h",
            "usr/include/NeuralNetworksOEM.h",
        ],
        depends: &["libneuralnetworks1"],
        recommends: &[],
        ..PLUGIN
    },
    Package {
        name: "libnnburst-fmq1",
        summary: "lock-free message queues in shared memory",
        description: "The C library of the fast message queue: a ring for one writer and one reader (or several, not synchronised), with event flags, between processes.",
        paths: &["LIBDIR/libnnburst_fmq_c.so"],
        recommends: &[],
        has_libraries: true,
        overrides: &[
            ("package-name-doesnt-match-sonames", "it has no number before version 1"),
            ("shared-library-lacks-version", "it has no number before version 1"),
            ("no-shlibs", "it has no number before version 1"),
        ],
        ..PLUGIN
    },
    Package {
        name: "libnnburst-fmq-dev",
        section: "libdevel",
        summary: "header of the lock-free message queues in shared memory",
        description: "Header and pkg-config file of libnnburst_fmq_c.so.",
        paths: &["LIBDIR/pkgconfig/nnburst-fmq.pc", "usr/include/nnburst_fmq.h"],
        depends: &["libnnburst-fmq1"],
        recommends: &[],
        ..PLUGIN
    },
    Package {
        name: "nnburst-tflite-delegate",
        summary: "TFLite's networks in nnburst's drivers, by an external delegate",
        description: "Loaded by TFLite's interpreters (load_delegate(\"libnnburst_tflite.so\")), it runs the operators that a driver takes on that driver.",
        paths: &["LIBDIR/libnnburst_tflite.so"],
        has_libraries: true,
        overrides: &[
            ("package-name-doesnt-match-sonames", "interpreters load it by this name"),
            ("shared-library-lacks-version", "interpreters load it by this name"),
            ("no-shlibs", "nothing is linked against it"),
        ],
        ..PLUGIN
    },
    Package {
        name: "gstreamer1.0-nnburst",
        summary: "GStreamer elements for neural networks and for speech without noise",
        description: "The elements nnbinference (classification, detection, segmentation and poses on video) and nnbdenoise (speech).",
        paths: &["LIBDIR/gstreamer-1.0"],
        ..PLUGIN
    },
    Package {
        name: "nnburst-ladspa",
        section: "sound",
        summary: "LADSPA plugin that takes the noise out of speech",
        description: "For PipeWire's filter chains, EasyEffects, Audacity, sox and ffmpeg; its network runs in a driver of its own.",
        paths: &["usr/lib/ladspa"],
        multi_arch: "no",
        ..PLUGIN
    },
    Package {
        name: "nnburst-dbg",
        section: "debug",
        summary: "debug symbols of nnburst's programs and libraries",
        description: "Names and lines of functions, which gdb and perf find by the build-id of a program.",
        paths: &["usr/lib/debug"],
        recommends: &[],
        ..PLUGIN
    },
];

impl Package {
    /// Whether a file, by its path from the root, belongs to the package.
    fn has(&self, file: &Path, libdir: &Path) -> bool {
        let named = self.paths.iter().map(|path| match path.strip_prefix("LIBDIR/") {
            Some(below) => libdir.join(below),
            None => path.into(),
        });
        named.into_iter().any(|path| file.starts_with(path))
    }
}

/// The package that a file belongs to.
pub(super) fn owner(file: &Path, libdir: &Path) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| package.has(file, libdir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_one_package() {
        let libdir = Path::new("usr/lib/aarch64-linux-gnu");
        for (file, package) in [
            ("usr/bin/nnburst", "nnburst"),
            ("usr/lib/aarch64-linux-gnu/libneuralnetworks.so", "libneuralnetworks1"),
            ("usr/lib/aarch64-linux-gnu/gstreamer-1.0/libgstnnburst.so", "gstreamer1.0-nnburst"),
            ("usr/include/NeuralNetworks.h", "libneuralnetworks-dev"),
            ("usr/lib/debug/.build-id/00/11.debug", "nnburst-dbg"),
        ] {
            assert_eq!(
                owner(file.as_ref(), libdir).map(|found| found.name),
                Some(package),
                "{file}"
            );
        }
        assert!(owner("usr/lib/x86_64-linux-gnu/libneuralnetworks.so".as_ref(), libdir).is_none());
    }
}
