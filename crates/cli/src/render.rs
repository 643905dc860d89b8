//! Tables and paragraphs for people: pure functions from answers of the server to text.
//!
//! Light on purpose: no lines are drawn, numbers stand right, and what does not fit the terminal wraps within its column.

pub mod amounts;
pub mod budgets;
pub mod clusters;
pub mod datasets;
pub mod decisions;
pub mod jobs;
pub mod ledger;
pub mod listing;
pub mod offers;
pub mod store;
pub mod webhooks;

#[cfg(test)]
pub mod samples;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use crate::terminal::View;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// How a value stands out where there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Waiting,
    Busy,
    Faint,
}

/// A value of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    text: String,
    tone: Tone,
    /// It is only there because the column is.
    idle: bool,
}

impl Field {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        // What a server sends must not move the cursor.
        let text: String = text.into();
        let text = text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
        Self { text, tone, idle: false }
    }

    /// A value that alone is no reason to show its column, such as a zero or what is unknown.
    pub fn idle(text: impl Into<String>) -> Self {
        Self { idle: true, ..Self::new(text, Tone::Plain) }
    }

    /// The same value, idle where `idle` says so.
    #[must_use]
    pub fn idle_if(self, idle: bool) -> Self {
        Self { idle, ..self }
    }

    /// With more text behind it.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        self.text.push_str(more);
        self
    }

    pub fn says_something(&self) -> bool {
        !self.idle && !self.text.is_empty()
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table without lines.
#[derive(Debug)]
pub struct Grid {
    table: Table,
    columns: Vec<Align>,
}

impl Grid {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)], view: &View) -> Self {
        let mut grid = Self::bare(columns.iter().map(|(_, align)| *align), view);
        grid.table.set_header(columns.iter().map(|(name, _)| Cell::new(name).add_attribute(Attribute::Bold)));
        grid
    }

    /// A table without a heading.
    pub fn bare(columns: impl Iterator<Item = Align>, view: &View) -> Self {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if view.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        match view.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(20)),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        Self { table, columns: columns.collect() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, fields: [Field; N]) {
        self.cells(fields);
    }

    /// Adds a row of any length.
    pub fn cells(&mut self, fields: impl IntoIterator<Item = Field>) {
        self.table.add_row(fields.into_iter().map(|field| {
            let cell = Cell::new(field.text);
            match field.tone {
                Tone::Plain => cell,
                Tone::Good => cell.fg(Color::Green),
                Tone::Bad => cell.fg(Color::Red),
                Tone::Waiting => cell.fg(Color::Yellow),
                Tone::Busy => cell.fg(Color::Cyan),
                Tone::Faint => cell.fg(Color::DarkGrey),
            }
        }));
    }

    /// The text, without blanks at the ends of lines.
    pub fn finish(mut self) -> String {
        for (column, align) in self.table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        trim_ends(&self.table.to_string())
    }
}

/// Lines `name  value`, for one thing with many properties. Empty values are left out.
pub fn properties(rows: &[(&str, Field)], view: &View) -> String {
    let mut grid = Grid::bare([Align::Left, Align::Left].into_iter(), view);
    for (name, field) in rows.iter().filter(|(_, field)| !field.text.is_empty()) {
        grid.row([Field::new(*name, Tone::Faint), field.clone()]);
    }
    grid.finish()
}

/// The widest of these layouts that fits the terminal, given widest first; the last one wraps where none does.
pub fn first_that_fits(view: &View, layouts: &[&dyn Fn(&View) -> String]) -> String {
    let Some((last, others)) = layouts.split_last() else { return String::new() };
    let unbounded = View { width: None, ..*view };
    let fits = |text: &String| view.width.is_none_or(|width| widest_line(text) <= usize::from(width));
    others.iter().map(|layout| layout(&unbounded)).find(fits).unwrap_or_else(|| last(view))
}

/// Columns of the longest line, without what only colours it.
fn widest_line(text: &str) -> usize {
    text.lines().map(visible_width).max().unwrap_or(0)
}

fn visible_width(line: &str) -> usize {
    let mut width = 0;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            width += 1;
        }
    }
    width
}

/// Removes blanks at the ends of lines.
pub fn trim_ends(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Says that a list is empty, and how something gets into it.
pub fn nothing(what: &str, how: &str) -> String {
    format!("no {what}; {how}")
}

/// Text from elsewhere with its control characters made harmless.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
