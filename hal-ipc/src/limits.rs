//! The limits of a service's clients: of each user, and of each connection.

use std::collections::BTreeMap;

use nnburst_hal::{Amounts, Resource};

/// What stands for no limit.
const NONE: u64 = u64::MAX;

/// The limits of a service. What a client gives back makes room again, so that going beyond a limit
/// is `RESOURCE_EXHAUSTED_TRANSIENT`; what could never fit is `RESOURCE_EXHAUSTED_PERSISTENT`.
///
/// Beside these, all clients of a user and all users together share [`ProcessLimits`].
///
/// [`ProcessLimits`]: crate::ProcessLimits
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceLimits {
    /// Those of each user who isn't among `users`.
    pub user: UserLimits,
    /// Those of single users, by uid (`SO_PEERCRED`).
    pub users: BTreeMap<u32, UserLimits>,
    /// Those of each connection.
    pub connection: ConnectionLimits,
}

impl ServiceLimits {
    /// Returns the limits of a user.
    pub fn of(&self, uid: u32) -> &UserLimits {
        self.users.get(&uid).unwrap_or(&self.user)
    }
}

/// Limits of one user, over all its connections; [`u64::MAX`] is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserLimits {
    /// Connections at a time, and as many that have not greeted yet.
    pub clients: u64,
    /// Prepared models, those in preparation included.
    pub models: u64,
    /// Bytes of messages, models, plans, sessions and buffers.
    pub memory_bytes: u64,
    /// File descriptors.
    pub descriptors: u64,
    /// Bursts.
    pub bursts: u64,
    /// Bursts with a real-time profile, each of which may take all of a core; `None`: all of the
    /// driver's own user, and none of others.
    pub realtime_bursts: Option<u64>,
    /// Executions at a time, fenced ones and bursts apart.
    pub executions: u64,
    /// Executions per second of any kind. After a rest up to a quarter of a second's may follow on
    /// each other.
    pub executions_per_second: u64,
}

impl Default for UserLimits {
    fn default() -> Self {
        Self {
            clients: 64,
            models: NONE,
            memory_bytes: NONE,
            descriptors: NONE,
            bursts: NONE,
            realtime_bursts: None,
            executions: NONE,
            executions_per_second: NONE,
        }
    }
}

impl UserLimits {
    pub(crate) fn amounts(&self, is_own_user: bool) -> Amounts {
        let realtime = self.realtime_bursts.unwrap_or(if is_own_user { NONE } else { 0 });
        Amounts::UNLIMITED
            .with(Resource::Connections, self.clients)
            .with(Resource::Greetings, self.clients)
            .with(Resource::PreparedModels, self.models)
            .with(Resource::Memory, self.memory_bytes)
            .with(Resource::Descriptors, self.descriptors)
            .with(Resource::Bursts, self.bursts)
            .with(Resource::RealTimeBursts, realtime)
            .with(Resource::Executions, self.executions)
    }

    /// The setting of `nnburst serve` for a resource.
    pub(crate) fn setting(resource: Resource) -> Option<&'static str> {
        Some(match resource {
            Resource::Connections | Resource::Greetings => "user.clients",
            Resource::PreparedModels => "user.models",
            Resource::Memory => "user.memory",
            Resource::Descriptors => "user.descriptors",
            Resource::Bursts => "user.bursts",
            Resource::RealTimeBursts => "user.realtime-bursts",
            Resource::Executions => "user.executions",
            _ => return None,
        })
    }
}

/// Limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Prepared models, those in preparation included.
    pub models: u64,
    /// Driver-managed buffers.
    pub buffers: u64,
    /// Bursts.
    pub bursts: u64,
    /// Fenced executions whose callback the client still holds.
    pub fenced_executions: u64,
    /// Executions at a time, fenced ones and bursts apart.
    pub executions: u64,
    /// Bytes of messages, models, plans, sessions and buffers.
    pub memory_bytes: u64,
    /// Bytes of one message.
    pub message_bytes: u64,
    /// Bytes of messages that arrive, wait or are at work.
    pub call_bytes: u64,
    /// File descriptors that came and are still in use: by calls that arrive, wait or are at work,
    /// by executions, and by bursts, whose memories count until their slots are freed.
    pub descriptors: u64,
    /// Threads that serve calls.
    pub threads: u64,
    /// Calls that wait for a thread.
    pub waiting_calls: u64,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            models: 256,
            buffers: 1024,
            bursts: 64,
            fenced_executions: 256,
            executions: 64,
            memory_bytes: 4 << 30,
            message_bytes: 64 << 20,
            call_bytes: 256 << 20,
            descriptors: 1024,
            threads: 4,
            waiting_calls: 256,
        }
    }
}

impl ConnectionLimits {
    pub(crate) fn amounts(&self) -> Amounts {
        Amounts::UNLIMITED
            .with(Resource::PreparedModels, self.models)
            .with(Resource::Buffers, self.buffers)
            .with(Resource::Bursts, self.bursts)
            .with(Resource::FencedExecutions, self.fenced_executions)
            .with(Resource::Executions, self.executions)
            .with(Resource::Memory, self.memory_bytes)
            .with(Resource::CallBytes, self.call_bytes)
            .with(Resource::Descriptors, self.descriptors)
    }

    /// The setting of `nnburst serve` for a resource.
    pub(crate) fn setting(resource: Resource) -> Option<&'static str> {
        Some(match resource {
            Resource::PreparedModels => "connection.models",
            Resource::Buffers => "connection.buffers",
            Resource::Bursts => "connection.bursts",
            Resource::FencedExecutions => "connection.fenced-executions",
            Resource::Executions => "connection.executions",
            Resource::Memory => "connection.memory",
            Resource::CallBytes => "connection.calls",
            Resource::Descriptors => "connection.descriptors",
            _ => return None,
        })
    }
}
