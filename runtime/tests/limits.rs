//! What ends although something else never does, or fails without ending everything: silent
//! services, full disks, limits of file sizes. In processes of their own: their environment and
//! limits are theirs alone.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "common/driver.rs"]
mod driver;
#[path = "common/silent.rs"]
mod silent;

use std::path::Path;
use std::process::Command;

use nnburst::hal::{Memory, Operand};
use nnburst::{Caching, CompileOptions, Device, ModelBuilder, Plane, compile_for, load_cached};
use silent::{SILENT, Silent};

const ROLE: &str = "NNBURST_TEST_ROLE";
const DIR: &str = "NNBURST_TEST_DIR";

/// What this binary does when it is started by one of the tests.
#[test]
fn child_main() {
    driver::serve_if_asked();
    let dir = std::env::var_os(DIR).unwrap_or_default();
    match std::env::var(ROLE).as_deref() {
        Ok("lists") => lists(),
        Ok("small files") => small_files(Path::new(&dir)),
        _ => {}
    }
}

fn child(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_main", "--nocapture"]).env(ROLE, role);
    command
}

fn lists() {
    let mut left_out = Vec::new();
    let devices = Device::list_with(|error| left_out.push(error.to_string()));
    assert!(devices.len() > 1 && devices.iter().all(|device| device.name() != SILENT));
    assert!(left_out.iter().any(|why| why.contains(SILENT)), "{left_out:?}");
    assert!(nnburst::devices().iter().all(|device| device.name() != SILENT));
    let lost = Device::connect(SILENT).unwrap_err();
    assert!(lost.is_device_lost(), "{lost}");
}

#[test]
fn a_silent_service_is_left_out_of_lists() {
    let silent = Silent::start();
    let mut command = child("lists");
    command.env("NNBURST_SERVICE_DIR", silent.dir()).env("NNBURST_SERVICE_TIMEOUT", "300");
    assert!(command.status().unwrap().success());
}

/// Compiles a model with 16 KiB of constants, for which the cache has no room once the model is
/// there and `limit` was called.
fn compiles_without_cache(dir: &Path, limit: impl FnOnce()) {
    let mut builder = ModelBuilder::new();
    let input = builder.input(Operand::float32([1, 64]));
    let weights = builder.constant_of(Operand::float32([64, 64]), &[0.5f32; 64 * 64]);
    let bias = builder.constant_of(Operand::float32([64]), &[0.0f32; 64]);
    let output = builder.fully_connected(input, weights, bias).done();
    builder.output(output);
    let model = builder.build().unwrap();
    limit();
    let device = Device::embedded("nnapi-sample_all").unwrap();
    let caching = Some(Caching { dir: dir.to_owned(), token: [7; 32] });
    let options = CompileOptions { caching, ..CompileOptions::default() };
    let compilation = compile_for(&model, std::slice::from_ref(&device), &options).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.0f32; 64]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [32.0; 64]);
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "no partial file is left");
    assert!(load_cached(&model, &device, &options).is_err());
}

fn small_files(dir: &Path) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // Room for a frame, and none for the cache.
    compiles_without_cache(dir, || {
        let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, 8 << 10, most).unwrap();
        let refused = nnburst::Memory::new(1 << 20).unwrap_err().to_string();
        assert!(refused.contains("ftruncate"), "{refused}");
    });
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    // Through a pipe: the limit holds for the file too that this test's own output may go to.
    let output = child("small files").env(DIR, dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The memory of a call is longer than the driver's own files may be.
#[test]
fn a_drivers_limit_of_file_sizes_is_not_its_end() {
    let driver = driver::Driver::start_with(&[(driver::FILE_SIZE, "8192")]);
    let compilation = driver.compile();
    let memory = Memory::ashmem(1 << 20).unwrap();
    let plane = Plane { memory, offset: 1 << 19, rows: None };
    let mut frame = compilation.frame_over(&[], &[Some(plane)]).unwrap();
    for value in [1.0f32, 2.0] {
        frame.write(0, &[value]).unwrap();
        frame.write(1, &[1f32]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [value + 1.0]);
    }
}

#[test]
fn a_full_disk_has_no_cache_and_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(dir.path()).status();
    let mounted = mount(&["-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs"]);
    if !mounted.is_ok_and(|status| status.success()) {
        nnburst_hal::testing::is_there("mount", false);
        return;
    }
    let tested = std::panic::catch_unwind(|| compiles_without_cache(dir.path(), || ()));
    let unmounted = Command::new("umount").arg(dir.path()).status().unwrap();
    assert!(tested.is_ok() && unmounted.success());
}
