//! Reads a catalog from bytes, one record at a time.

use std::io::Read;

use super::guard::{BadLine, Guard};
use super::layout::{Columns, Layout};
use super::row::{Found, Record};
use super::settle::Drafts;
use super::{Catalog, Error, Options, Rule};

/// Most records of one file, so that a wrong file cannot fill the memory.
pub const ROWS_MAX: u64 = 5_000_000;

/// Reads a catalog in any known layout.
///
/// # Errors
/// When the file cannot be read or its shape is wrong; single bad values are quarantined instead.
pub fn read(input: impl Read, options: &Options) -> Result<Catalog, Error> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(Guard::new(input));
    let mut values = csv::ByteRecord::new();
    let mut catalog = Catalog::default();
    if !reader.read_byte_record(&mut values).map_err(csv_error)? {
        return Ok(catalog);
    }
    let columns = header(&values)?;
    check_provider(&columns, options)?;
    catalog.layout = Some(columns.layout);
    let mut drafts = Drafts::default();
    while reader.read_byte_record(&mut values).map_err(csv_error)? {
        if values.len() == 1 && values[0].trim_ascii().is_empty() {
            continue;
        }
        catalog.records += 1;
        if catalog.records > ROWS_MAX {
            return Err(Error::TooManyRows);
        }
        // The guard leaves no record that spans lines, so the reader stands on the line after this one.
        let line = reader.position().line() - 1;
        record(&columns, &values, options, line, &mut catalog, &mut drafts);
    }
    drafts.settle(columns.layout, &mut catalog);
    Ok(catalog)
}

fn record(
    columns: &Columns,
    values: &csv::ByteRecord,
    options: &Options,
    line: u64,
    catalog: &mut Catalog,
    drafts: &mut Drafts,
) {
    if values.len() != columns.width {
        let found = format!("{} values, {} columns", values.len(), columns.width);
        return catalog.quarantine(line, "(whole record)", Rule::WrongWidth, &found);
    }
    Record { columns, values, options }.read(&mut |found| match found {
        Found::Offer(row) => drafts.push(line, row),
        Found::Fault(fault) => {
            catalog.quarantine(line, columns.layout.name_of(fault.field), fault.rule, &fault.value);
        }
        Found::Unpriced => catalog.unpriced += 1,
    });
}

fn header(values: &csv::ByteRecord) -> Result<Columns, Error> {
    let names: Vec<String> =
        values.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(first) = names.first_mut() {
        *first = first.trim_start_matches('\u{feff}').trim_matches('"');
    }
    Columns::detect(&names)
}

fn check_provider(columns: &Columns, options: &Options) -> Result<(), Error> {
    if columns.layout == Layout::Leeway {
        return Ok(());
    }
    let provider = options.provider.as_deref().ok_or(Error::NoProvider { layout: columns.layout })?;
    let parsed: Result<leeway_model::cluster::Region, _> = format!("{provider}/x").parse();
    parsed.map(|_| ()).map_err(|_| Error::BadProvider { provider: leeway_model::name::escape(provider) })
}

fn csv_error(error: csv::Error) -> Error {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<BadLine>()) {
            Some(bad) => Error::Line { line: bad.line, reason: bad.fault.to_string() },
            None => Error::Io(error),
        },
        other => Error::Line { line, reason: format!("{other:?}") },
    }
}
