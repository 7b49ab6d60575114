//! Valid random graphs on drivers in processes of their own, one for each kernel form: however an
//! execution is asked for, the same bytes come back, and where results are exact, from every form
//! the same.
//!
//! `NNBURST_SEED` runs one graph alone, `NNBURST_ROUNDS` more of them than the few of CI.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nnburst::hal::PrepareOptions;
use nnburst::{BurstOptions, Compilation, Device, DriverOptions, Frame};
use nnburst_conformance::{Case, write_file};
use nnburst_executor::Isa;
use nnburst_executor::testing::{Element, RandomModel, TestRng, random_model, shrink};

/// A driver whose kernels are of one form at most.
fn driver(dir: &Path, isa: Isa) -> Device {
    // A script stands for the program, because the form is told by the environment.
    let script = dir.join(format!("{isa:?}.sh"));
    let name = format!("{isa:?}").to_lowercase();
    let text =
        format!("#!/bin/sh\nNNBURST_ISA={name} exec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_nnburst"));
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = DriverOptions { program: Some(script), ..DriverOptions::default() };
    Device::spawn_with("nnapi-sample_all", &options).unwrap()
}

/// The bytes of every output.
type Values = Vec<Vec<u8>>;

fn filled(compilation: &Compilation, random: &RandomModel) -> Frame {
    let mut frame = compilation.frame().unwrap();
    for (index, bytes) in random.inputs.iter().enumerate() {
        frame.write_bytes(index, bytes).unwrap();
    }
    frame
}

fn values(frame: &Frame) -> Values {
    (0..frame.output_shapes().len()).map(|index| frame.read_bytes(index).unwrap()).collect()
}

/// The outputs by every mode, with its name.
fn every_way(device: &Device, random: &RandomModel) -> Vec<(&'static str, Values)> {
    let compilation = device.compile(&random.model, PrepareOptions::default()).unwrap();
    let outputs = compilation.outputs().len();
    let read = |frame: &Frame| -> Values {
        (0..outputs).map(|index| frame.read_bytes(index).unwrap()).collect()
    };
    let mut frame = filled(&compilation, random);
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(values(&frame).len(), outputs);
    let mut all = vec![("sync", read(&frame))];

    let event = compilation.execution().start(filled(&compilation, random)).unwrap();
    let (frame, done) = event.wait();
    done.unwrap();
    all.push(("async", read(&frame)));

    let frame = filled(&compilation, random);
    let (frame, done) = compilation.execution().start_fenced(frame, Vec::new()).unwrap().wait();
    done.unwrap();
    all.push(("fenced", read(&frame)));

    let mut burst = compilation.burst(&BurstOptions::default()).unwrap();
    let mut frame = filled(&compilation, random);
    for what in ["burst", "burst, again"] {
        burst.compute(&mut frame).unwrap();
        all.push((what, read(&frame)));
    }
    all
}

/// What a random model that fails is left as is what `nnburst vts` runs.
#[test]
fn a_random_model_is_a_case_for_vts() {
    let device = Device::embedded("nnapi-sample_all").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for element in Element::ALL {
        let random = random_model(&mut TestRng::of_seed(3), element, 5);
        let compilation = device.compile(&random.model, PrepareOptions::default()).unwrap();
        let mut frame = filled(&compilation, &random);
        compilation.execution().compute(&mut frame).unwrap();
        let mut outputs = values(&frame);
        let RandomModel { model, inputs } = random;
        let name = format!("{element:?}");
        cases.push(Case::of_values(
            "random",
            &name,
            model.clone(),
            inputs.clone(),
            outputs.clone(),
        ));
        // A wrong kernel's answer.
        outputs.iter_mut().for_each(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x55));
        cases.push(Case::of_values("random", &format!("{name} wrong"), model, inputs, outputs));
    }
    write_file(&dir.path().join("random.json.gz"), "random", &cases).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nnburst")).arg("vts").arg(dir.path()).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let count = Element::ALL.len();
    let tally = format!("{count} passed, {count} failed, 0 skipped");
    assert!(said.lines().last() == Some(tally.as_str()), "{said}");
}

#[test]
fn random_graphs_give_the_same_on_every_path() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("NNBURST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("NNBURST_ROUNDS").unwrap_or(8)).collect(),
    };
    let dir = tempfile::tempdir().unwrap();
    let drivers: Vec<(Isa, Device)> =
        Isa::all().map(|isa| (isa, driver(dir.path(), isa))).collect();
    for &seed in &seeds {
        for element in Element::ALL {
            let random = random_model(&mut TestRng::of_seed(seed), element, 50);
            if let Some(what) = difference(&drivers, element, &random) {
                let fails = |part: &RandomModel| difference(&drivers, element, part).is_some();
                let folder = leave(&random, &format!("{element:?}_{seed}"), fails);
                panic!("{element:?} {seed}: {what}; nnburst vts {}", folder.display());
            }
        }
    }
}

/// The first difference between modes of one driver, or where results are exact, between drivers.
fn difference(drivers: &[(Isa, Device)], element: Element, random: &RandomModel) -> Option<String> {
    let mut first: Option<Values> = None;
    for (isa, device) in drivers {
        let all = every_way(device, random);
        let (_, sync) = &all[0];
        if let Some((mode, _)) = all.iter().find(|(_, values)| values != sync) {
            return Some(format!("{isa:?}: {mode} differs from sync"));
        }
        let first = first.get_or_insert_with(|| sync.clone());
        if element.is_exact() && first != sync {
            return Some(format!("{isa:?} differs from {:?}", drivers[0].0));
        }
    }
    None
}

/// Writes the smallest part of a model that fails as a conformance case; what `nnburst vts` is to
/// be given. Its outputs are those of the reference device.
fn leave(random: &RandomModel, name: &str, fails: impl Fn(&RandomModel) -> bool) -> PathBuf {
    let reference = |part: &RandomModel| {
        let compilation = Device::reference().compile(&part.model, PrepareOptions::default());
        let compilation = compilation.ok()?;
        let mut frame = filled(&compilation, part);
        compilation.execution().compute(&mut frame).ok()?;
        Some(values(&frame))
    };
    let small = shrink(random, fails, reference);
    let outputs = reference(&small).unwrap_or_default();
    let case = Case::of_values("random", name, small.model, small.inputs, outputs);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed").join(name);
    write_file(&folder.join("random.json.gz"), "random", &[case]).unwrap();
    folder
}

/// A failure of one operation is left as that operation, and runs.
#[test]
fn what_fails_is_left_as_small_as_it_fails() {
    let random = random_model(&mut TestRng::of_seed(5), Element::ALL[0], 20);
    let last = random.model.main.operations.last().unwrap().kind;
    let fails = |part: &RandomModel| part.model.main.operations.iter().any(|it| it.kind == last);
    let folder = leave(&random, "left", fails);
    let cases = nnburst_conformance::load_file(&folder.join("random.json.gz")).unwrap();
    assert_eq!(cases[0].model.main.operations.len(), 1);
    let output = Command::new(env!("CARGO_BIN_EXE_nnburst")).arg("vts").arg(&folder).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(said.lines().last(), Some("1 passed, 0 failed, 0 skipped"), "{said}");
}
