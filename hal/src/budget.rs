//! Budgets: what a connection, a user and the process as a whole may have of each resource.
//!
//! ```text
//!   process ─┬─ user 1000 ─┬─ connection 1 ◄── Charge: taken on all three levels at once
//!            │             └─ connection 2
//!            └─ user 1001 ─── connection 3
//! ```
//!
//! A [`Charge`] is taken before the resource is, lives beside it, and gives it back when dropped. A
//! budget below a [fair](Budget::fair_child) one has at most as much as its parent has left: a
//! single user gets half, two users a third each. However many users take what they can, a rest
//! remains for those who have less.
//!
//! Charges are atomic counters: taking one neither locks nor waits. Nothing is charged in the
//! steady state of a burst.

use std::collections::TryReserveError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::HalError;
use crate::types::ErrorStatus;

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Connections that are served.
    Connections,
    /// Connections that have not greeted yet.
    Greetings,
    /// Threads.
    Threads,
    /// File descriptors.
    Descriptors,
    /// Memory mappings, as the kernel counts them (`vm.max_map_count`).
    Mappings,
    /// Bytes of address space of mapped memories and queues.
    AddressSpace,
    /// Mapped memories that the SIGBUS guard watches.
    GuardedMappings,
    /// Bytes of memory of the process's own.
    Memory,
    /// Bytes of messages that wait or are at work.
    CallBytes,
    /// Prepared models.
    PreparedModels,
    /// Driver-managed buffers.
    Buffers,
    /// Bursts.
    Bursts,
    /// Fenced executions.
    FencedExecutions,
    /// Executions at a time.
    Executions,
    /// Bursts with a real-time profile.
    RealTimeBursts,
}

impl Resource {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Connections,
        Self::Greetings,
        Self::Threads,
        Self::Descriptors,
        Self::Mappings,
        Self::AddressSpace,
        Self::GuardedMappings,
        Self::Memory,
        Self::CallBytes,
        Self::PreparedModels,
        Self::Buffers,
        Self::Bursts,
        Self::FencedExecutions,
        Self::Executions,
        Self::RealTimeBursts,
    ];

    /// The plural noun of the kind, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Greetings => "connections without a greeting",
            Self::Threads => "threads",
            Self::Descriptors => "file descriptors",
            Self::Mappings => "memory mappings",
            Self::AddressSpace => "bytes of address space",
            Self::GuardedMappings => "mappings of unsealed memory",
            Self::Memory => "bytes of memory",
            Self::CallBytes => "bytes of calls",
            Self::PreparedModels => "prepared models",
            Self::Buffers => "buffers",
            Self::Bursts => "bursts",
            Self::FencedExecutions => "fenced executions",
            Self::Executions => "executions",
            Self::RealTimeBursts => "real-time bursts",
        }
    }
}

/// An amount of each kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts([u64; Resource::ALL.len()]);

impl Amounts {
    /// As much as there is.
    pub const UNLIMITED: Self = Self([u64::MAX; Resource::ALL.len()]);

    /// The same, but `amount` of `resource`.
    #[must_use]
    pub const fn with(mut self, resource: Resource, amount: u64) -> Self {
        self.0[resource as usize] = amount;
        self
    }

    /// Returns the limit of one resource.
    pub const fn of(&self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }
}

/// The name of the setting that limits a resource, where there is one.
pub type SettingOf = fn(Resource) -> Option<&'static str>;

/// The limits of one holder for each resource, and its use of them. A holder is a connection, a
/// user, or the process.
#[derive(Debug)]
pub struct Budget {
    /// The holder's name, for messages.
    whose: String,
    parent: Option<Arc<Self>>,
    /// True if this one may have no more than its parent has left.
    is_fair: bool,
    /// Relaxed: figures, which hand nothing over.
    limits: [AtomicU64; Resource::ALL.len()],
    setting: SettingOf,
    used: [AtomicU64; Resource::ALL.len()],
    /// Times that something of this one or of one below it was refused.
    refused: [AtomicU64; Resource::ALL.len()],
}

