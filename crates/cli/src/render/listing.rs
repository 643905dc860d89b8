//! Lists that fit: a column in which no row has anything is left out, and where there is little room the columns go
//! first that a person misses least.

use super::{Align, Field, Grid, first_that_fits};
use crate::terminal::View;

/// When a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Always,
    /// Where a row has something in it.
    Filled,
    /// The same, and only while there is room: the highest number goes first.
    Roomy(u8),
}

/// A column's heading, how it stands and when it is shown.
pub type Column = (&'static str, Align, Keep);

/// Rows of as many fields as there are columns.
#[derive(Debug)]
pub struct Listing<const N: usize> {
    columns: [Column; N],
    rows: Vec<[Field; N]>,
}

impl<const N: usize> Listing<N> {
    pub const fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub fn row(&mut self, fields: [Field; N]) {
        self.rows.push(fields);
    }

    /// The widest layout that fits; the narrowest wraps within its columns where not even that does.
    pub fn finish(&self, view: &View) -> String {
        let mut least: Vec<u8> = self.columns.iter().filter_map(|(_, _, keep)| keep.rank()).collect();
        least.sort_unstable();
        least.dedup();
        // Everything first, then without the highest rank, and so on down to what always stays.
        let bounds = std::iter::once(u8::MAX).chain(least.into_iter().rev().map(|rank| rank.saturating_sub(1)));
        let layouts: Vec<_> = bounds.map(|most| move |view: &View| self.layout(most, view)).collect();
        let layouts: Vec<&dyn Fn(&View) -> String> = layouts.iter().map(|one| one as _).collect();
        first_that_fits(view, &layouts)
    }

    /// With the roomy columns up to this rank.
    fn layout(&self, most: u8, view: &View) -> String {
        let is_filled = |index: usize| self.rows.iter().any(|row| row[index].says_something());
        let shown: Vec<bool> = (self.columns.iter().enumerate())
            .map(|(index, (_, _, keep))| match keep {
                Keep::Always => true,
                Keep::Filled => is_filled(index),
                Keep::Roomy(rank) => *rank <= most && is_filled(index),
            })
            .collect();
        let headings: Vec<_> = self
            .columns
            .iter()
            .zip(&shown)
            .filter(|(_, show)| **show)
            .map(|((name, align, _), _)| (*name, *align))
            .collect();
        let mut grid = Grid::new(&headings, view);
        for row in &self.rows {
            grid.cells(row.iter().zip(&shown).filter(|(_, show)| **show).map(|(field, _)| field.clone()));
        }
        grid.finish()
    }
}

impl Keep {
    const fn rank(self) -> Option<u8> {
        match self {
            Self::Roomy(rank) => Some(rank),
            Self::Always | Self::Filled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    const COLUMNS: [Column; 5] = [
        ("A", Align::Left, Keep::Always),
        ("B", Align::Left, Keep::Filled),
        ("C", Align::Left, Keep::Filled),
        ("LESS", Align::Left, Keep::Roomy(1)),
        ("LEAST", Align::Left, Keep::Roomy(2)),
    ];

    fn headings(width: Option<u16>) -> String {
        let mut listing = Listing::new(COLUMNS);
        listing.row(["a".into(), "".into(), "c".into(), "less here".into(), "least here".into()]);
        listing.row(["a".into(), Field::idle("?"), "".into(), "".into(), "".into()]);
        let text = listing.finish(&samples::view(width));
        text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_column_without_anything_in_it_is_left_out() {
        assert_eq!(headings(None), "A C LESS LEAST");
    }

    #[test]
    fn where_there_is_little_room_what_matters_least_goes_first() {
        assert_eq!(headings(Some(30)), "A C LESS LEAST");
        assert_eq!(headings(Some(22)), "A C LESS");
        assert_eq!(headings(Some(20)), "A C LESS");
        assert_eq!(headings(Some(12)), "A C");
    }
}
