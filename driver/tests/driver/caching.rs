//! Compilation caching: what is kept comes back, and nothing else does.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{OFlag, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::sys::uio::{pread, pwrite};
use nix::unistd::{Whence, ftruncate, lseek};
use nnburst_hal::*;

use crate::support::*;

const ALL: &str = CPU;
const TOKEN: [u8; CACHE_TOKEN_BYTES] = [7; CACHE_TOKEN_BYTES];

/// A model file and a data file.
struct Files {
    model: OwnedFd,
    data: OwnedFd,
}

impl Files {
    fn new() -> Self {
        let file = || memfd_create(c"cache", MFdFlags::MFD_CLOEXEC).unwrap();
        Self { model: file(), data: file() }
    }

    /// Other descriptors of the same files.
    fn handles(&self) -> CacheHandles {
        let again = |file: &OwnedFd| vec![file.try_clone().unwrap()];
        CacheHandles { model: again(&self.model), data: again(&self.data), token: TOKEN }
    }

    fn contents(&self) -> [Vec<u8>; 2] {
        [&self.model, &self.data].map(read)
    }

    fn set(&self, [model, data]: &[Vec<u8>; 2]) {
        write(&self.model, model);
        write(&self.data, data);
    }
}

fn read(file: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(FileStatus::of(file).unwrap().size).unwrap()];
    pread(file, &mut bytes, 0).unwrap();
    bytes
}

fn write(file: &OwnedFd, bytes: &[u8]) {
    ftruncate(file, 0).unwrap();
    assert_eq!(pwrite(file, bytes, 0).unwrap(), bytes.len());
}

/// The same file, opened for this alone.
fn reopened(file: &OwnedFd, access: OFlag) -> OwnedFd {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path.as_str(), access | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
}

/// Two units over three inputs: `y = w x + b`, the weights being packed.
fn product(factor: f32) -> Model {
    let weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|weight| weight * factor);
    units_of(&weights, &[0.5, -0.5])
}

/// `y = w x + b`, a unit for each number of `bias`.
fn units_of(weights: &[f32], bias: &[f32]) -> Model {
    let float = OperandType::TensorFloat32;
    let count = |count: usize| u32::try_from(count).unwrap();
    let (units, depth) = (count(bias.len()), count(weights.len() / bias.len()));
    let constant = |kind, dimensions: &[u32], offset, length| {
        let mut operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
        operand.location = DataLocation { pool_index: 0, offset, length };
        operand
    };
    let operands = vec![
        tensor(float, &[1, depth], OperandLifeTime::SubgraphInput),
        constant(float, &[units, depth], 0, 4 * units * depth),
        constant(float, &[units], 4 * units * depth, 4 * units),
        constant(OperandType::Int32, &[], 4 * units * (depth + 1), 4),
        tensor(float, &[1, units], OperandLifeTime::SubgraphOutput),
    ];
    let numbers = weights.iter().chain(bias).flat_map(|number: &f32| number.to_le_bytes());
    model(operands, OperationType::FullyConnected, numbers.chain(0i32.to_le_bytes()).collect())
}

