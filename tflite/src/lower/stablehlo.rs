//! Operators whose options are lists of dimensions, or a graph of one operator: those of STABLEHLO.

use nnburst_hal::OperandType;

use super::{Lower, Lowered};
use crate::flatbuffer::Field;
use crate::schema::Builtin;
use crate::schema::options::{Fields, OptionsKind};

const PAD: OptionsKind = OptionsKind::new(10, "StablehloPadOptions");
const SCATTER: OptionsKind = OptionsKind::new(7, "StablehloScatterOptions");
const GATHER: OptionsKind = OptionsKind::new(16, "StablehloGatherOptions");
const STABLEHLO_WINDOW: OptionsKind = OptionsKind::new(13, "StablehloReduceWindowOptions");
const GENERATOR: OptionsKind = OptionsKind::new(19, "StablehloRngBitGeneratorOptions");
const WINDOW: OptionsKind = OptionsKind::new(20, "ReduceWindowOptions");

/// Where a broken options table is reported.
const OPTION: &str = "Operator.builtin_options_2";

/// Returns whether the options of an operator are read here.
pub(super) fn has_own_options(builtin: Builtin) -> bool {
    matches!(
        builtin,
        Builtin::StablehloScatter
            | Builtin::StablehloGather
            | Builtin::StablehloReduceWindow
            | Builtin::StablehloRngBitGenerator
            | Builtin::ReduceWindow
    )
}

impl<'a> Lower<'_, 'a> {
    fn second_options(&self, kind: OptionsKind) -> Lowered<Fields<'a>> {
        Ok(self.op.options_2.of(kind)?)
    }

    /// The lists among an operator's options as constants, which follow its tensors.
    pub(super) fn lists(&mut self, builtin: Builtin) -> Lowered<Vec<u32>> {
        let (kind, slots): (_, &[usize]) = match builtin {
            Builtin::StablehloPad => (PAD, &[0, 1, 2]),
            Builtin::StablehloScatter => (SCATTER, &[1, 2, 3]),
            Builtin::StablehloGather => (GATHER, &[0, 1, 2, 4]),
            Builtin::StablehloReduceWindow => (STABLEHLO_WINDOW, &[0, 1, 2, 3, 4]),
            _ => return Ok(Vec::new()),
        };
        let options = self.second_options(kind)?;
        let mut lists = Vec::new();
        for &slot in slots {
            lists.push(options.longs(Field::new(slot, OPTION))?);
        }
        // Strides and dilations that are left out are 1, borders 0.
        if builtin == Builtin::StablehloReduceWindow {
            let rank = lists[0].len();
            for (at, list) in lists.iter_mut().enumerate().filter(|(_, list)| list.is_empty()) {
                *list = if at == 4 { vec![0; 2 * rank] } else { vec![1; rank] };
            }
        }
        lists.into_iter().map(|list| self.list(&list)).collect()
    }

    /// A list as a constant; one without entries is left out.
    fn list(&mut self, list: &[i64]) -> Lowered<u32> {
        let narrow = list.iter().map(|&entry| i32::try_from(entry)).collect::<Result<Vec<_>, _>>();
        let narrow = narrow.map_err(|_| format!("its options {list:?} are beyond 32 bits"))?;
        Ok(match narrow.is_empty() {
            true => self.builder().omitted(OperandType::TensorInt32, 1),
            false => self.builder().ints(&narrow),
        })
    }

    /// The other options of those operators as operands.
    pub(super) fn own_options(&mut self, builtin: Builtin) -> Lowered<Vec<u32>> {
        let values = match builtin {
            Builtin::StablehloScatter => {
                let options = self.second_options(SCATTER)?;
                let graph = options.int(Field::new(6, OPTION), 0)?;
                vec![self.dimension(&options, 4)?, self.scattered(graph)?]
            }
            Builtin::StablehloGather => {
                let options = self.second_options(GATHER)?;
                vec![self.dimension(&options, 3)?]
            }
            Builtin::StablehloReduceWindow => {
                let graph = self.second_options(STABLEHLO_WINDOW)?.int(Field::new(5, OPTION), 0)?;
                vec![self.reduced(graph)?]
            }
            Builtin::StablehloRngBitGenerator => {
                let algorithm = self.second_options(GENERATOR)?.byte(Field::new(0, OPTION))?;
                vec![i32::from(algorithm)]
            }
            _ => vec![self.second_options(WINDOW)?.int(Field::new(0, OPTION), 0)?],
        };
        Ok(values.into_iter().map(|value| self.builder().int(value)).collect())
    }

    fn dimension(&self, options: &Fields<'_>, slot: usize) -> Lowered<i32> {
        let value = options.long(Field::new(slot, OPTION))?;
        i32::try_from(value).map_err(|_| format!("dimension {value} is beyond 32 bits").into())
    }

    /// The only operator of a graph of the file; none where the graph has none.
    fn only_operator(&self, graph: i32) -> Lowered<Option<Builtin>> {
        let file = self.import.file;
        let found = usize::try_from(graph).ok().and_then(|graph| file.graphs.get(graph));
        let found = found.ok_or_else(|| format!("there is no graph {graph}"))?;
        match &found.operators[..] {
            [] => Ok(None),
            [only] => Ok(Some(file.codes[only.code].builtin)),
            more => Err(format!("{} operators combine its elements", more.len()).into()),
        }
    }

    /// The combination that scatters, as the extension numbers them.
    fn scattered(&self, graph: i32) -> Lowered<i32> {
        Ok(match self.only_operator(graph)? {
            None => 0,
            Some(Builtin::StablehloAdd) => 1,
            Some(Builtin::StablehloMultiply) => 2,
            Some(Builtin::StablehloMinimum) => 3,
            Some(Builtin::StablehloMaximum) => 4,
            Some(other) => return Err(format!("{} does not scatter", other.name()).into()),
        })
    }

    /// The combination that reduces windows.
    fn reduced(&self, graph: i32) -> Lowered<i32> {
        Ok(match self.only_operator(graph)? {
            Some(Builtin::Add | Builtin::StablehloAdd) => 1,
            Some(Builtin::Mul | Builtin::StablehloMultiply) => 2,
            Some(Builtin::Minimum | Builtin::StablehloMinimum) => 3,
            Some(Builtin::Maximum | Builtin::StablehloMaximum) => 4,
            Some(Builtin::LogicalAnd | Builtin::StablehloAnd) => 5,
            Some(Builtin::LogicalOr | Builtin::StablehloOr) => 6,
            other => {
                let name = other.map_or("nothing", Builtin::name);
                return Err(format!("{name} does not reduce windows").into());
            }
        })
    }
}
