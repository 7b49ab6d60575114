//! What the library exports is what the headers declare, and what the linker's map lists, no more
//! and no less.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::common;

const HEADERS: &[(&str, &[&str])] = &[
    ("NeuralNetworks.h", &["LIBNEURALNETWORKS", "NNBURST_1"]),
    ("NeuralNetworksDiagnostic.h", &["LIBNEURALNETWORKS_SUPPORT_LIBRARY"]),
    ("NeuralNetworksExtensions.h", &["LIBNEURALNETWORKS_PLATFORM"]),
    ("android/hardware_buffer.h", &["LIBNATIVEWINDOW", "NNBURST_1"]),
];

fn read(name: &str) -> String {
    std::fs::read_to_string(common::here().join(name)).unwrap()
}

/// The functions that a header declares: names before a parenthesis, outside of comments.
fn declared(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let text = read(&format!("include/{header}"));
    for (at, part) in text.split("/*").enumerate() {
        code.push_str(if at == 0 { part } else { part.split_once("*/").unwrap().1 });
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices('(')
        .map(|(at, _)| {
            let before = code[..at].trim_end_matches(|c| !is_part(c));
            let start = before.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
            before[start..].to_owned()
        })
        .filter(|name| {
            ["ANeuralNetworks", "AHardwareBuffer_", "SL_", "nnburst_"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        // Types of functions, not functions.
        .filter(|name| !name.ends_with("Callback"))
        .collect()
}

/// The map's functions, by version.
pub(crate) fn mapped() -> BTreeMap<String, BTreeSet<String>> {
    let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut node = String::new();
    for line in read("libneuralnetworks.map").lines() {
        let line = line.trim();
        if let Some(name) = line.strip_suffix(" {") {
            node = name.to_owned();
        } else if let Some(name) = line.strip_suffix(';').filter(|name| !name.contains(['}', '*']))
        {
            nodes.entry(node.clone()).or_default().insert(name.to_owned());
        }
    }
    nodes
}

/// The functions that a library exports, by version. The versions are symbols themselves.
pub(crate) fn exported(library: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let listed = common::run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let mut exported: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in listed.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(kind), Some(symbol)) = (words.next(), words.next()) else { continue };
        let (name, version) = symbol.split_once("@@").unwrap_or((symbol, "no version"));
        if kind != "A" {
            exported.entry(version.to_owned()).or_default().insert(name.to_owned());
        }
    }
    exported
}

#[test]
fn the_headers_declare_what_the_map_lists() {
    let mapped = mapped();
    let mut declared_anywhere = BTreeSet::new();
    for (header, versions) in HEADERS {
        for name in declared(header) {
            let listed = versions.iter().any(|version| mapped[*version].contains(&name));
            assert!(listed, "{header}: {name} is not in the map under {versions:?}");
            declared_anywhere.insert(name);
        }
    }
    let all: BTreeSet<String> = mapped.into_values().flatten().collect();
    assert_eq!(all, declared_anywhere);
    let api = all.iter().filter(|name| name.starts_with("ANeuralNetworks"));
    assert_eq!(api.count(), 66, "functions through level 30");
}

/// The dynamic section's entries of a 64-bit little-endian ELF file: tag and value.
fn dynamic_entries(elf: &[u8]) -> Vec<(u64, u64)> {
    let u64_at = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let offset = |at: usize| usize::try_from(u64_at(at)).unwrap();
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01", "64 bits, little-endian");
    // Elf64_Ehdr: e_phoff, e_phentsize, e_phnum. Elf64_Phdr: p_type, p_offset, p_filesz.
    let (table, size, count) = (offset(32), u16_at(54), u16_at(56));
    let headers = (0..count).map(|index| table + index * size);
    let pt_dynamic = 2u32.to_le_bytes();
    let header = headers.clone().find(|&at| elf[at..at + 4] == pt_dynamic).unwrap();
    let (start, len) = (offset(header + 8), offset(header + 32));
    (start..start + len).step_by(16).map(|at| (u64_at(at), u64_at(at + 8))).collect()
}

#[test]
fn the_library_is_never_unloaded() {
    const DT_FLAGS_1: u64 = 0x6fff_fffb;
    const DF_1_NODELETE: u64 = 8;
    let entries = dynamic_entries(&std::fs::read(common::library()).unwrap());
    let flags = entries.iter().find(|(tag, _)| *tag == DT_FLAGS_1).map(|(_, value)| *value);
    assert!(flags.is_some_and(|flags| flags & DF_1_NODELETE != 0), "DT_FLAGS_1: {flags:?}");
}

#[test]
fn the_library_exports_what_the_map_lists_under_its_versions() {
    if !common::is_installed("nm") {
        return;
    }
    assert_eq!(exported(&common::library()), mapped());
}

#[test]
fn the_library_is_called_as_programs_link_it() {
    if !common::is_installed("readelf") {
        return;
    }
    let dynamic = common::run(Command::new("readelf").arg("-d").arg(common::library()));
    assert!(dynamic.contains("soname: [libneuralnetworks.so]"), "{dynamic}");
}
