//! Writes FlexBuffers: maps from names to numbers.

/// A number of a FlexBuffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlexNumber {
    /// A 32-bit integer.
    Int(i32),
    /// A 32-bit floating point number.
    Float(f32),
}

/// A FlexBuffer whose root is a map of these integers.
pub fn flex_map(entries: &[(&str, i32)]) -> Vec<u8> {
    let entries: Vec<_> =
        entries.iter().map(|&(name, value)| (name, FlexNumber::Int(value))).collect();
    flex_numbers(&entries)
}

/// A FlexBuffer whose root is a map of these entries, all of whose words have four bytes.
pub fn flex_numbers(entries: &[(&str, FlexNumber)]) -> Vec<u8> {
    const MAP: u8 = 9 << 2 | 2;
    let mut entries = entries.to_vec();
    entries.sort_unstable_by_key(|&(name, _)| name);
    let mut bytes = Vec::new();
    let mut names = Vec::new();
    for (name, _) in &entries {
        names.push(bytes.len());
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
    bytes.extend(word(entries.len()));
    let vector = bytes.len();
    for name in names {
        bytes.extend(word(bytes.len() - name));
    }
    bytes.extend(word(bytes.len() - vector));
    bytes.extend(word(4));
    bytes.extend(word(entries.len()));
    let map = bytes.len();
    for (_, value) in &entries {
        bytes.extend(match value {
            FlexNumber::Int(value) => value.to_le_bytes(),
            FlexNumber::Float(value) => value.to_le_bytes(),
        });
    }
    bytes.extend(entries.iter().map(|(_, value)| match value {
        FlexNumber::Int(_) => 1 << 2 | 2,
        FlexNumber::Float(_) => 3 << 2 | 2,
    }));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(word(bytes.len() - map));
    bytes.extend([MAP, 4]);
    bytes
}
