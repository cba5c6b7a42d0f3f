//! A table as the console answers it: columns and rows, and their messages.

use wire::backend::{Column, Format};
use wire::write;

/// A column's type, as PgBouncer declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    /// int4.
    Int,
    /// int8.
    BigInt,
    Numeric,
}

pub type Columns = &'static [(&'static str, Kind)];

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Null,
    Text(String),
    Number(u64),
}

pub type Row = Vec<Value>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub columns: Columns,
    pub rows: Vec<Row>,
}

/// A row out of anything that is a [`Value`].
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::control::console::table::Value::from($value)),*] };
}
pub(super) use row;

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as u64)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Number(yes.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// In which format each column is wanted (manual: "Bind", result-column format codes).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Formats {
    All(Format),
    Each(Vec<Format>),
}

impl Formats {
    pub const TEXT: Formats = Formats::All(Format::Text);

    fn of(&self, column: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(column).copied().unwrap_or(Format::Text),
        }
    }
}

/// RowDescription.
pub fn describe(out: &mut Vec<u8>, columns: Columns, formats: &Formats) {
    let column = |(index, (name, kind)): (usize, &(&'static str, Kind))| Column {
        format: formats.of(index),
        ..Column::new(name.as_bytes(), kind.oid(), kind.len())
    };
    let columns: Vec<Column<'_>> = columns.iter().enumerate().map(column).collect();
    write::row_description(out, &columns);
}

/// DataRow.
pub fn data_row(out: &mut Vec<u8>, columns: Columns, row: &Row, formats: &Formats) {
    debug_assert_eq!(columns.len(), row.len());
    let encoded = row
        .iter()
        .zip(columns)
        .enumerate()
        .map(|(index, (value, (_, kind)))| kind.encode(value, formats.of(index)));
    let values: Vec<Option<Vec<u8>>> = encoded.collect();
    write::data_row(out, values.iter().map(Option::as_deref));
}

impl Kind {
    /// PostgreSQL's number of the type.
    fn oid(self) -> u32 {
        match self {
            Kind::Text => 25,
            Kind::Int => 23,
            Kind::BigInt => 20,
            Kind::Numeric => 1700,
        }
    }

    fn len(self) -> i16 {
        match self {
            Kind::Int => 4,
            Kind::BigInt => 8,
            Kind::Text | Kind::Numeric => -1,
        }
    }

    fn encode(self, value: &Value, format: Format) -> Option<Vec<u8>> {
        match (value, format) {
            (Value::Null, _) => None,
            (Value::Text(text), _) => Some(until_nul(text)),
            (Value::Number(number), Format::Text) => Some(number.to_string().into_bytes()),
            (Value::Number(number), Format::Binary) => Some(self.binary(*number)),
        }
    }

    fn binary(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Text => number.to_string().into_bytes(),
            Kind::Int => i32::try_from(number)
                .unwrap_or(i32::MAX)
                .to_be_bytes()
                .into(),
            Kind::BigInt => i64::try_from(number)
                .unwrap_or(i64::MAX)
                .to_be_bytes()
                .into(),
            Kind::Numeric => numeric(number),
        }
    }
}

fn until_nul(text: &str) -> Vec<u8> {
    text.bytes().take_while(|byte| *byte != 0).collect()
}

/// PostgreSQL's binary numeric: a count of digits to base 10,000, the first one's weight, sign, scale, then the digits.
fn numeric(mut number: u64) -> Vec<u8> {
    const BASE: u64 = 10_000;
    let mut digits: Vec<u16> = Vec::new();
    while number > 0 {
        digits.insert(0, (number % BASE) as u16);
        number /= BASE;
    }
    let count = digits.len() as u16;
    let head = [count, count.saturating_sub(1), 0, 0];
    head.iter()
        .chain(&digits)
        .flat_map(|word| word.to_be_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_binary() {
        assert_eq!(Kind::Int.binary(7), [0, 0, 0, 7]);
        assert_eq!(Kind::BigInt.binary(7), [0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(Kind::Numeric.binary(0), [0; 8]);
        assert_eq!(
            Kind::Numeric.binary(10_000),
            [0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        assert_eq!(
            Kind::Numeric.binary(123_456),
            [0, 2, 0, 1, 0, 0, 0, 0, 0, 12, 0x0d, 0x80]
        );
    }

    #[test]
    fn a_row_becomes_one_message() {
        const COLUMNS: Columns = &[("a", Kind::Text), ("b", Kind::Int), ("c", Kind::Text)];
        let mut out = Vec::new();
        data_row(
            &mut out,
            COLUMNS,
            &row!["x\0y", 12u32, None::<u32>],
            &Formats::TEXT,
        );
        assert_eq!(
            out,
            b"D\0\0\0\x15\0\x03\0\0\0\x01x\0\0\0\x0212\xff\xff\xff\xff"
        );
    }
}
