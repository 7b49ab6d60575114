//! Writes FlexBuffers: maps from names to integers.

/// A FlexBuffer whose root is a map of these entries, all of whose words have four bytes.
pub fn flex_map(entries: &[(&str, i32)]) -> Vec<u8> {
    const INT: u8 = 1 << 2 | 2;
    const MAP: u8 = 9 << 2 | 2;
    let mut entries = entries.to_vec();
    entries.sort_unstable();
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
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(std::iter::repeat_n(INT, entries.len()));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(word(bytes.len() - map));
    bytes.extend([MAP, 4]);
    bytes
}
