//! For people who watch a service: all its bursts, whosever they are.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use nnburst_hal::{BurstFigures, Model, Operand};
use serde::{Deserialize, Serialize};

use super::session::Session;

/// A burst of a service, and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceBurst {
    /// The client's process, when it connected.
    pub pid: i32,
    /// The client's user.
    pub uid: u32,
    /// The client's name: what its process calls itself now; empty if that can't be read.
    pub client: String,
    /// The number of the burst among the client's; with the client's connection, its name.
    pub burst: u64,
    /// The number of the client's connection.
    pub connection: u64,
    /// The model that it runs: operations, the first input's and output's shapes. Models have no
    /// names.
    pub model: String,
    /// The driver's figures of it.
    pub figures: BurstFigures,
}

/// The sessions of a service, by the numbers of their connections.
#[derive(Default)]
pub(super) struct Register(Mutex<Vec<(u64, Weak<Session>)>>);

impl Register {
    pub(super) fn add(&self, connection: u64, session: &Arc<Session>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(_, session)| session.strong_count() > 0);
        sessions.push((connection, Arc::downgrade(session)));
    }

    fn sessions(&self) -> Vec<(u64, Arc<Session>)> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(|(id, session)| Some((*id, session.upgrade()?))).collect()
    }
}

impl Session {
    /// The bursts of the service that this client may see: those of its own user; root sees all.
    pub(super) fn watch(&self) -> Vec<ServiceBurst> {
        let me = self.peer().uid;
        let mut seen = Vec::new();
        for (connection, session) in self.register().sessions() {
            let peer = session.peer();
            if me != 0 && me != peer.uid {
                continue;
            }
            let client = process_name(peer.pid);
            for (burst, model, context) in session.objects.bursts() {
                let figures = context.figures().unwrap_or_default();
                let client = client.clone();
                let (pid, uid) = (peer.pid, peer.uid);
                seen.push(ServiceBurst { pid, uid, client, burst, connection, model, figures });
            }
        }
        seen.sort_by_key(|burst| (burst.connection, burst.burst));
        seen
    }
}

/// Returns the name that a process gives itself.
fn process_name(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// A model in a few words. It has not been validated.
pub(super) fn label(model: &Model) -> String {
    let graph = &model.main;
    let shape = |indexes: &[u32]| {
        let first = indexes.first().and_then(|&index| usize::try_from(index).ok());
        first.and_then(|index| graph.operands.get(index)).map_or_else(|| "?".to_owned(), shape)
    };
    let (input, output) = (shape(&graph.input_indexes), shape(&graph.output_indexes));
    match graph.operations.as_slice() {
        [only] => format!("{:?}, {input} to {output}", only.kind),
        operations => format!("{} operations, {input} to {output}", operations.len()),
    }
}

fn shape(operand: &Operand) -> String {
    /// More than any operation takes.
    const LONGEST: usize = 8;
    let sizes = operand.dimensions.iter().take(LONGEST);
    sizes.map(ToString::to_string).collect::<Vec<_>>().join("x")
}
