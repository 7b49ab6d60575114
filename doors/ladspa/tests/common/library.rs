//! A host's view of the shared library.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

#[path = "../../src/abi.rs"]
mod abi;

use std::ffi::{CStr, c_char, c_ulong};
use std::path::{Path, PathBuf};
use std::ptr::from_ref;

use abi::{Descriptor, Handle};

/// A copy of the library in a directory of its own, loaded.
pub struct Library {
    loaded: libloading::Library,
    path: PathBuf,
    // Removed after the library was closed.
    _dir: tempfile::TempDir,
}

impl Library {
    /// Without networks.
    pub fn load() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap())
    }

    /// With networks in the directory `dtln` beside it.
    pub fn with_networks(shared: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy_networks(shared, &dir.path().join("dtln"));
        Self::in_dir(dir)
    }

    /// With networks from a folder that has them under the names that the plugin looks for.
    pub fn with_networks_of(models: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("dtln");
        std::fs::create_dir(&to).unwrap();
        for name in ["dtln_1.tflite", "dtln_2.tflite"] {
            let bytes = std::fs::read(models.join(name)).unwrap();
            std::fs::write(to.join(name), bytes).unwrap();
        }
        Self::in_dir(dir)
    }

    fn in_dir(dir: tempfile::TempDir) -> Self {
        // Cargo builds it beside the test's program; an example's is in the next folder.
        let program = std::env::current_exe().unwrap();
        let built = ["libnnburst_ladspa.so", "../deps/libnnburst_ladspa.so"];
        let mut built = built.iter().map(|name| program.parent().unwrap().join(name));
        let built = built.find(|built| built.is_file()).unwrap();
        let path = dir.path().join("nnburst.so");
        std::fs::copy(built, &path).unwrap();
        // SAFETY: our own library; it does nothing when it is loaded.
        let loaded = unsafe { libloading::Library::new(&path) }.unwrap();
        Self { loaded, path, _dir: dir }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn plugin(&self, index: u64) -> Option<Plugin<'_>> {
        type Find = unsafe extern "C" fn(c_ulong) -> *const Descriptor;
        // SAFETY: LADSPA's one function, of this type.
        let find = unsafe { self.loaded.get::<Find>(b"ladspa_descriptor") }.unwrap();
        // SAFETY: any index will do; what it returns lives as long as the library.
        unsafe { find(index).as_ref() }.map(|descriptor| Plugin { descriptor })
    }

    /// Unloads it.
    pub fn close(self) {
        self.loaded.close().unwrap();
    }
}

/// Copies both networks of the shared models into a directory, under the names that are looked for.
pub fn copy_networks(shared: &Path, dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    for number in ["1", "2"] {
        let from = shared.join(format!("dtln_float_{number}/model.tflite"));
        let bytes = std::fs::read(from).unwrap();
        std::fs::write(dir.join(format!("dtln_{number}.tflite")), bytes).unwrap();
    }
}

pub fn recording(path: &Path) -> Vec<f32> {
    let mut reader = hound::WavReader::open(path).unwrap();
    reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect()
}

#[derive(Clone, Copy)]
pub struct Plugin<'library> {
    descriptor: &'library Descriptor,
}

fn text(text: *const c_char) -> String {
    // SAFETY: a descriptor's texts are static and end with a zero.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

impl<'library> Plugin<'library> {
    pub fn label(&self) -> String {
        text(self.descriptor.label)
    }

    pub fn port_names(&self) -> Vec<String> {
        let count = usize::try_from(self.descriptor.port_count).unwrap();
        // SAFETY: there are as many names as ports.
        let names = unsafe { std::slice::from_raw_parts(self.descriptor.port_names, count) };
        names.iter().map(|&name| text(name)).collect()
    }

    /// An instance with its control ports connected, activated; of the mono plugin.
    pub fn instantiate(&self, rate: u64) -> Option<Instance<'library>> {
        let descriptor = self.descriptor;
        // SAFETY: the plugin's own function and descriptor.
        let handle = unsafe { descriptor.instantiate.unwrap()(from_ref(descriptor), rate) };
        if handle.is_null() {
            return None;
        }
        let mut controls = Box::new([1.0, 100.0, -1.0, -1.0]);
        for (at, value) in controls.iter_mut().enumerate() {
            let port = c_ulong::try_from(2 + at).unwrap();
            // SAFETY: an instance, and a value that lives as long.
            unsafe { descriptor.connect_port.unwrap()(handle, port, value) };
        }
        // SAFETY: an instance.
        unsafe { descriptor.activate.unwrap()(handle) };
        Some(Instance { descriptor, handle, controls })
    }
}

pub struct Instance<'library> {
    descriptor: &'library Descriptor,
    handle: Handle,
    controls: Box<[f32; 4]>,
}

impl Instance<'_> {
    pub fn run(&mut self, heard: &[f32]) -> Vec<f32> {
        let mut sound = heard.to_vec();
        self.run_in_place(&mut sound);
        sound
    }

    pub fn run_in_place(&mut self, sound: &mut [f32]) {
        let Descriptor { connect_port, run, .. } = self.descriptor;
        let samples = c_ulong::try_from(sound.len()).unwrap();
        // SAFETY: an instance, a buffer of as many samples for both ports.
        unsafe {
            connect_port.unwrap()(self.handle, 0, sound.as_mut_ptr());
            connect_port.unwrap()(self.handle, 1, sound.as_mut_ptr());
            run.unwrap()(self.handle, samples);
        }
    }

    pub fn activate(&mut self) {
        // SAFETY: an instance.
        unsafe { self.descriptor.activate.unwrap()(self.handle) };
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    pub fn latency(&self) -> usize {
        self.controls[2] as usize
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    pub fn misses(&self) -> u64 {
        self.controls[3] as u64
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // SAFETY: an instance, not used any more.
        unsafe { self.descriptor.cleanup.unwrap()(self.handle) };
    }
}
