//! Tables as Parquet: one row group, columns of texts, whole numbers, numbers and flags.

use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Table, Value};

/// What a column holds: told by the first value that is there.
fn kind(table: &Table, column: usize) -> &Value {
    const TEXT: &Value = &Value::Nothing;
    table.rows.iter().map(|row| &row[column]).find(|value| **value != Value::Nothing).unwrap_or(TEXT)
}

pub(super) fn encode(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let mut fields = Vec::new();
    for (number, name) in table.columns.iter().enumerate() {
        let (physical, converted) = match kind(table, number) {
            Value::Whole(_) => (Physical::INT64, ConvertedType::NONE),
            Value::Real(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Value::Flag(_) => (Physical::BOOLEAN, ConvertedType::NONE),
            Value::Text(_) | Value::Nothing => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let is_text = converted == ConvertedType::UTF8;
        let repetition = if is_text { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(name, physical);
        fields.push(Arc::new(field.with_repetition(repetition).with_converted_type(converted).build()?));
    }
    let schema = Arc::new(Type::group_type_builder("results").with_fields(fields).build()?);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    let mut number = 0;
    while let Some(mut column) = group.next_column()? {
        let values = || table.rows.iter().map(move |row| &row[number]);
        match kind(table, number) {
            Value::Whole(_) => {
                let whole: Vec<i64> = values().map(|v| if let Value::Whole(v) = v { *v } else { 0 }).collect();
                column.typed::<Int64Type>().write_batch(&whole, None, None)?;
            }
            Value::Real(_) => {
                let real: Vec<f64> = values().map(|v| if let Value::Real(v) = v { *v } else { f64::NAN }).collect();
                column.typed::<DoubleType>().write_batch(&real, None, None)?;
            }
            Value::Flag(_) => {
                let flags: Vec<bool> = values().map(|v| *v == Value::Flag(true)).collect();
                column.typed::<BoolType>().write_batch(&flags, None, None)?;
            }
            Value::Text(_) | Value::Nothing => {
                let there: Vec<i16> = values().map(|v| i16::from(*v != Value::Nothing)).collect();
                let texts = values().filter_map(|v| if let Value::Text(v) = v { Some(v.as_str()) } else { None });
                let texts: Vec<ByteArray> = texts.map(ByteArray::from).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, Some(&there), None)?;
            }
        }
        column.close()?;
        number += 1;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

/// Each row of a file, as a reader of it prints it.
#[cfg(test)]
pub(super) fn tests_read(bytes: Vec<u8>) -> Vec<String> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}
