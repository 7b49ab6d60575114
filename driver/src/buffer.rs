//! Driver-managed buffers: memory of the driver that requests name by token.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nnburst_hal::process::Origin;
use nnburst_hal::{
    Access, Budget, Buffer, Charge, Direction, HalError, Mapping, Memory, MemoryRoles, Operand,
    Resource, Result, vlog,
};

/// The buffers of a driver, by token. Tokens start at 1; one that is free again is given out first.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Tokens>);

#[derive(Debug, Default)]
struct Tokens {
    /// By each prepared model that the buffer was made for: to any other model, a client's or not,
    /// a token says what one that does not exist says, by the same way.
    live: HashMap<(u64, u32), Weak<DriverBuffer>>,
    free: Vec<u32>,
    last: u32,
}

impl Buffers {
    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The living buffer of a token, if it was made for this prepared model.
    pub(crate) fn find(&self, model: u64, token: u32) -> Result<Arc<DriverBuffer>> {
        let buffer = self.lock().live.get(&(model, token)).and_then(Weak::upgrade);
        let none = || HalError::invalid(format!("token {token} names no buffer of this model"));
        buffer.ok_or_else(none)
    }

    fn release(&self, buffer: &DriverBuffer) {
        let mut tokens = self.lock();
        for &(model, _, _) in &buffer.roles {
            tokens.live.remove(&(model, buffer.token));
        }
        tokens.free.push(buffer.token);
    }
}

/// Most that a buffer of unknown size can hold. Its memory is there once it is written, page by
/// page.
const ROOM: usize = 64 << 20;

/// A use of a buffer: prepared model, direction, position.
type Role = (u64, Direction, u32);

/// The memory of a buffer, and what is known of it. Content may be raced over, but not outgrown.
#[derive(Debug)]
pub(crate) struct DriverBuffer {
    token: u32,
    roles: BTreeSet<Role>,
    operand: Operand,
    mapping: Mapping,
    state: Mutex<State>,
    home: Arc<Buffers>,
    /// The charge to its client's budget.
    _charge: Option<Charge>,
    origin: Origin,
}

#[derive(Debug, Default)]
struct State {
    /// The shape of the last write, while there is one that holds.
    written: Option<Vec<u32>>,
}

impl DriverBuffer {
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_role(&self, model: u64, direction: Direction, index: u32) -> Result<()> {
        if self.roles.contains(&(model, direction, index)) {
            Ok(())
        } else {
            let token = self.token;
            Err(HalError::invalid(format!("buffer {token} was not made for {direction} {index}")))
        }
    }

    /// The shape of the content, for use as input `index` of a model; `given` may repeat it.
    pub(crate) fn as_input(&self, model: u64, index: u32, given: &[u32]) -> Result<Vec<u32>> {
        self.check_role(model, Direction::Input, index)?;
        let written = self.state().written.clone().ok_or_else(|| {
            HalError::failure(format!("buffer {} is read before it was written", self.token))
        })?;
        if !given.is_empty() && given != written {
            let token = self.token;
            return Err(HalError::invalid(format!("buffer {token} is {written:?}, not {given:?}")));
        }
        Ok(written)
    }

    /// For use as output `index` of a model. The content holds no more until [`Self::written`].
    pub(crate) fn as_output(&self, model: u64, index: u32, given: &[u32]) -> Result<()> {
        self.check_role(model, Direction::Output, index)?;
        if !given.is_empty() && !fits(&self.operand.dimensions, given) {
            let (token, made) = (self.token, &self.operand.dimensions);
            let reason = format!("buffer {token} was made for {made:?}, not {given:?}");
            return Err(HalError::invalid(reason));
        }
        Ok(())
    }