fn run(prepared: &dyn PreparedModel) -> Vec<f32> {
    let (input, output) = (floats(&[1.0, 10.0, 100.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    prepared.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
    as_floats(&output)
}

const WANT: [f32; 2] = [321.5, 653.5];

fn save(device: &dyn Device, model: Model, cache: CacheHandles) -> Result<Vec<f32>> {
    let options = PrepareOptions { priority: Priority::High, ..PrepareOptions::default() };
    let prepared =
        wait_for_prepared_model(|callback| device.prepare_model(model, options, cache, callback))?;
    Ok(run(prepared.as_ref()))
}

fn load(device: &dyn Device, cache: CacheHandles) -> Result<Vec<f32>> {
    let prepared =
        wait_for_prepared_model(|callback| device.prepare_model_from_cache(None, cache, callback))?;
    Ok(run(prepared.as_ref()))
}

fn refused(device: &dyn Device, cache: CacheHandles, what: &str) -> ErrorStatus {
    match load(device, cache) {
        Ok(_) => panic!("{what}: loaded all the same"),
        Err(error) => error.status,
    }
}

#[test]
fn what_was_saved_is_loaded_by_any_process_of_the_driver() {
    let files = Files::new();
    // Offsets and contents of before don't matter.
    files.set(&[vec![1; 5000], vec![2; 5000]]);
    for file in [&files.model, &files.data] {
        lseek(file, 77, Whence::SeekSet).unwrap();
    }
    let saving = served(ALL);
    assert_eq!(save(&saving.device, product(1.0), files.handles()).unwrap(), WANT);
    drop(saving);
    let loading = served(ALL);
    assert_eq!(load(&loading.device, files.handles()).unwrap(), WANT);
    assert_eq!(load(&loading.device, files.handles()).unwrap(), WANT, "and again");
    // Written over with another model.
    save(&loading.device, product(2.0), files.handles()).unwrap();
    assert_eq!(load(&loading.device, files.handles()).unwrap(), [642.5, 1307.5]);
    let late = TimePoint::now();
    let (callback, words) = tell();
    loading.device.prepare_model_from_cache(Some(late), files.handles(), callback).unwrap();
    let word: Result<Arc<dyn PreparedModel>> = words.recv_timeout(HUNG).unwrap();
    assert_eq!(word.map(drop).unwrap_err().status, ErrorStatus::MissedDeadlinePersistent);
}

#[test]
fn models_without_weights_and_with_unknown_shapes_are_kept_too() {
    let served = served(ALL);
    for (what, dimensions) in [("known", [3]), ("unknown", [0])] {
        let files = Files::new();
        let prepared = wait_for_prepared_model(|callback| {
            let (model, options) = (add_one(&dimensions), PrepareOptions::default());
            served.device.prepare_model(model, options, files.handles(), callback)
        });
        drop(prepared.unwrap());
        let prepared = wait_for_prepared_model(|callback| {
            served.device.prepare_model_from_cache(None, files.handles(), callback)
        });
        let (input, output) = (floats(&[1.0, 2.0, 3.0]), floats(&[0.0; 3]));
        let mut request = request(&input, &output);
        request.inputs[0].dimensions = vec![3];
        prepared.unwrap().execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        assert_eq!(as_floats(&output), [2.0, 3.0, 4.0], "{what}");
    }
}

#[test]
fn wrong_files_don_t_keep_a_model_from_being_prepared() {
    let served = served(ALL);
    let device = &served.device;
    let files = Files::new();
    let check = |what: &'static str, change: &dyn Fn(&mut CacheHandles)| {
        let mut cache = files.handles();
        change(&mut cache);
        files.set(&[vec![], vec![]]);
        assert_eq!(save(device, product(1.0), cache).unwrap(), WANT, "{what}");
        let status = refused(device, files.handles(), what);
        assert_eq!(status, ErrorStatus::GeneralFailure, "{what}: nothing was saved");

        save(device, product(1.0), files.handles()).unwrap();
        let mut cache = files.handles();
        change(&mut cache);
        assert_eq!(refused(device, cache, what), ErrorStatus::InvalidArgument, "{what}");
    };
    let another = || files.model.try_clone().unwrap();
    check("a model file too few", &|cache| cache.model.clear());
    check("a data file too few", &|cache| cache.data.clear());
    check("a model file too many", &|cache| cache.model.push(another()));
    check("a data file too many", &|cache| cache.data.push(another()));
    check("a model file to be written only", &|cache| {
        cache.model = vec![reopened(&files.model, OFlag::O_WRONLY)];
    });
    check("a data file to be written only", &|cache| {
        cache.data = vec![reopened(&files.data, OFlag::O_WRONLY)];
    });
    check("a socket", &|cache| {
        let (one, _) = std::os::unix::net::UnixStream::pair().unwrap();
        cache.data = vec![one.as_fd().try_clone_to_owned().unwrap()];
    });
}

#[test]
fn files_that_can_only_be_read_are_loaded_and_not_written() {
    let served = served(ALL);
    let device = &served.device;
    let files = Files::new();
    let read_only = || {
        let reopened = |file: &OwnedFd| vec![reopened(file, OFlag::O_RDONLY)];
        let (model, data) = (reopened(&files.model), reopened(&files.data));
        CacheHandles { model, data, ..files.handles() }
    };
    assert_eq!(save(device, product(1.0), read_only()).unwrap(), WANT);
    assert!(files.contents().iter().all(Vec::is_empty));
    save(device, product(1.0), files.handles()).unwrap();
    let kept = files.contents();
    assert_eq!(load(device, read_only()).unwrap(), WANT);
    assert_eq!(save(device, product(2.0), read_only()).unwrap(), [642.5, 1307.5]);
    assert_eq!(files.contents(), kept);
}

#[test]
fn changed_cut_and_swapped_files_are_refused_and_compiled_afresh() {
    let served = served(ALL);
    let device = &served.device;
    let files = Files::new();
    save(device, product(1.0), files.handles()).unwrap();
    let good = files.contents();
    let failure = ErrorStatus::GeneralFailure;
    let refuse = |what: &str| assert_eq!(refused(device, files.handles(), what), failure, "{what}");

    for file in 0..2 {
        for at in 0..good[file].len() {
            let mut changed = good.clone();
            changed[file][at] ^= 1 << (at % 8);
            files.set(&changed);
            refuse(&format!("byte {at} of file {file} changed"));
        }
        for length in [0, 1, 127, 128, good[file].len() - 1] {
            let mut cut = good.clone();
            cut[file].truncate(length);
            files.set(&cut);
            refuse(&format!("file {file} cut to {length}"));
        }
        let mut longer = good.clone();
        longer[file].push(0);
        files.set(&longer);
        refuse(&format!("file {file} longer"));
        // A length that no memory has.
        let file = if file == 0 { &files.model } else { &files.data };
        ftruncate(file, 1 << 31).unwrap();
        refuse("a sparse file of two gibibytes");
        ftruncate(file, 1 << 40).unwrap();
        let status = refused(device, files.handles(), "more than a client may have");
        assert_eq!(status, ErrorStatus::ResourceExhaustedPersistent);
    }
    files.set(&[good[1].clone(), good[0].clone()]);
    refuse("swapped");
    files.set(&good);
    let both = CacheHandles { data: vec![files.model.try_clone().unwrap()], ..files.handles() };
    assert_eq!(refused(device, both, "one file twice"), failure);
    let token = CacheHandles { token: [8; CACHE_TOKEN_BYTES], ..files.handles() };
    assert_eq!(refused(device, token, "another token"), failure);

    // Another model's files, for the same token.
    let others = Files::new();
    save(device, product(2.0), others.handles()).unwrap();
    let [other_model, other_data] = others.contents();
    files.set(&[other_model, good[1].clone()]);
    refuse("another model's model file");
    files.set(&[good[0].clone(), other_data]);
    refuse("another model's data file");

    // Another driver's.
    let other = crate::support::served("another-driver");
    files.set(&good);
    assert_eq!(refused(&other.device, files.handles(), "another driver"), failure);

    files.set(&[vec![9; 300], vec![]]);
    refuse("rubbish");
    assert_eq!(save(device, product(1.0), files.handles()).unwrap(), WANT, "afresh");
    assert_eq!(load(device, files.handles()).unwrap(), WANT);
    assert_eq!(files.contents(), good, "what is saved depends on the model alone");
}

/// Saves a product by these weights, holds what is loaded against it, and gives back the device and
/// the files.
fn kept(weights: &[f32], units: usize) -> (Arc<dyn Device>, Files) {
    let (device, files) = (driver(ALL).device(), Files::new());
    let prepared = wait_for_prepared_model(|callback| {
        let model = units_of(weights, &vec![1.0; units]);
        device.prepare_model(model, PrepareOptions::default(), files.handles(), callback)
    });
    let loaded = wait_for_prepared_model(|callback| {
        device.prepare_model_from_cache(None, files.handles(), callback)
    });
    let [want, got] = [prepared, loaded].map(|prepared| {
        let (input, output) =
            (floats(&vec![0.5; weights.len() / units]), floats(&vec![0.0; units]));
        let (request, options) = (request(&input, &output), ExecutionOptions::default());
        prepared.unwrap().execute_synchronously(&request, options).unwrap();
        as_floats(&output)
    });
    assert_eq!(got, want);
    (device, files)
}

#[test]
fn a_data_file_of_many_bytes_ends_with_a_huge_page() {
    const HUGE_PAGE: usize = 2 << 20;
    let weights: Vec<f32> = (0u16..600 * 70).cycle().take(600 * 700).map(f32::from).collect();
    let weights: Vec<f32> = weights.into_iter().map(f32::sin).collect();
    let (device, files) = kept(&weights, 600);
    let [_, data] = files.contents();
    assert_eq!(data.len(), HUGE_PAGE);
    for bytes in [HUGE_PAGE - 1, HUGE_PAGE + 1] {
        ftruncate(&files.data, bytes.try_into().unwrap()).unwrap();
        let status = refused(device.as_ref(), files.handles(), "another length");
        assert_eq!(status, ErrorStatus::GeneralFailure, "{bytes}");
    }
}

#[test]
fn constants_longer_than_all_that_is_packed_of_them_are_kept() {
    // Whole steps of a scale, of which half of each number is packed.
    let weights: Vec<f32> = (0u8..251).cycle().take(60 * 700).map(f32::from).collect();
    let (_, files) = kept(&weights, 60);
    let [model, data] = files.contents();
    assert!(model.len() + data.len() < size_of_val(&weights[..]));
}

#[test]
fn files_that_change_while_they_are_used_give_the_right_model_or_none() {
    let served = served(ALL);
    let device = &served.device;
    let (files, others) = (Files::new(), Files::new());
    save(device, product(1.0), files.handles()).unwrap();
    save(device, product(2.0), others.handles()).unwrap();
    let contents = [files.contents(), others.contents()];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in (0..2).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                files.set(&contents[turn]);
            }
        });
        for _ in 0..200 {
            if let Ok(got) = load(device, files.handles()) {
                assert!(got == WANT || got == [642.5, 1307.5], "{got:?}");
            }
            assert_eq!(save(device, product(1.0), files.handles()).unwrap(), WANT);
        }
        done.store(true, Ordering::Relaxed);
    });
    save(device, product(1.0), files.handles()).unwrap();
    assert_eq!(load(device, files.handles()).unwrap(), WANT);
}

