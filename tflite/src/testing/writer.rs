//! Writes FlatBuffers: a tree of values, laid out so that every offset leads forward.

/// The fields of a table: slot and value.
pub type Fields = Vec<(usize, Value)>;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Value {
    U8(u8),
    I8(i8),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    /// A vector of scalars of so many bytes each.
    Vector(usize, Vec<u8>),
    /// The bytes of a buffer, at a multiple of 16.
    Bytes(Vec<u8>),
    Table(Fields),
    Tables(Vec<Fields>),
    /// So many entries that all lead to one table, as a hostile file has them.
    Repeated(usize, Fields),
}

impl Value {
    /// A vector of 32-bit integers.
    pub fn ints(values: &[i32]) -> Self {
        Self::Vector(4, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A vector of 64-bit integers.
    pub fn longs(values: &[i64]) -> Self {
        Self::Vector(8, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A vector of 32-bit floating point.
    pub fn floats(values: &[f32]) -> Self {
        Self::Vector(4, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A string.
    pub fn text(text: &str) -> Self {
        Self::Vector(1, text.as_bytes().to_vec())
    }

    fn inline(&self) -> Vec<u8> {
        match self {
            Self::U8(value) => vec![*value],
            Self::I8(value) => vec![value.cast_unsigned()],
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::I64(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            _ => vec![0; 4], // an offset, known later
        }
    }
}

/// A FlatBuffer whose root is this table.
pub fn write(root: &Fields, identifier: [u8; 4]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(identifier);
    let at = write_table(&mut out, root);
    patch(&mut out, 0, at);
    out
}

/// Lets the offset at `field` lead to `target`.
fn patch(out: &mut [u8], field: usize, target: usize) {
    let offset = u32::try_from(target - field).unwrap_or(u32::MAX);
    out[field..field + 4].copy_from_slice(&offset.to_le_bytes());
}

fn align(out: &mut Vec<u8>, to: usize, ahead: usize) {
    out.resize((out.len() + ahead).next_multiple_of(to) - ahead, 0);
}

fn write_table(out: &mut Vec<u8>, fields: &Fields) -> usize {
    let slots = fields.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let mut inline = vec![0; 4]; // the offset back to the vtable
    let mut vtable = vec![0u16; slots];
    let mut places = Vec::new();
    for (slot, value) in fields {
        let bytes = value.inline();
        inline.resize(inline.len().next_multiple_of(bytes.len()), 0);
        vtable[*slot] = u16::try_from(inline.len()).unwrap_or(u16::MAX);
        places.push((inline.len(), value));
        inline.extend(bytes);
    }
    let vtable_bytes = 4 + 2 * slots;
    let widest = fields.iter().map(|(_, value)| value.inline().len()).max();
    align(out, widest.unwrap_or(4).max(4), vtable_bytes);
    let start = out.len() + vtable_bytes;
    for word in [vtable_bytes, inline.len()] {
        out.extend(u16::try_from(word).unwrap_or(u16::MAX).to_le_bytes());
    }
    out.extend(vtable.iter().flat_map(|slot| slot.to_le_bytes()));
    let back = i32::try_from(vtable_bytes).unwrap_or(i32::MAX);
    inline[..4].copy_from_slice(&back.to_le_bytes());
    out.extend(inline);
    for (place, value) in places {
        if let Some(target) = write_value(out, value) {
            patch(out, start + place, target);
        }
    }
    start
}

/// Writes what a field refers to; `None` for what lies within the table.
fn write_value(out: &mut Vec<u8>, value: &Value) -> Option<usize> {
    match value {
        Value::Vector(each, bytes) => Some(write_vector(out, bytes, *each, *each)),
        Value::Bytes(bytes) => Some(write_vector(out, bytes, 1, 16)),
        Value::Table(fields) => Some(write_table(out, fields)),
        Value::Tables(tables) => {
            let start = write_vector(out, &vec![0; 4 * tables.len()], 4, 4);
            for (index, table) in tables.iter().enumerate() {
                let at = write_table(out, table);
                patch(out, start + 4 + 4 * index, at);
            }
            Some(start)
        }
        Value::Repeated(count, table) => {
            let start = write_vector(out, &vec![0; 4 * count], 4, 4);
            let at = write_table(out, table);
            for index in 0..*count {
                patch(out, start + 4 + 4 * index, at);
            }
            Some(start)
        }
        _ => None,
    }
}

fn write_vector(out: &mut Vec<u8>, bytes: &[u8], each: usize, to: usize) -> usize {
    align(out, to.max(4), 4);
    let start = out.len();
    out.extend(u32::try_from(bytes.len() / each).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(bytes);
    out.push(0); // strings end with one; it harms nobody else
    start
}