    /// An execution wrote the buffer, or failed to.
    pub(crate) fn written(&self, shape: Option<&[u32]>) -> Result<()> {
        let fitting = shape.filter(|shape| fits(&self.operand.dimensions, shape));
        self.state().written = fitting.map(<[u32]>::to_vec);
        match (shape, fitting) {
            (Some(shape), None) => {
                let (token, made) = (self.token, &self.operand.dimensions);
                let reason = format!("an output of {shape:?} came to buffer {token} of {made:?}");
                Err(HalError::failure(reason))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of a content of this shape, which must be those of a memory.
    fn check_size(&self, shape: &[u32], memory: &Memory) -> Result<usize> {
        let (token, given) = (self.token, memory.size());
        let own = size_of_shape(&self.operand, shape)
            .filter(|&size| size <= self.mapping.len())
            .ok_or_else(|| {
                HalError::failure(format!("{shape:?} is too large for buffer {token}"))
            })?;
        if usize::try_from(given) == Ok(own) {
            Ok(own)
        } else {
            Err(HalError::invalid(format!("buffer {token} has {own} bytes, the memory {given}")))
        }
    }
}

impl Drop for DriverBuffer {
    fn drop(&mut self) {
        // A child of the process that made it has nothing to give back.
        if self.origin.is_here() {
            self.home.release(self);
        }
    }
}

fn size_of_shape(operand: &Operand, shape: &[u32]) -> Option<usize> {
    Operand { dimensions: shape.to_vec(), ..operand.clone() }.data_size()
}

/// Returns whether `shape` keeps every known extent of `made`.
fn fits(made: &[u32], shape: &[u32]) -> bool {
    made.is_empty()
        || made.len() == shape.len()
            && made.iter().zip(shape).all(|(&made, &given)| made == 0 || made == given)
}

/// The client's hold of a buffer.
#[derive(Debug)]
pub(crate) struct CpuBuffer(Arc<DriverBuffer>);

impl CpuBuffer {
    pub(crate) fn allocate(
        home: &Arc<Buffers>,
        roles: &MemoryRoles,
        ids: &[u64],
        budget: Option<&Arc<Budget>>,
    ) -> Result<Self> {
        let operand = roles.operand.clone();
        if operand.kind.is_extension() {
            let kind = operand.kind;
            return Err(HalError::failure(format!("no buffers for types of extensions: {kind}")));
        }
        let size = operand.data_size().unwrap_or(ROOM);
        let bytes = u64::try_from(size).unwrap_or(u64::MAX);
        let amounts =
            [(Resource::Memory, bytes), (Resource::AddressSpace, bytes), (Resource::Mappings, 1)];
        let charge = budget.map(|budget| budget.take_all(&amounts)).transpose()?;
        let memory = Memory::ashmem(bytes)?;
        let mapping = memory.map(Access::ReadWrite)?;
        let role = |role: &nnburst_hal::MemoryRole| {
            Some((*ids.get(role.model)?, role.direction, role.index))
        };
        let roles = roles.roles.iter().filter_map(role).collect();
        let mut tokens = home.lock();
        let token = match tokens.free.pop() {
            Some(token) => token,
            None => {
                tokens.last = tokens
                    .last
                    .checked_add(1)
                    .ok_or_else(|| HalError::exhausted("there are no tokens left"))?;
                tokens.last
            }
        };
        let buffer = Arc::new(DriverBuffer {
            token,
            roles,
            operand,
            mapping,
            state: Mutex::default(),
            home: Arc::clone(home),
            _charge: charge,
            origin: Origin::here(),
        });
        for &(model, _, _) in &buffer.roles {
            tokens.live.insert((model, token), Arc::downgrade(&buffer));
        }
        vlog!(Memory, "buffer {token} of {size} bytes");
        Ok(Self(buffer))
    }
}

impl Buffer for CpuBuffer {
    fn token(&self) -> u32 {
        self.0.token
    }

    fn size(&self) -> u64 {
        u64::try_from(self.0.mapping.len()).unwrap_or(u64::MAX)
    }

    fn copy_to(&self, destination: &Memory) -> Result<()> {
        let buffer = &self.0;
        buffer.origin.check()?;
        let token = buffer.token;
        let shape = buffer.state().written.clone().ok_or_else(|| {
            HalError::failure(format!("buffer {token} is copied before it was written"))
        })?;
        let size = buffer.check_size(&shape, destination)?;
        let to = destination.map(Access::ReadWrite)?;
        copy(&buffer.mapping, &to, size)
    }

    fn copy_from(&self, source: &Memory, dimensions: &[u32]) -> Result<()> {
        let buffer = &self.0;
        buffer.origin.check()?;
        // A copy that fails leaves the buffer unwritten.
        buffer.state().written = None;
        let made = &buffer.operand.dimensions;
        let shape = if dimensions.is_empty() { made } else { dimensions };
        let is_scalar = buffer.operand.kind.is_scalar();
        if shape.contains(&0) || !fits(made, shape) || shape.is_empty() != is_scalar {
            let (token, given) = (buffer.token, dimensions);
            let reason = format!("buffer {token} was made for {made:?}, not {given:?}");
            return Err(HalError::invalid(reason));
        }
        let size = buffer.check_size(shape, source)?;
        copy(&source.map(Access::Read)?, &buffer.mapping, size)?;
        buffer.state().written = Some(shape.to_vec());
        Ok(())
    }
}

/// Copies the first `size` bytes, which both have.
fn copy(from: &Mapping, to: &Mapping, size: usize) -> Result<()> {
    if let (Some(source), Some(target)) = (from.view(0..size), to.view_mut(0..size)) {
        target.copy_from(source);
    }
    if from.lost_pages() || to.lost_pages() {
        return Err(HalError::failure("the memory was cut short while it was copied"));
    }
    Ok(())
}