impl Budget {
    /// The budget of a process, or of whatever else has none above it.
    pub fn root(whose: impl Into<String>, limits: Amounts) -> Arc<Self> {
        Arc::new(Self::new(whose.into(), None, false, limits))
    }

    /// A budget whose charges are charged to this one too.
    pub fn child(self: &Arc<Self>, whose: impl Into<String>, limits: Amounts) -> Arc<Self> {
        Arc::new(Self::new(whose.into(), Some(Arc::clone(self)), false, limits))
    }

    /// As [`Budget::child`], with limits that settings set, which refusals name.
    pub fn set_child(
        self: &Arc<Self>,
        whose: impl Into<String>,
        limits: Amounts,
        setting: SettingOf,
    ) -> Arc<Self> {
        let budget = Self::new(whose.into(), Some(Arc::clone(self)), false, limits);
        Arc::new(Self { setting, ..budget })
    }

    /// As [`Budget::child`], for one of several that share this one: it has at most as much as is
    /// left.
    pub fn fair_child(self: &Arc<Self>, whose: impl Into<String>, limits: Amounts) -> Arc<Self> {
        Arc::new(Self::new(whose.into(), Some(Arc::clone(self)), true, limits))
    }

    fn new(whose: String, parent: Option<Arc<Self>>, is_fair: bool, limits: Amounts) -> Self {
        let limits = limits.0.map(AtomicU64::new);
        let (used, refused) = Default::default();
        Self { whose, parent, is_fair, limits, setting: |_| None, used, refused }
    }

    /// Replaces the limits. What was taken stays taken, also where it is more than a new limit.
    pub fn set_limits(&self, limits: Amounts) {
        for (limit, new) in self.limits.iter().zip(limits.0) {
            limit.store(new, Ordering::Relaxed);
        }
    }

    /// Returns the most that there may be here of a resource, on this level alone.
    pub fn limit(&self, resource: Resource) -> u64 {
        self.limits.get(resource as usize).map_or(u64::MAX, |limit| limit.load(Ordering::Relaxed))
    }

    /// The holder's name.
    pub fn whose(&self) -> &str {
        &self.whose
    }

    /// The budget to which this one's charges are charged too.
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Returns how often a resource was refused to this holder or to those below it, for this
    /// level's limit or for one above.
    pub fn refused(&self, resource: Resource) -> u64 {
        // Relaxed: a figure, which hands nothing over.
        self.refused.get(resource as usize).map_or(0, |refused| refused.load(Ordering::Relaxed))
    }

    /// Counts a refusal here and above.
    fn note_refusal(&self, resource: Resource) {
        let mut level = Some(self);
        while let Some(budget) = level {
            if let Some(refused) = budget.refused.get(resource as usize) {
                // Relaxed: as in `refused`.
                refused.fetch_add(1, Ordering::Relaxed);
            }
            level = budget.parent.as_deref();
        }
    }

    /// Returns the amount in use.
    pub fn used(&self, resource: Resource) -> u64 {
        // Relaxed: a figure, which hands nothing over.
        self.used.get(resource as usize).map_or(0, |used| used.load(Ordering::Relaxed))
    }

    /// Takes `amount` on this level and those above, until the charge is dropped.
    ///
    /// # Errors
    /// It is more than one of the levels has left; nothing is taken then.
    pub fn take(self: &Arc<Self>, resource: Resource, amount: u64) -> Result<Charge, Exhausted> {
        self.take_all(&[(resource, amount)])
    }

    /// Takes an amount of each of some resources, or nothing.
    ///
    /// # Errors
    /// As for [`Budget::take`].
    pub fn take_all(self: &Arc<Self>, amounts: &[(Resource, u64)]) -> Result<Charge, Exhausted> {
        let mut charge = self.empty();
        for &(resource, amount) in amounts {
            charge.grow(resource, amount)?;
        }
        Ok(charge)
    }

