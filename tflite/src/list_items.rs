//! Lists that a loop writes item by item.
//!
//! TensorFlow's recurrent layers keep their results in a list. Converters write "item `t` becomes
//! `row`" as the items before `t`, the row and the items behind it joined again, whose sizes change
//! with every iteration. As DYNAMIC_UPDATE_SLICE, which is what it means for every `t` that the
//! list has, the shapes stay the same, and a plan holds for all iterations.

use crate::schema::options::{self, OperatorOptions};
use crate::schema::{Builtin, File, Graph, Operator, OperatorCode, Tensor, TensorKind};

/// Lists of more dimensions are left as they are.
const MAX_RANK: usize = 8;

/// An item that becomes another one: operators by their index, tensors likewise.
struct WrittenItem {
    join: usize,
    list: usize,
    row: usize,
    /// The item's number, then what the update's clamping makes 0.
    starts: usize,
    /// The operators that cut the list.
    cuts: [usize; 2],
    /// The operator that computes where the second one begins, and what it computes.
    begin: usize,
    begins: usize,
}

/// A graph with the operator that computes each tensor and nothing else, and the uses of each.
struct Traced<'f, 'g, 'a> {
    file: &'f File<'a>,
    graph: &'g Graph<'a>,
    producers: Vec<Option<usize>>,
    uses: Vec<usize>,
}

/// Writes items in place in the graphs that operators refer to. The file's entry keeps its
/// operators, which callers know by their index.
pub(crate) fn write_in_place(file: &mut File<'_>) {
    let mut graphs = std::mem::take(&mut file.graphs);
    let mut code = None;
    let entry = file.entry;
    let others = graphs.iter_mut().enumerate().filter(|(number, _)| *number != entry);
    for (_, graph) in others {
        let traced = Traced::new(file, graph);
        let items = traced.items();
        if items.is_empty() {
            continue;
        }
        let unused = traced.unused(&items);
        for item in items {
            let code = *code.get_or_insert_with(|| update_code(file));
            let join = &mut graph.operators[item.join];
            join.code = code;
            join.inputs = [item.list, item.row, item.starts].map(Some).to_vec();
            join.options = OperatorOptions::none();
        }
        let mut unused = unused.into_iter();
        graph.operators.retain(|_| !unused.next().unwrap_or(false));
    }
    file.graphs = graphs;
}

/// The index of DYNAMIC_UPDATE_SLICE among the file's codes.
fn update_code(file: &mut File<'_>) -> usize {
    let builtin = Builtin::DynamicUpdateSlice;
    file.codes.iter().position(|code| code.builtin == builtin).unwrap_or_else(|| {
        file.codes.push(OperatorCode { builtin, custom: None, version: 1 });
        file.codes.len() - 1
    })
}

impl<'f, 'g, 'a> Traced<'f, 'g, 'a> {
    fn new(file: &'f File<'a>, graph: &'g Graph<'a>) -> Self {
        let mut producers = vec![None; graph.tensors.len()];
        let mut uses = vec![0; graph.tensors.len()];
        for (at, operator) in graph.operators.iter().enumerate() {
            if let [output] = operator.outputs[..] {
                producers[output] = Some(at);
            }
            operator.inputs.iter().flatten().for_each(|&input| uses[input] += 1);
        }
        graph.outputs.iter().for_each(|&output| uses[output] += 1);
        Self { file, graph, producers, uses }
    }

    fn items(&self) -> Vec<WrittenItem> {
        (0..self.graph.operators.len()).filter_map(|join| self.item(join)).collect()
    }

    /// For each operator whether nothing needs it once items are written in place: the cuts, and
    /// what computed where they begin if nothing else uses it.
    fn unused(&self, items: &[WrittenItem]) -> Vec<bool> {
        let operators = &self.graph.operators;
        let (mut unused, mut uses) = (vec![false; operators.len()], self.uses.clone());
        let mut drop = |operator: usize| {
            if !std::mem::replace(&mut unused[operator], true) {
                operators[operator].inputs.iter().flatten().for_each(|&input| uses[input] -= 1);
            }
            let before = operators[operator].inputs.first().copied().flatten();
            let before = before.filter(|&input| uses[input] == 0);
            before.and_then(|input| self.producers[input]).filter(|&at| self.is_reshape(at))
        };
        for item in items {
            item.cuts.iter().for_each(|&cut| {
                drop(cut);
            });
            // A list of a number is used by the cut alone, or stays.
            let mut behind = Some(item.begin).filter(|_| self.uses[item.begins] == 1);
            while let Some(operator) = behind {
                behind = drop(operator);
            }
        }
        unused
    }

