//! Transposed convolutions, whose results may have rows and columns without products.

use nnburst_hal::OperationType;

use super::{Lower, Lowered, int_of};
use crate::schema::options::transpose_conv as o;

impl Lower<'_, '_> {
    pub(super) fn transpose_conv(&mut self) -> Lowered {
        let options = self.options(o::KIND)?;
        let input = self.input(2)?;
        let filter = self.weights(1, input)?;
        let filter_dims = self.known_dims(filter)?;
        let &[outputs, _, _, _] = filter_dims.as_slice() else {
            return Err(format!("its filter has the shape {filter_dims:?}").into());
        };
        self.check_channel_dim(filter, 0)?;
        let bias = self.bias(3, input, filter, outputs)?;
        let implicit = self.padding_and_strides(&options, o::PADDING, o::STRIDE_W, o::STRIDE_H)?;
        let inputs = match self.rests(input, &filter_dims)? {
            Some([rows, columns]) => {
                let input = self.lengthened(input, [rows.more, columns.more])?;
                let sides = [0, columns.tail, 0, rows.tail].map(|side| self.builder().int(side));
                [&[input, filter, bias], &sides[..], &implicit[1..]].concat()
            }
            None => [&[input, filter, bias, self.input(0)?], &implicit[..]].concat(),
        };
        let activation = self.activation(options.byte(o::ACTIVATION)?)?;
        let nchw = self.builder().boolean(false);
        let output = self.output(0, None)?;
        let inputs = [inputs, vec![activation, nchw]].concat();
        self.emit(OperationType::TransposeConv2d, &inputs, &[output]);
        Ok(())
    }

    /// Rows and columns where the padding is VALID and a result has some behind its last products,
    /// less than a stride; NNAPI gives it none. `None` where it has none either, and where extents
    /// are not known.
    fn rests(&self, input: u32, filter: &[u32]) -> Lowered<Option<[Rest; 2]>> {
        let options = self.options(o::KIND)?;
        let (input, asked) = (self.import.builder.dims(input), self.constant_dims(0));
        let (&[_, h, w, _], &[_, high, wide, _], Some(&[_, to_h, to_w, _])) =
            (input, filter, asked.as_deref())
        else {
            return Ok(None);
        };
        if options.byte(o::PADDING)? == 0 {
            return Ok(None);
        }
        let rows = Rest::of([h, high, to_h], options.int(o::STRIDE_H, 0)?);
        let columns = Rest::of([w, wide, to_w], options.int(o::STRIDE_W, 0)?);
        let rests = rows.zip(columns).map(|(rows, columns)| [rows, columns]);
        Ok(rests.filter(|rests| rests.iter().any(|rest| rest.more > 0)))
    }

    /// An image with so many rows and columns of zeros behind it.
    fn lengthened(&mut self, image: u32, more: [i32; 2]) -> Lowered<u32> {
        let mut dims = self.known_dims(image)?;
        for (extent, more) in dims[1..].iter_mut().zip(more) {
            *extent = extent.saturating_add(more.unsigned_abs());
        }
        let borders = [0, 0, 0, more[0], 0, more[1], 0, 0];
        let borders = self.builder().int_tensor(&borders, vec![4, 2]);
        let longer = self.builder().like(image, dims);
        self.emit(OperationType::Pad, &[image, borders], &[longer]);
        Ok(longer)
    }
}

/// How rows or columns of a result come to be more than products reach: the image has a pixel more,
/// and what that reaches beyond them is cut off.
#[derive(Clone, Copy)]
struct Rest {
    more: i32,
    tail: i32,
}

impl Rest {
    /// For extents of image, filter and result; `None` where no image has such a result.
    fn of([input, filter, asked]: [u32; 3], stride: i32) -> Option<Self> {
        let stride = u32::try_from(stride).ok()?;
        let reach = input.checked_sub(1)?.checked_mul(stride)?.checked_add(filter)?;
        match asked.checked_sub(reach)? {
            0 => Some(Self { more: 0, tail: 0 }),
            rest if rest < stride => {
                let tail = int_of(usize::try_from(stride - rest).ok()?).ok()?;
                Some(Self { more: 1, tail })
            }
            _ => None,
        }
    }
}
