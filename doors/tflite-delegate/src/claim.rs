//! The choice of operators: what the device takes, in few and large partitions.
//!
//! ```text
//!   all ─ options, types ─► candidates ─► partitions, by the interpreter's own partitioning
//!                               ▲              │ imported; the device asked
//!                               └── without ◄──┘ those that are in the way, with their reasons
//! ```

use std::collections::BTreeMap;

use nnburst::{Device, RuntimeError};

use crate::host::{Host, HostError, Subset};
use crate::options::DelegateOptions;
use crate::part::{GraphModel, GraphPart, Reasons};

/// The operators of variables with a name.
const VARIABLES: [&str; 4] = ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"];

/// Why operators can't be chosen at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("{0}")]
    Device(#[from] RuntimeError),
}

/// The operators that the delegate takes, and why the others stay.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) parts: Vec<GraphPart>,
    pub(crate) left: Reasons,
}

impl Claim {
    /// The nodes of all parts, ascending as the interpreter wants them.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        let parts = self.parts.iter().flat_map(|part| &part.subset.nodes);
        let mut nodes: Vec<usize> = parts.copied().collect();
        nodes.sort_unstable();
        nodes
    }
}

/// The inputs of the choice.
#[derive(Debug)]
pub(crate) struct Chooser<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) source: &'a GraphModel,
    pub(crate) device: &'a Device,
    pub(crate) settings: &'a DelegateOptions,
}