    /// Takes what a thread needs. The mappings of its stack, of its stack for signals, of their
    /// guard pages and of its part of the heap are among it: a thread that can't have those ends
    /// the process as it starts.
    ///
    /// # Errors
    /// As for [`Budget::take`].
    pub fn take_thread(self: &Arc<Self>) -> Result<Charge, Exhausted> {
        self.take_all(&Self::THREAD)
    }

    /// The charge of [`Budget::take_thread`].
    pub const THREAD: [(Resource, u64); 3] =
        [(Resource::Threads, 1), (Resource::Mappings, 6), (Resource::Memory, 64 << 10)];

    /// A charge of nothing yet.
    pub fn empty(self: &Arc<Self>) -> Charge {
        Charge { of: Arc::clone(self), amounts: Vec::new() }
    }

    fn take_here_and_above(&self, resource: Resource, amount: u64) -> Result<(), Exhausted> {
        self.take_here(resource, amount)?;
        let Some(parent) = &self.parent else { return Ok(()) };
        parent.take_here_and_above(resource, amount).inspect_err(|_| {
            self.give_back_here(resource, amount);
        })
    }

    fn take_here(&self, resource: Resource, amount: u64) -> Result<(), Exhausted> {
        let Some(used) = self.used.get(resource as usize) else { return Ok(()) };
        let limit = self.limit(resource);
        let (left, share) = self.share(resource);
        let limit_for_ever = limit.min(share);
        // Relaxed: the count guards a figure, not memory. Several that take at the same time may
        // each see the same rest of the parent; the parent's own limit holds all the same.
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let sum = used.checked_add(amount)?;
            (sum <= limit && sum <= left.saturating_sub(amount)).then_some(sum)
        });
        let Err(used) = taken else { return Ok(()) };
        // The share of a fair one is no setting's.
        let setting = if limit <= share { (self.setting)(resource) } else { None };
        let (whose, limit) = (self.whose.clone(), limit_for_ever);
        tracing::debug!(
            target: "nnburst::driver",
            whose, resource = resource.name(), amount, used, limit, setting, "refused"
        );
        Err(Exhausted { whose, resource, amount, used, limit, setting })
    }

    /// Returns the rest of a fair one's parent, and its rest at most after half was taken.
    fn share(&self, resource: Resource) -> (u64, u64) {
        let whole = self.parent.as_ref().map_or(u64::MAX, |parent| parent.limit(resource));
        match &self.parent {
            Some(parent) if self.is_fair && whole < u64::MAX => {
                (whole.saturating_sub(parent.used(resource)), whole / 2)
            }
            _ => (u64::MAX, u64::MAX),
        }
    }

    fn give_back_here(&self, resource: Resource, amount: u64) {
        if let Some(used) = self.used.get(resource as usize) {
            // Relaxed: as in `take_here`. Never below zero: what is given back was taken once.
            used.fetch_sub(amount, Ordering::Relaxed);
        }
    }
}

/// Resources that were taken from a [`Budget`]; dropping it gives them back.
#[derive(Debug)]
#[must_use = "a charge that is dropped is given back"]
pub struct Charge {
    of: Arc<Budget>,
    amounts: Vec<(Resource, u64)>,
}