#[test]
fn a_file_that_is_written_and_cut_once_it_is_loaded_changes_nothing() {
    const UNITS: usize = 300;
    let weights: Vec<f32> =
        (0u16..UNITS as u16 * 70).cycle().take(UNITS * 3000).map(f32::from).collect();
    let weights: Vec<f32> = weights.into_iter().map(f32::sin).collect();
    let device = driver(ALL).device();
    let dir = tempfile::tempdir().unwrap();
    let paths = ["model", "data"].map(|name| dir.path().join(name));
    let open = |access: OFlag| {
        let [model, data] = paths.each_ref().map(|path| {
            let flags = access | OFlag::O_CLOEXEC;
            vec![open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR).unwrap()]
        });
        CacheHandles { model, data, token: TOKEN }
    };
    let run = |prepared: &dyn PreparedModel| {
        let (input, output) = (floats(&[0.5; 3000]), floats(&[0.0; UNITS]));
        let (request, options) = (request(&input, &output), ExecutionOptions::default());
        prepared.execute_synchronously(&request, options).unwrap();
        as_floats(&output)
    };
    let saved = wait_for_prepared_model(|callback| {
        let (model, handles) =
            (units_of(&weights, &[1.0; UNITS]), open(OFlag::O_RDWR | OFlag::O_CREAT));
        device.prepare_model(model, PrepareOptions::default(), handles, callback)
    });
    let want = run(saved.unwrap().as_ref());
    let kept = std::fs::read(&paths[1]).unwrap();
    for round in 0..12 {
        let loaded = wait_for_prepared_model(|callback| {
            device.prepare_model_from_cache(None, open(OFlag::O_RDONLY), callback)
        });
        let loaded = loaded.unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| match round % 3 {
                // Whoever opens it waits until the driver has bytes of its own.
                0 => std::fs::write(&paths[1], vec![0x5A; kept.len()]).unwrap(),
                1 => drop(std::fs::File::create(&paths[1]).unwrap()),
                _ => std::fs::remove_file(&paths[1]).unwrap(),
            });
            for _ in 0..5 {
                assert!(run(loaded.as_ref()) == want, "round {round}, meanwhile");
            }
        });
        assert!(run(loaded.as_ref()) == want, "round {round}");
        std::fs::write(&paths[1], &kept).unwrap();
        assert!(run(loaded.as_ref()) == want, "round {round}, once more");
    }
    // Nobody holds it any more.
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK;
    nix::fcntl::open(&paths[1], flags, Mode::empty()).unwrap();
}