impl Chooser<'_> {
    /// Chooses.
    ///
    /// # Errors
    /// The interpreter or the device fails.
    pub(crate) fn choose(self) -> Result<Claim, ClaimError> {
        let plan = self.host.execution_plan()?;
        let mut left: Reasons =
            plan.iter().filter_map(|&node| Some((node, self.refusal(node)?))).collect();
        // Each turn leaves at least one operator to the interpreter.
        loop {
            let chosen = plan.iter().copied().filter(|node| !left.contains_key(node));
            let chosen: Vec<usize> = chosen.collect();
            if chosen.is_empty() {
                return Ok(Claim { parts: Vec::new(), left });
            }
            let mut parts = Vec::new();
            let before = left.len();
            for subset in self.host.subsets(&chosen)? {
                // Nodes that stay are listed as subsets, too.
                if subset.nodes.iter().any(|node| left.contains_key(node)) {
                    continue;
                }
                match self.part(&subset)? {
                    Ok(part) => parts.push(part),
                    Err(reasons) => left.extend(reasons),
                }
            }
            if left.len() == before {
                left.extend(self.scattered(&plan, &chosen, &parts));
            }
            if left.len() == before {
                left.extend(self.too_small(&mut parts, plan.len()));
            }
            if left.len() == before {
                return Ok(Claim { parts, left });
            }
        }
    }

    /// Why a node stays before anything is tried.
    fn refusal(&self, node: usize) -> Option<String> {
        const TABLES: [&str; 2] = ["HASHTABLE", "HASHTABLE_FIND"];
        let name = self.source.name(node);
        if name.is_empty() {
            return Some("not an operator of the model, but another delegate's".into());
        }
        if let Some(why) = self.settings.refusal(name) {
            return Some(why.into());
        }
        // Other graphs of the interpreter share them.
        let has_own = self.source.model.contents.has_own_variables;
        if TABLES.contains(&name) || (VARIABLES.contains(&name) && !has_own) {
            return Some("its value belongs to the interpreter".into());
        }
        None
    }

    /// Imports a subset and asks the device; the inner error has what is in the way.
    fn part(&self, subset: &Subset) -> Result<Result<GraphPart, Reasons>, ClaimError> {
        let part = match GraphPart::choose(self.source, self.host, subset) {
            Ok(part) => part,
            Err(reasons) => return Ok(Err(self.narrowed(reasons, subset))),
        };
        let taken = self.device.supported_operations(&part.imported.model)?;
        let mut refused = Reasons::new();
        for (at, _) in taken.iter().enumerate().filter(|(_, taken)| !**taken) {
            let node = part.imported.sources.get(at).and_then(|&at| subset.nodes.get(at));
            let kind = part.imported.model.main.operations.get(at).map(|it| it.kind);
            let kind = kind.map_or(String::new(), |kind| kind.to_string());
            if let Some(&node) = node {
                refused.insert(node, format!("the device doesn't take {kind} of these types"));
            }
        }
        Ok(if refused.is_empty() { Ok(part) } else { Err(refused) })
    }

    /// Reasons that name all nodes of a subset narrowed down to those that fail alone.
    fn narrowed(&self, reasons: Reasons, subset: &Subset) -> Reasons {
        if reasons.len() < subset.nodes.len() || subset.nodes.len() == 1 {
            return reasons;
        }
        let alone = subset.nodes.iter().filter_map(|&node| {
            let operator = self.source.model.contents.operators.get(node)?;
            let subset = Subset {
                nodes: vec![node],
                inputs: operator.inputs.iter().copied().flatten().collect(),
                outputs: operator.outputs.clone(),
            };
            GraphPart::choose(self.source, self.host, &subset).err()
        });
        let alone: Reasons = alone.flatten().collect();
        if alone.is_empty() { reasons } else { alone }
    }

    /// Leaves out all that variables with a name are for, unless one partition has all of it: a
    /// kernel keeps their values for itself.
    fn scattered(&self, plan: &[usize], chosen: &[usize], parts: &[GraphPart]) -> Reasons {
        let uses = |node: &&usize| VARIABLES.contains(&self.source.name(**node));
        let has_all = |part: &GraphPart| {
            plan.iter().filter(uses).all(|node| part.subset.nodes.contains(node))
        };
        if parts.iter().any(has_all) {
            return Reasons::new();
        }
        let why = "its value is used outside of one partition";
        chosen.iter().filter(uses).map(|&node| (node, why.to_owned())).collect()
    }

    /// Leaves out partitions that are not worth a hand-off; `all` is the number of nodes.
    fn too_small(&self, parts: &mut Vec<GraphPart>, all: usize) -> Reasons {
        let DelegateOptions { min_nodes, max_partitions, .. } = *self.settings;
        let size = |part: &GraphPart| part.subset.nodes.len();
        let mut out: Vec<(GraphPart, String)> = Vec::new();
        let is_small = |part: &mut GraphPart| size(part) < min_nodes && size(part) < all;
        for part in parts.extract_if(.., is_small) {
            let why = format!("a partition of {}, with min-nodes={min_nodes}", size(&part));
            out.push((part, why));
        }
        parts.sort_by_key(|part| std::cmp::Reverse(size(part)));
        let most = max_partitions;
        for part in parts.split_off(most.min(parts.len())) {
            let why = format!("a partition of {}, with max-partitions={most}", size(&part));
            out.push((part, why));
        }
        let reasons = out
            .iter()
            .flat_map(|(part, why)| part.subset.nodes.iter().map(|&node| (node, why.clone())));
        reasons.collect()
    }
}

/// A summary of the choice, in lines for the user.
pub(crate) fn summary(claim: &Claim, source: &GraphModel, device: &str) -> Vec<String> {
    let taken: usize = claim.parts.iter().map(|part| part.subset.nodes.len()).sum();
    let all = taken + claim.left.len();
    let parts = match claim.parts.len() {
        0 => String::new(),
        1 => ", in one partition".to_owned(),
        several => format!(", in {several} partitions"),
    };
    let mut lines = vec![format!("{taken} of {all} operators run on {device}{parts}")];
    let mut by_reason: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (&node, why) in &claim.left {
        by_reason.entry((source.name(node), why)).or_default().push(node.to_string());
    }
    for ((name, why), nodes) in by_reason {
        lines.push(format!("left to the interpreter: {name} ({}): {why}", nodes.join(", ")));
    }
    lines
}