impl Charge {
    /// Takes more of a resource.
    ///
    /// # Errors
    /// As for [`Budget::take`]; what was taken before stays taken.
    pub fn grow(&mut self, resource: Resource, amount: u64) -> Result<(), Exhausted> {
        if amount == 0 {
            return Ok(());
        }
        let taken = self.of.take_here_and_above(resource, amount);
        taken.inspect_err(|_| self.of.note_refusal(resource))?;
        match self.amounts.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, taken)) => *taken = taken.saturating_add(amount),
            None => self.amounts.push((resource, amount)),
        }
        Ok(())
    }

    /// Gives some of a resource back.
    pub fn shrink(&mut self, resource: Resource, amount: u64) {
        if let Some((_, taken)) = self.amounts.iter_mut().find(|(known, _)| *known == resource) {
            let amount = amount.min(*taken);
            *taken = taken.saturating_sub(amount);
            self.of.give_back(resource, amount);
        }
    }

    /// Hands a part over to a charge of its own.
    pub fn split(&mut self, resource: Resource, amount: u64) -> Self {
        let mut part = self.of.empty();
        if let Some((_, taken)) = self.amounts.iter_mut().find(|(known, _)| *known == resource) {
            let amount = amount.min(*taken);
            *taken = taken.saturating_sub(amount);
            part.amounts.push((resource, amount));
        }
        part
    }

    /// Returns the amount of a resource that it has taken.
    pub fn amount(&self, resource: Resource) -> u64 {
        let known = self.amounts.iter().find(|(known, _)| *known == resource);
        known.map_or(0, |&(_, amount)| amount)
    }
}

impl Budget {
    fn give_back(&self, resource: Resource, amount: u64) {
        let mut level = Some(self);
        while let Some(budget) = level {
            budget.give_back_here(resource, amount);
            level = budget.parent.as_deref();
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        for &(resource, amount) in &self.amounts {
            self.of.give_back(resource, amount);
        }
    }
}

/// A budget doesn't have what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{amount} more {} than the {used} in use by the {whose} exceed {limit}{}",
    resource.name(), of_setting(*resource, *setting)
)]
pub struct Exhausted {
    /// The holder of the budget.
    pub whose: String,
    /// The resource of which there is too little.
    pub resource: Resource,
    /// The amount that was asked for.
    pub amount: u64,
    /// Returns the amount in use.
    pub used: u64,
    /// The limit of the holder when nobody else has any.
    pub limit: u64,
    /// The setting of the limit, where it is one's.
    pub setting: Option<&'static str>,
}

fn of_setting(resource: Resource, setting: Option<&str>) -> String {
    match (setting, resource) {
        (Some(name), _) => format!(", the driver's setting {name}"),
        (None, Resource::Descriptors) => ", of what `ulimit -n` leaves the driver".to_owned(),
        (None, _) => String::new(),
    }
}

impl Exhausted {
    /// Returns whether it could not be had even if the holder gave everything back.
    pub fn is_persistent(&self) -> bool {
        self.amount > self.limit
    }
}

/// `RESOURCE_EXHAUSTED_PERSISTENT` for what could never fit, else `RESOURCE_EXHAUSTED_TRANSIENT`.
impl From<Exhausted> for HalError {
    fn from(error: Exhausted) -> Self {
        let status = match error.is_persistent() {
            true => ErrorStatus::ResourceExhaustedPersistent,
            false => ErrorStatus::ResourceExhaustedTransient,
        };
        Self::new(status, error.to_string())
    }
}

