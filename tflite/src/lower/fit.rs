//! Shapes that an operator can't take, in graphs whose inputs were resized.
//!
//! Extents that don't go together leave those of the result unknown, as extents do that a run
//! decides, and a driver would find them when it runs. TFLite refuses them when an interpreter
//! allocates its tensors, and so does the import where the shapes say enough.

use super::{Lower, axis_of};
use crate::schema::Builtin;
use crate::schema::options;

impl Lower<'_, '_> {
    /// The reason why the shapes of the operator's inputs don't go together; `None` where they do,
    /// where they are not known, or the file's own.
    pub(super) fn misfit(&self) -> Option<String> {
        let tensors = &self.import.graph.tensors;
        if !self.op.outputs.iter().any(|&output| tensors[output].is_shape_open) {
            return None;
        }
        match self.builtin() {
            Builtin::Conv2d => self.conv_misfit(false),
            Builtin::DepthwiseConv2d => self.conv_misfit(true),
            Builtin::AveragePool2d | Builtin::MaxPool2d | Builtin::L2Pool2d => {
                let input = self.dims(0)?;
                let why = || format!("its windows don't fit into an input of shape {input:?}");
                self.gives_nothing().then(why)
            }
            Builtin::FullyConnected => {
                let (input, weights) = (self.dims(0)?, self.dims(1)?);
                let depth = *weights.get(1)?;
                let rest = elements(&input).checked_rem(u64::from(depth))?;
                let why = || format!("an input of shape {input:?} has no rows of {depth} elements");
                (rest != 0).then(why)
            }
            Builtin::Reshape => {
                let (input, output) = (self.dims(0)?, self.inferred(0)?);
                let why = || format!("an input of shape {input:?} can't take the shape {output:?}");
                (elements(&input) != elements(&output)).then(why)
            }
            Builtin::Concatenation => self.joined_misfit(),
            Builtin::Add | Builtin::Sub | Builtin::Mul | Builtin::Div => {
                let (a, b) = (self.dims(0)?, self.dims(1)?);
                let why = || format!("inputs of shapes {a:?} and {b:?} can't be broadcast");
                self.inferred(0).is_none().then(why)
            }
            _ => None,
        }
    }

    fn conv_misfit(&self, is_depthwise: bool) -> Option<String> {
        let (input, filter) = (self.dims(0)?, self.dims(1)?);
        let why = || Some(format!("a filter of shape {filter:?} on an input of shape {input:?}"));
        let (&[.., depth], &[_, _, _, last]) = (&input[..], &filter[..]) else { return why() };
        // A filter may see a part of the channels, and a depthwise one give several for each.
        let rest = if is_depthwise { last.checked_rem(depth) } else { depth.checked_rem(last) };
        if rest != Some(0) || self.gives_nothing() { why() } else { None }
    }

    /// Returns whether the inputs' shapes leave the result none, or one without elements, which
    /// nobody resizes an input for. (In a file's own shapes it stands as it is.)
    fn gives_nothing(&self) -> bool {
        self.inferred(0).is_none_or(|dims| dims.contains(&0))
    }

    fn joined_misfit(&self) -> Option<String> {
        use options::concatenation as o;
        let first = self.dims(0)?;
        let axis = self.options(o::KIND).ok()?.int(o::AXIS, 0).ok()?;
        let axis = axis_of(i64::from(axis), first.len()).ok()?;
        for argument in 1..self.op.inputs.len() {
            let other = self.dims(argument)?;
            let mut extents = first.iter().zip(&other).enumerate();
            if other.len() != first.len() || extents.any(|(at, (a, b))| at != axis && a != b) {
                let why = format!("inputs of shapes {first:?} and {other:?} joined along {axis}");
                return Some(why);
            }
        }
        None
    }
}

fn elements(dims: &[u32]) -> u64 {
    dims.iter().fold(1, |all, &extent| all.saturating_mul(u64::from(extent)))
}
