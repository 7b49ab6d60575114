//! Reasons for refused operations: what the driver takes elsewhere tells what it minds.
//!
//! NNAPI's question has a yes or a no for an answer. Over all models of a run the answers show
//! whether the operation is never taken, or with other types only, or only in other shapes.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::Report;

/// The text of `support` where nothing more is known.
const PLAIN: &str = "refused";

/// Adds to each refusal of a target what its answers to other models say.
pub(super) fn explain(report: &mut Report, target: &str) {
    let mut taken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let results = report.models.iter().filter_map(|model| model.per_target.get(target));
    for op in results.filter_map(|result| result.support.as_ref()).flat_map(|all| &all.ops) {
        if op.taken {
            taken.entry(op.op.clone()).or_default().insert(op.types.join(" "));
        }
    }
    let results = report.models.iter_mut().filter_map(|model| model.per_target.get_mut(target));
    for op in results.filter_map(|result| result.support.as_mut()).flat_map(|all| &mut all.ops) {
        let rest =
            op.why.strip_prefix(PLAIN).filter(|rest| rest.is_empty() || rest.starts_with(';'));
        let Some(rest) = rest.filter(|_| !op.taken) else { continue };
        let types = op.types.join(" ");
        let known = match taken.get(&op.op) {
            None => format!("no {} of any model is taken", op.op),
            Some(all) if all.contains(&types) => {
                format!(
                    "others with these types are taken: shape, parameters or constants ({})",
                    op.shapes
                )
            }
            Some(all) => {
                let all: Vec<_> = all.iter().map(String::as_str).collect();
                format!("it is taken with {}", all.join(", or with "))
            }
        };
        op.why = format!("{PLAIN}: {known}{rest}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::{ModelReport, ModelResult, OpSupport, Support};

    #[test]
    fn refusals_are_explained_by_what_is_taken_elsewhere() {
        let op = |name: &str, types: &str, taken: bool, why: &str| OpSupport {
            op: name.into(),
            types: vec![types.into()],
            shapes: "9 -> 9".into(),
            taken,
            why: why.into(),
            ..OpSupport::default()
        };
        let ops = vec![
            op("ADD", "F", true, ""),
            op("ADD", "F", false, "refused"),
            op("ADD", "Q", false, "refused; nnapi-reference asks 1.00"),
            op("MUL", "F", false, "refused"),
            op("SUB", "F", false, "refused: it needs HAL V1_2, the driver speaks V1_0"),
        ];
        let support = Support { taken: 1, of: 5, partitions: 2, ops };
        let result = ModelResult { support: Some(support), ..ModelResult::default() };
        let per_target = BTreeMap::from([("t0".to_owned(), result)]);
        let models = vec![ModelReport { per_target, ..ModelReport::default() }];
        let mut report = Report { models, ..Report::default() };
        explain(&mut report, "t0");
        let ops = &report.models[0].per_target["t0"].support.as_ref().unwrap().ops;
        let whys: Vec<_> = ops.iter().map(|op| op.why.as_str()).collect();
        assert_eq!(
            whys,
            [
                "",
                "refused: others with these types are taken: shape, parameters or constants (9 -> 9)",
                "refused: it is taken with F; nnapi-reference asks 1.00",
                "refused: no MUL of any model is taken",
                "refused: it needs HAL V1_2, the driver speaks V1_0",
            ]
        );
    }
}