/// The system has no memory for what was charged, or nobody charged it.
impl From<TryReserveError> for HalError {
    fn from(error: TryReserveError) -> Self {
        Self::new(ErrorStatus::ResourceExhaustedTransient, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<Charge, Exhausted>) -> ErrorStatus {
        HalError::from(result.unwrap_err()).status
    }

    fn memory(amount: u64) -> Amounts {
        Amounts::UNLIMITED.with(Resource::Memory, amount)
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = Budget::root("process", memory(3));
        let two = budget.take(Resource::Memory, 2).unwrap();
        let take = |amount| budget.take(Resource::Memory, amount);
        assert_eq!(status(take(2)), ErrorStatus::ResourceExhaustedTransient);
        assert_eq!(status(take(4)), ErrorStatus::ResourceExhaustedPersistent);
        assert_eq!(status(take(u64::MAX)), ErrorStatus::ResourceExhaustedPersistent);
        drop(two);
        drop(take(3).unwrap());
        assert_eq!(budget.used(Resource::Memory), 0);
    }

    #[test]
    fn a_charge_is_taken_on_all_levels_or_on_none() {
        let process = Budget::root("process", memory(10));
        let user = process.child("user 1", memory(8));
        let connection = user.child("connection", Amounts::UNLIMITED);
        let held = connection.take(Resource::Memory, 7).unwrap();
        let levels = || [&process, &user, &connection].map(|level| level.used(Resource::Memory));
        assert_eq!(levels(), [7; 3]);
        let refused = connection.take(Resource::Memory, 2).unwrap_err();
        assert_eq!(refused.whose, "user 1");
        // Refusals count where it was asked for and above.
        let refused = [&process, &user, &connection].map(|level| level.refused(Resource::Memory));
        assert_eq!((refused, user.refused(Resource::Threads)), ([1; 3], 0));
        let both = [(Resource::Threads, 1), (Resource::Memory, 2)];
        assert!(connection.take_all(&both).is_err());
        assert_eq!((levels(), process.used(Resource::Threads)), ([7; 3], 0));
        drop(held);
        assert_eq!(levels(), [0; 3]);
    }

    #[test]
    fn limits_change_in_use_and_refusals_name_their_setting() {
        let process = Budget::root("process", memory(100));
        let setting = |resource| (resource == Resource::Memory).then_some("user.memory");
        let user = process.set_child("user 1", memory(3), setting);
        let held = user.take(Resource::Memory, 3).unwrap();
        let refused = |amount| user.take(Resource::Memory, amount).unwrap_err().to_string();
        assert_eq!(
            refused(1),
            "1 more bytes of memory than the 3 in use by the user 1 exceed 3, \
             the driver's setting user.memory"
        );
        user.set_limits(memory(5));
        drop(user.take(Resource::Memory, 2).unwrap());
        user.set_limits(memory(1));
        assert!(refused(1).contains("the 3 in use by the user 1 exceed 1"));
        let descriptors = Amounts::UNLIMITED.with(Resource::Descriptors, 6);
        let other = Budget::root("user 2", descriptors);
        assert_eq!(
            other.take(Resource::Descriptors, 7).unwrap_err().to_string(),
            "7 more file descriptors than the 0 in use by the user 2 exceed 6, \
             of what `ulimit -n` leaves the driver"
        );
        drop(held);
        assert!(user.take(Resource::Memory, 1).is_ok());
        user.set_limits(Amounts::UNLIMITED);
        assert!(!refused(101).contains("setting"), "that of the process is none");
    }

    #[test]
    fn users_share_and_a_rest_remains() {
        let process = Budget::root("process", memory(1200));
        let user = || process.fair_child("user", Amounts::UNLIMITED);
        let all_of = |user: &Arc<Budget>| {
            let mut charge = user.empty();
            while charge.grow(Resource::Memory, 1).is_ok() {}
            charge
        };
        let users = [user(), user(), user()];
        let charges: Vec<_> = users.iter().map(all_of).collect();
        let taken: Vec<_> = charges.iter().map(|charge| charge.amount(Resource::Memory)).collect();
        assert_eq!(taken, [600, 300, 150]);
        assert!(user().take(Resource::Memory, 75).is_ok(), "a newcomer has something");
        assert_eq!(
            status(users[0].take(Resource::Memory, 601)),
            ErrorStatus::ResourceExhaustedPersistent
        );
        drop(charges);
        assert_eq!(process.used(Resource::Memory), 0);
    }

    #[test]
    fn parts_of_a_charge_are_given_back_by_themselves() {
        let budget = Budget::root("process", memory(10));
        let mut whole = budget.take(Resource::Memory, 6).unwrap();
        let part = whole.split(Resource::Memory, 2);
        whole.shrink(Resource::Memory, 1);
        assert_eq!(budget.used(Resource::Memory), 5);
        drop(whole);
        assert_eq!((budget.used(Resource::Memory), part.amount(Resource::Memory)), (2, 2));
        drop(part);
        assert_eq!(budget.used(Resource::Memory), 0);
    }
}
