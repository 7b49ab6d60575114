//! Compilation caching: a plan's parts in two files of the client's.
//!
//! ```text
//!   model file   header | options, entries, model in wire's encoding | constants the plan reads
//!   data file    header | packed weights, each at a multiple of 64
//! ```
//!
//! Both headers say whose the files are (driver, version, build, instruction set, threads:
//! [`Identity`]), which token they are for, and what both bodies sum up to; so neither can be cut,
//! changed, swapped or paired with another's without being refused. A header is the last thing
//! written. Whoever makes up files with right sums gains nothing over preparing a model of their
//! own: what is read is copied once, bounded by the file's length, and then validated as any
//! client's model is; weights are numbers to compute with and no more.

mod checksum;
mod file;
mod stripe_sum;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::os::fd::OwnedFd;

use nnburst_executor::{
    CompileError, CompileOptions, Control, FINGERPRINT, Isa, PackedEntry, Plan, Snapshot,
};
use nnburst_hal::{
    CacheFiles, CacheHandles, ExecutionPreference, HalError, Model, PrepareOptions, Priority,
    Resource, Result, try_copied,
};
use nnburst_hal_ipc::{decode, encode};
use serde::{Deserialize, Serialize};

use checksum::Checksum;
use file::{CacheFile, Header, Role};

/// A file for what is validated, and one for what can at worst give wrong values.
pub(crate) const FILES: CacheFiles = CacheFiles { model: 1, data: 1 };

/// The identity that a reader must have: the same driver of the same build, for the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    pub(crate) fn new(driver: &str, version: &str, options: &CompileOptions) -> Result<Self> {
        let isa = match options.isa {
            Some(isa) => isa,
            None => {
                Isa::from_environment().map_err(|error| HalError::failure(error.to_string()))?
            }
        };
        let package = env!("CARGO_PKG_VERSION");
        let CompileOptions { threads, bf16, .. } = options;
        let text = format!("{driver} {version} {package} {FINGERPRINT:x} {isa:?} {threads} {bf16}");
        Ok(Self(Checksum::of(text.as_bytes())))
    }
}

/// The part of the model file in front of the constants.
#[derive(Serialize, Deserialize)]
struct Body<M> {
    preference: ExecutionPreference,
    priority: Priority,
    absent: u64,
    entries: Vec<PackedEntry>,
    /// Without its constants, which follow.
    model: M,
}

/// A model out of a cache.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) plan: Plan,
    pub(crate) model: Model,
    pub(crate) options: PrepareOptions,
}

/// Bytes of memory that may become of a byte of an encoded model while it is decoded.
const DECODED: u64 = 24;

/// Returns whether files came, and as many as are needed.
pub(crate) fn is_complete(cache: &CacheHandles) -> bool {
    let count = |files: &[OwnedFd]| u32::try_from(files.len()).ok();
    count(&cache.model) == Some(FILES.model) && count(&cache.data) == Some(FILES.data)
}

/// Writes a plan; what was in the files is lost first. Files that could not be written are left
/// empty.
///
/// # Errors
/// Not as many files as are needed, or they can't be written: the disk is full, say.
pub(crate) fn save(
    cache: &CacheHandles,
    identity: Identity,
    plan: &Plan,
    model: &Model,
    options: &PrepareOptions,
) -> Result<()> {
    let (model_file, data_file) = files(cache, CacheFile::to_write)?;
    model_file.clear()?;
    data_file.clear()?;
    write(cache, identity, plan, model, options).inspect_err(|_| {
        // What is left of them takes room and is of no use; without a header it is refused all the
        // same.
        let _ = model_file.clear();
        let _ = data_file.clear();
    })
}

fn write(
    cache: &CacheHandles,
    identity: Identity,
    plan: &Plan,
    model: &Model,
    options: &PrepareOptions,
) -> Result<()> {
    let (model_file, data_file) = files(cache, CacheFile::to_write)?;
    let snapshot = plan.snapshot(model).ok_or_else(|| HalError::failure("4 GiB of constants"))?;
    let weights_sum = data_file.write_weights(&snapshot)?;
    let Snapshot { mut model, absent, entries, .. } = snapshot;
    let constants = std::mem::take(&mut model.operand_values);
    let PrepareOptions { preference, priority, .. } = *options;
    let body = Body { preference, priority, absent, entries, model };
    let mut body = encode(&body).map_err(|error| HalError::failure(error.to_string()))?;
    body.extend_from_slice(&constants);
    let body_sum = Checksum::of(&body);
    model_file.write(Header::BYTES, &body)?;
    let header = |role, length: u64| Header {
        role,
        identity: identity.0,
        token: cache.token,
        length,
        sums: [body_sum, weights_sum.sum],
    };
    data_file.write(0, &header(Role::Data, weights_sum.length).to_bytes())?;
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    model_file.write(0, &header(Role::Model, length).to_bytes())
}

/// Reads a plan.
///
/// # Errors
/// `INVALID_ARGUMENT` for other than the files needed; `GENERAL_FAILURE` for files that don't hold
/// what this driver wrote for this token.
pub(crate) fn load(
    cache: &CacheHandles,
    identity: Identity,
    options: &CompileOptions,
    control: &Control<'_>,
) -> Result<Restored> {
    let (model_file, data_file) = files(cache, CacheFile::to_read)?;
    let headers = [model_file.header(Role::Model)?, data_file.header(Role::Data)?];
    for header in &headers {
        if header.identity != identity.0 {
            return Err(HalError::failure("the cache is of another driver, build or machine"));
        }
        if header.token != cache.token {
            return Err(HalError::failure("the cache is for another token"));
        }
    }
    let [of_model, of_data] = &headers;
    if of_model.sums != of_data.sums {
        return Err(HalError::failure("the cache files don't belong together"));
    }
    let [body_sum, weights_sum] = of_model.sums;
    let budget = options.memory.as_ref();
    let read_model = || {
        let bytes = model_file.read_body(of_model, body_sum, budget)?;
        let decoded = of_model.length.saturating_mul(DECODED);
        let _charge = budget.map(|budget| budget.take(Resource::Memory, decoded)).transpose()?;
        let (mut body, constants) = decode::<Body<Model>>(bytes.as_slice())
            .map_err(|error| HalError::failure(format!("the cached model: {error}")))?;
        body.model.operand_values = try_copied(constants)?;
        Ok(body)
    };
    let (body, weights) = data_file.read_body_beside(of_data, weights_sum, budget, read_model)?;
    let Body { preference, priority, absent, entries, model } = body;
    let (plan, model) =
        Plan::restore(model, absent, &entries, weights, options, control).map_err(|error| {
            match error {
                CompileError::DeadlineMissed | CompileError::NoMemory(_) => error.into(),
                error => HalError::failure(format!("the cached model: {error}")),
            }
        })?;
    Ok(Restored { plan, model, options: PrepareOptions { preference, priority, deadline: None } })
}

fn files<'a>(
    cache: &'a CacheHandles,
    open: impl Fn(&'a OwnedFd) -> Result<CacheFile<'a>>,
) -> Result<(CacheFile<'a>, CacheFile<'a>)> {
    match (&cache.model[..], &cache.data[..]) {
        ([model], [data]) => Ok((open(model)?, open(data)?)),
        (model, data) => Err(HalError::invalid(format!(
            "{} model and {} data files, where {FILES:?} are needed",
            model.len(),
            data.len()
        ))),
    }
}