    /// The item that a CONCATENATION writes, if it does that.
    fn item(&self, join: usize) -> Option<WrittenItem> {
        let (_, parts) = self.joined(join)?;
        let &[before, row, behind] = &parts[..] else { return None };
        let is_cut =
            |part: usize| self.uses[part] == 1 && self.builtin_of(part) == Some(Builtin::Slice);
        (is_cut(before) && is_cut(behind)).then_some(())?;
        let cuts = [self.producers[before]?, self.producers[behind]?];
        let [head, tail] = cuts.map(|cut| &self.graph.operators[cut]);
        let (&[Some(list), Some(zeros), Some(starts)], &[Some(same), Some(begins), Some(rest)]) =
            (&head.inputs[..], &tail.inputs[..])
        else {
            return None;
        };
        let is_whole =
            |tensor, value| self.ints(tensor).is_some_and(|all| all.iter().all(|&it| it == value));
        (list == same && is_whole(zeros, 0) && is_whole(rest, -1)).then_some(())?;
        let number = self.number_before(starts, -1)?;
        let next = self.number_before(begins, 0)?;
        (self.is_next(next, number) && self.is_row(row, list, join)).then_some(())?;
        Some(WrittenItem { join, list, row, starts, cuts, begin: self.producers[begins]?, begins })
    }

    /// The tensors that a CONCATENATION joins along the first axis.
    fn joined(&self, operator: usize) -> Option<(&Operator<'a>, Vec<usize>)> {
        use options::concatenation as o;
        let operator = &self.graph.operators[operator];
        (self.builtin(operator) == Builtin::Concatenation).then_some(())?;
        let options = operator.options.of(o::KIND).ok()?;
        let is_plain = options.byte(o::ACTIVATION).ok()? == 0;
        let axis = options.int(o::AXIS, 0).ok()?;
        let parts: Vec<usize> = operator.inputs.iter().copied().collect::<Option<_>>()?;
        let rank = parts.get(1).map_or(0, |&part| self.graph.tensors[part].shape.len());
        let is_first =
            axis == 0 || axis.checked_neg().and_then(|it| usize::try_from(it).ok()) == Some(rank);
        (is_plain && is_first).then_some((operator, parts))
    }

    /// The number in a list of a number and constants of one value.
    fn number_before(&self, list: usize, value: i64) -> Option<usize> {
        let (_, parts) = self.joined(self.producers[list]?)?;
        let (&number, rest) = parts.split_first()?;
        let is_value =
            |&part: &usize| self.ints(part).is_some_and(|all| all.iter().all(|&it| it == value));
        let reshape = self.producers[number].filter(|&at| self.is_reshape(at))?;
        rest.iter().all(is_value).then_some(self.graph.operators[reshape].inputs.first().copied()??)
    }

    /// Returns whether a number is the other and 1.
    fn is_next(&self, next: usize, number: usize) -> bool {
        use options::add as o;
        let Some(sum) = self.producers[next] else { return false };
        let operator = &self.graph.operators[sum];
        let activation = operator.options.of(o::KIND).and_then(|it| it.byte(o::ACTIVATION));
        let is_one = |tensor: Option<usize>| {
            tensor.and_then(|tensor| self.ints(tensor)).is_some_and(|it| it == [1])
        };
        let is_sum = self.builtin(operator) == Builtin::Add && matches!(activation, Ok(0));
        let is_of = |a: Option<usize>, b: Option<usize>| a == Some(number) && is_one(b);
        match operator.inputs[..] {
            [a, b] => is_sum && (is_of(a, b) || is_of(b, a)),
            _ => false,
        }
    }

    /// Returns whether a row is one item of a list, in its type, and the result is such a list.
    fn is_row(&self, row: usize, list: usize, join: usize) -> bool {
        let [row, list] = [row, list].map(|tensor| &self.graph.tensors[tensor]);
        let result = self.graph.operators[join].outputs.first();
        let Some(result) = result.map(|&tensor| &self.graph.tensors[tensor]) else { return false };
        let is_like = |other: &Tensor| {
            other.kind == list.kind
                && other.quantization.scales == list.quantization.scales
                && other.quantization.zero_points == list.quantization.zero_points
        };
        let is_moved = matches!(
            list.kind,
            TensorKind::Float32
                | TensorKind::Int8
                | TensorKind::Int32
                | TensorKind::Int64
                | TensorKind::Bool
        );
        is_moved
            && is_like(row)
            && is_like(result)
            && row.shape.first() == Some(&1)
            && row.signature.first().is_none_or(|&extent| extent == 1)
            && row.shape.len() == list.shape.len()
    }

    fn is_reshape(&self, operator: usize) -> bool {
        let builtin = self.builtin(&self.graph.operators[operator]);
        matches!(builtin, Builtin::Reshape | Builtin::ExpandDims)
    }

    fn builtin(&self, operator: &Operator<'_>) -> Builtin {
        self.file.codes[operator.code].builtin
    }

    fn builtin_of(&self, tensor: usize) -> Option<Builtin> {
        Some(self.builtin(&self.graph.operators[self.producers[tensor]?]))
    }

    /// The few integers of a constant.
    fn ints(&self, tensor: usize) -> Option<Vec<i64>> {
        let tensor = &self.graph.tensors[tensor];
        let data = self.file.data(tensor).filter(|data| data.len() <= 8 * MAX_RANK)?;
        match tensor.kind {
            TensorKind::Int32 => {
                Some(data.as_chunks().0.iter().map(|&it| i32::from_le_bytes(it).into()).collect())
            }
            TensorKind::Int64 => {
                Some(data.as_chunks().0.iter().map(|&it| i64::from_le_bytes(it)).collect())
            }
            _ => None,
        }
    }
}
