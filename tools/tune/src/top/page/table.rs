//! A table whose columns leave when there is no room, and whose rows are sorted by one of them.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::style::Palette;

/// The text of an unknown value.
pub const UNKNOWN: &str = "-";

/// A column of a table of `T`.
pub struct Column<T> {
    pub title: &'static str,
    /// Without the space between columns.
    pub width: u16,
    /// Columns with the highest rank leave first; those with 0 stay.
    pub rank: u8,
    /// On which side the text is.
    pub side: Side,
    pub text: fn(&T) -> String,
    pub order: fn(&T, &T) -> Ordering,
    pub style: fn(&T, Palette) -> Style,
}

/// The side of the text in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
    /// Left; takes the room that is left over.
    Rest,
}

/// The user's choices for a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The column that sorts, by position.
    pub sort: usize,
    pub is_reversed: bool,
    /// The first row that is shown.
    pub scroll: usize,
}

/// Larger numbers first; unknown ones last.
pub fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    let key = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
    key(b).total_cmp(&key(a))
}

/// The columns for a width, by position. Those without a value in any row leave first: a server
/// doesn't report them.
fn fitting<T>(columns: &[Column<T>], rows: &[T], width: u16) -> Vec<usize> {
    let mut most = columns.iter().map(|column| column.rank).max().unwrap_or(0);
    let has_values = |column: &Column<T>| {
        column.rank == 0
            || rows.is_empty()
            || rows.iter().any(|row| !matches!((column.text)(row).as_str(), "" | UNKNOWN))
    };
    let known: Vec<usize> = (0..columns.len()).filter(|&at| has_values(&columns[at])).collect();
    loop {
        let shown: Vec<usize> =
            known.iter().copied().filter(|&at| columns[at].rank <= most).collect();
        let needed: u16 = shown.iter().map(|&at| columns[at].width + 1).sum();
        if most == 0 || needed <= width + 1 {
            return shown;
        }
        most -= 1;
    }
}

/// Draws a table; keeps `view` within the rows. Returns the number of rows that are shown.
pub fn draw<T>(
    frame: &mut Frame<'_>,
    area: Rect,
    palette: Palette,
    columns: &[Column<T>],
    rows: &[T],
    view: &mut View,
) -> usize {
    let shown = fitting(columns, rows, area.width);
    // Of the columns that are shown, so that the user sees what sorts.
    view.sort %= columns.len();
    while !shown.contains(&view.sort) {
        view.sort = (view.sort + 1) % columns.len();
    }
    let room = usize::from(area.height.saturating_sub(1));
    view.scroll = view.scroll.min(rows.len().saturating_sub(room));
    let mut sorted: Vec<&T> = rows.iter().collect();
    sorted.sort_by(|a, b| {
        let order = (columns[view.sort].order)(a, b);
        if view.is_reversed { order.reverse() } else { order }
    });
    let aligned = |text: String, side: Side| match side {
        Side::Right => Line::from(text).right_aligned(),
        Side::Left | Side::Rest => Line::from(text),
    };
    let heading = shown.iter().map(|&at| {
        let column = &columns[at];
        let title = match (at == view.sort, view.is_reversed) {
            (false, _) => column.title.to_string(),
            (true, false) => format!("{}▾", column.title),
            (true, true) => format!("{}▴", column.title),
        };
        Cell::from(aligned(title, column.side)).style(palette.heading())
    });
    let body = sorted.iter().skip(view.scroll).take(room).map(|row| {
        Row::new(shown.iter().map(|&at| {
            let column = &columns[at];
            let text = aligned((column.text)(row), column.side);
            Cell::from(text).style((column.style)(row, palette))
        }))
    });
    let widths = shown.iter().map(|&at| match columns[at].side {
        Side::Rest => Constraint::Min(columns[at].width),
        Side::Left | Side::Right => Constraint::Length(columns[at].width),
    });
    let count = sorted.len().saturating_sub(view.scroll).min(room);
    let table = Table::new(body, widths).header(Row::new(heading)).column_spacing(1);
    frame.render_widget(table, area);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(width: u16, rank: u8) -> Column<f64> {
        Column {
            title: "x",
            width,
            rank,
            side: Side::Right,
            text: |value| format!("{value}"),
            order: |a, b| descending(Some(*a), Some(*b)),
            style: |_, _| Style::new(),
        }
    }

    #[test]
    fn columns_leave_by_rank() {
        let columns = [column(4, 0), column(4, 2), column(4, 1), column(4, 2)];
        assert_eq!(fitting(&columns, &[1.0], 19), [0, 1, 2, 3]);
        assert_eq!(fitting(&columns, &[1.0], 18), [0, 2]);
        assert_eq!(fitting(&columns, &[1.0], 8), [0]);
        assert_eq!(fitting(&columns, &[1.0], 0), [0]);
    }

    #[test]
    fn columns_without_values_leave() {
        let mut columns = [column(4, 0), column(4, 1), column(4, 1)];
        columns[1].text = |_| UNKNOWN.to_string();
        assert_eq!(fitting(&columns, &[1.0, 2.0], 80), [0, 2]);
        assert_eq!(fitting(&columns, &[], 80), [0, 1, 2]);
    }

    #[test]
    fn unknown_numbers_come_last() {
        assert_eq!(descending(Some(1.0), None), Ordering::Less);
        assert_eq!(descending(Some(1.0), Some(2.0)), Ordering::Greater);
    }
}
