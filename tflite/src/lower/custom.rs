//! Custom operators that the extension has: their names in files, and their options.
//!
//! MediaPipe's files hold the interpreter's structs of options as they are in memory, others a
//! FlexBuffer.

use nnburst_hal::tflite_extension::{ExtensionOperation, OperationOption, OptionType};

use super::{Lower, Lowered};
use crate::schema::FlexMap;

/// The names in files, and the operations' numbers.
const NAMES: [(&str, u16); 8] = [
    ("Convolution2DTransposeBias", 1024),
    ("MaxPoolingWithArgmax2D", 1025),
    ("MaxPoolWithArgmax", 1025),
    ("MaxPoolWithArgmax2D", 1025),
    ("MaxUnpooling2D", 1026),
    ("AudioSpectrogram", 1027),
    ("Mfcc", 1028),
    ("aeq.hadamard_rotation", 1029),
];

/// The operation of a custom operator.
pub(super) fn number(name: &str) -> Option<u16> {
    NAMES.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
}

impl Lower<'_, '_> {
    /// The options as operands.
    pub(super) fn custom_options(&mut self, about: &ExtensionOperation) -> Lowered<Vec<u32>> {
        match about.number {
            1024..=1026 => self.image_options(about.options.len()),
            _ => self.whole_options(about.options),
        }
    }

    /// Numbers of a FlexBuffer by the options' own names: 0 where there is none, and whole, as the
    /// interpreter takes them.
    fn whole_options(&mut self, options: &[OperationOption]) -> Lowered<Vec<u32>> {
        let map = FlexMap::root(self.op.custom).ok_or("its options are no map")?;
        let operand = |option: &OperationOption| {
            #[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
            let value = map.number(option.name).unwrap_or(0.0) as i32;
            match option.kind {
                OptionType::Int => self.builder().int(value),
                #[expect(clippy::cast_precision_loss, reason = "as the interpreter does")]
                OptionType::Float => self.builder().float(value as f32),
                OptionType::Bool => self.builder().boolean(value != 0),
            }
        };
        Ok(options.iter().map(operand).collect())
    }

    /// Padding and strides, then, where there are six, the filter and the activation.
    fn image_options(&mut self, count: usize) -> Lowered<Vec<u32>> {
        let options = match FlexMap::root(self.op.custom) {
            Some(map) => named(&map, count > 3)?,
            None => packed(self.op.custom, count)?,
        };
        Ok(options.into_iter().map(|value| self.builder().int(value)).collect())
    }
}

/// The fields of a struct, each of 32 bits. Its paddings count from 1.
fn packed(bytes: &[u8], count: usize) -> Lowered<Vec<i32>> {
    let fields = bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes));
    let mut fields: Vec<i32> = fields.take(count).collect();
    match fields.first_mut() {
        Some(padding @ 1..=2) if bytes.len() / 4 >= count => *padding -= 1,
        _ => return Err("its options are broken".into()),
    }
    Ok(fields)
}

/// The same of a map.
fn named(map: &FlexMap<'_>, has_filter: bool) -> Lowered<Vec<i32>> {
    let padding = match map.text("padding") {
        Some("SAME") => 0,
        Some("VALID") => 1,
        padding => return Err(format!("its padding is {padding:?}").into()),
    };
    if map.number("include_batch_in_index").is_some_and(|flag| flag != 0.0) {
        return Err("its places count over all batches".into());
    }
    let [height, width] = pair(map, &["strides"])?;
    let mut options = vec![padding, width, height];
    if has_filter {
        let [height, width] = pair(map, &["ksize", "pool_size"])?;
        options.extend([width, height, 0]);
    }
    Ok(options)
}

/// Height and width of what has one of these names, alone or between ones for batch and channels.
fn pair(map: &FlexMap<'_>, names: &[&str]) -> Lowered<[i32; 2]> {
    let numbers = names.iter().find_map(|name| map.numbers(name));
    #[expect(clippy::cast_possible_truncation, reason = "saturating, and checked by the device")]
    let pair = match numbers.as_deref() {
        Some(&[height, width] | &[1.0, height, width, 1.0]) => [height as i32, width as i32],
        _ => return Err(format!("its {} are {numbers:?}", names[0]).into()),
    };
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use nnburst_hal::tflite_extension::{FIRST_CUSTOM, OPERATIONS};

    use super::*;

    #[test]
    fn every_custom_operation_has_a_name_in_files() {
        for about in OPERATIONS.iter().filter(|about| about.number >= FIRST_CUSTOM) {
            assert!(NAMES.iter().any(|&(_, number)| number == about.number), "{}", about.name);
        }
        assert!(NAMES.iter().all(|&(name, at)| at >= FIRST_CUSTOM && number(name) == Some(at)));
        assert_eq!(number("Mystery"), None);
    }

    #[test]
    fn structs_count_paddings_from_one() {
        let bytes = |fields: &[i32]| -> Vec<u8> {
            fields.iter().flat_map(|field| field.to_le_bytes()).collect()
        };
        let fields = [1, 2, 3, 4, 5, 1, 0, 0];
        assert_eq!(packed(&bytes(&fields), 6).unwrap(), [0, 2, 3, 4, 5, 1]);
        assert_eq!(packed(&bytes(&[2, 7, 9]), 3).unwrap(), [1, 7, 9]);
        assert!(packed(&bytes(&[0, 2, 2]), 3).is_err() && packed(&bytes(&[3, 2, 2]), 3).is_err());
        assert!(packed(&bytes(&fields[..5]), 6).is_err() && packed(&[], 3).is_err());
    }
}
