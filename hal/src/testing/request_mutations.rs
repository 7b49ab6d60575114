//! Requests with one thing wrong, in the spirit of the conformance suites' `ValidateRequest`.

use crate::types::{DataLocation, Model, Operand, Request, RequestArgument, RequestPool};

/// A request with one thing wrong.
#[derive(Clone, Debug)]
pub struct RequestMutation {
    /// What is wrong, and where.
    pub what: String,
    /// The request.
    pub request: Request,
}

/// Every way to break a valid request for a model with one change; each is to be refused with
/// `INVALID_ARGUMENT` by every way to execute.
pub fn request_mutations(request: &Request, model: &Model) -> Vec<RequestMutation> {
    let mut mutations = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut Request)| {
        let mut request = request.clone();
        change(&mut request);
        mutations.push(RequestMutation { what, request });
    };
    for index in 0..request.inputs.len() {
        add(format!("input {index} removed"), &|request| drop(request.inputs.remove(index)));
    }
    for index in 0..request.outputs.len() {
        add(format!("output {index} removed"), &|request| drop(request.outputs.remove(index)));
    }
    add("one more input".to_owned(), &|request| request.inputs.push(RequestArgument::default()));
    add("one more output".to_owned(), &|request| request.outputs.push(RequestArgument::default()));
    add("a token of 0".to_owned(), &|request| request.pools.push(RequestPool::Token(0)));
    let inputs = request.inputs.iter().zip(&model.main.input_indexes).enumerate();
    for (index, (argument, &operand)) in inputs {
        let operand = &model.main.operands[usize::try_from(operand).unwrap_or(usize::MAX)];
        for (what, broken) in arguments(argument, operand, true) {
            add(format!("input {index} {what}"), &|request| request.inputs[index] = broken.clone());
        }
    }
    let outputs = request.outputs.iter().zip(&model.main.output_indexes).enumerate();
    for (index, (argument, &operand)) in outputs {
        let operand = &model.main.operands[usize::try_from(operand).unwrap_or(usize::MAX)];
        for (what, broken) in arguments(argument, operand, false) {
            add(format!("output {index} {what}"), &|request| {
                request.outputs[index] = broken.clone();
            });
        }
    }
    mutations
}

/// Broken forms of one argument.
fn arguments(
    argument: &RequestArgument,
    operand: &Operand,
    is_input: bool,
) -> Vec<(&'static str, RequestArgument)> {
    let mut broken = Vec::new();
    let mut add = |what, change: &dyn Fn(&mut RequestArgument)| {
        let mut argument = argument.clone();
        change(&mut argument);
        broken.push((what, argument));
    };
    if argument.has_no_value {
        add("left out, with a location", &|argument| argument.location.length = 1);
        add("left out, with dimensions", &|argument| argument.dimensions = vec![1]);
        return broken;
    }
    if argument.location != DataLocation::default() {
        add("left out, with its location", &|argument| argument.has_no_value = true);
    }
    add("in no pool", &|argument| argument.location.pool_index = u32::MAX);
    add("past the end of its pool", &|argument| {
        argument.location.offset = u32::MAX;
        argument.location.length = argument.location.length.max(1);
    });
    add("longer than its pool", &|argument| argument.location.length = u32::MAX);
    let declared = &operand.dimensions;
    if operand.kind.is_scalar() {
        add("a scalar with dimensions", &|argument| argument.dimensions = vec![1]);
    } else if !declared.is_empty() {
        let more = || declared.iter().copied().chain([1]).collect();
        add("of another rank", &|argument| argument.dimensions = more());
    }
    for (at, &extent) in declared.iter().enumerate() {
        if extent != 0 {
            add("of another extent", &|argument| {
                argument.dimensions = declared.clone();
                argument.dimensions[at] = extent.wrapping_add(1);
            });
        }
        if is_input {
            add("of unknown extent", &|argument| {
                argument.dimensions = declared.clone();
                argument.dimensions[at] = 0;
            });
        }
    }
    if is_input && argument.location.length > 1 && operand.data_size().is_some() {
        let needed = operand.data_size().and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        add("one byte too short", &|argument| {
            argument.location.length = needed.saturating_sub(1);
        });
    }
    broken
}
